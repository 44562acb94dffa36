//! Faults of the rules: sessions, runs, forks, restoring, deleting.

use super::{Mutant, On, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "deletes/active-run",
        "A session with an active run is deleted without its fence.",
        On::Memory,
        &[("DEL-005", "expected TK-ACTIVE-RUN, the store said yes")],
    ),
    mutant(
        "deletes/held-session",
        "A session that somebody holds is deleted without its fence.",
        On::Memory,
        &[("DEL-005", "expected TK-LEASE-HELD")],
    ),
    mutant(
        "fork/beyond-the-head",
        "A fork may go beyond its source's head.",
        On::Memory,
        &[("FRK-006", "a fork beyond the head: expected TK-FORK-REFUSED, the store said yes")],
    ),
    mutant(
        "fork/messages-not-counted",
        "A fork does not count the messages that it copies.",
        On::Memory,
        &[("CAP-003", "damage in a store that is well:")],
    ),
    mutant(
        "fork/of-an-active-session",
        "A session with an active run is forked.",
        On::Memory,
        &[("FRK-006", "a fork while a run is active: expected TK-FORK-REFUSED, the store said yes")],
    ),
    mutant(
        "fork/of-two-sources",
        "A child is copied from two sources.",
        On::Memory,
        &[("FRK-008", "a slice of another source: expected TK-INVALID, the store said yes")],
    ),
    mutant(
        "fork/of-what-is-being-written",
        "A session is copied in the commit that adds entries to it.",
        On::Memory,
        &[("FRK-008", "a slice of what the commit appends: expected TK-INVALID, the store said yes")],
    ),
    mutant(
        "fork/slices-in-any-order",
        "A slice is copied that does not follow the one before.",
        On::Memory,
        &[("FRK-008", "a slice from the beginning again: expected TK-STALE-LEAF")],
    ),
    mutant(
        "fork/source-deleted-meanwhile",
        "The source is deleted in the commit that copies from it.",
        On::Memory,
        &[(
            "FRK-008",
            "a slice of what the commit goes on to delete: expected TK-INVALID, the store said yes",
        )],
    ),
    mutant(
        "restore/active-run-arrives-active",
        "A run that was active at its source is active in the copy.",
        On::Memory,
        &[("RST-001", "a row of the copy")],
    ),
    mutant(
        "restore/anybody-gives-it-up",
        "A session that is being built is deleted by others than its builder.",
        On::Memory,
        &[(
            "RST-001",
            "a delete without the lease of a session being built: expected TK-LEASE-LOST, the store sai",
        )],
    ),
    mutant(
        "restore/created-anew",
        "A restored session is as old as its copy.",
        On::Memory,
        &[("RES-006", "the times of a restored session")],
    ),
    mutant(
        "restore/entries-with-gaps",
        "Restored entries may leave numbers out.",
        On::Memory,
        &[(
            "RST-001",
            "an entry out of order of a session being built: expected TK-INVALID, the store said yes",
        )],
    ),
    mutant(
        "restore/events-with-gaps",
        "Restored events may leave numbers out.",
        On::Memory,
        &[("RST-007", "an event that leaves a number out: expected TK-INVALID, the store said yes")],
    ),
    mutant(
        "restore/into-what-is-in-use",
        "Rows are restored into a session in use.",
        On::Memory,
        &[("RST-001", "expected TK-INVALID, the store said yes")],
    ),
    mutant(
        "restore/keys-used-twice",
        "Two restored entries get one key.",
        On::Memory,
        &[("RST-007", "an entry with a used key: expected TK-ALREADY-EXISTS, the store said yes")],
    ),
    mutant(
        "restore/record-over-another",
        "A record is restored over one that is there.",
        On::Memory,
        &[("RST-007", "a record that somebody has: expected TK-ALREADY-EXISTS, the store said yes")],
    ),
    mutant(
        "restore/runs-out-of-order",
        "Restored runs may come in any order.",
        On::Memory,
        &[("RST-007", "a run before the newest: expected TK-INVALID, the store said yes")],
    ),
    mutant(
        "restore/runs-twice",
        "A run is restored over another one.",
        On::Memory,
        &[("RST-007", "a run that was there: expected TK-ALREADY-EXISTS, the store said yes")],
    ),
    mutant(
        "restore/seal-compares-nothing",
        "A session is sealed whatever arrived.",
        On::Memory,
        &[(
            "RST-005",
            "a seal over other rows: when the session was made: expected TK-CORRUPT, the store said yes",
        )],
    ),
    mutant(
        "restore/streams-twice",
        "A stream is restored over another one.",
        On::Memory,
        &[("RST-007", "a stream that was there: expected TK-ALREADY-EXISTS, the store said yes")],
    ),
    mutant(
        "restore/without-the-lease",
        "A session is built without its lease.",
        On::Memory,
        &[(
            "RST-001",
            "exact rows without the lease of a session being built: expected TK-LEASE-LOST, the store s",
        )],
    ),
    mutant(
        "restore/work-on-what-is-built",
        "Ordinary work on a session that is being built passes.",
        On::Memory,
        &[(
            "RST-001",
            "an ordinary append of a session being built: expected TK-NOT-FOUND, the store said yes",
        )],
    ),
    mutant(
        "runs/attempt-after-any",
        "An attempt is started that does not follow the newest one.",
        On::Memory,
        &[("STA-005", "expected TK-VERSION-CONFLICT, the store said yes")],
    ),
    mutant(
        "runs/cancelling-may-go-on",
        "A run that is being cancelled goes back to running.",
        On::Memory,
        &[("STA-001", "expected TK-RUN-STATE, the store said yes")],
    ),
    mutant(
        "runs/completed-reopened",
        "A completed run is reopened.",
        On::Memory,
        &[("STA-003", "expected TK-RUN-STATE")],
    ),
    mutant(
        "runs/from-any-state",
        "A transition passes whatever state it starts from.",
        On::Memory,
        &[("STA-002", "expected TK-RUN-STATE, the store said yes")],
    ),
    mutant(
        "runs/reopened-beside-another",
        "A run is reopened while another one is active.",
        On::Memory,
        &[("STA-003", "expected TK-ACTIVE-RUN, the store said yes")],
    ),
    mutant(
        "runs/started-over-another",
        "A run is started over one with its id.",
        On::Memory,
        &[("STA-005", "expected TK-ALREADY-EXISTS, the store said yes")],
    ),
    mutant(
        "runs/stay-active-when-over",
        "A finished run stays the active one of its session.",
        On::Memory,
        &[("ISO-005", "was refused: the session has an active run")],
    ),
    mutant(
        "runs/table-not-asked",
        "A run moves where the table has no way.",
        On::Memory,
        &[("STA-003", "expected TK-RUN-STATE, the store said yes")],
    ),
    mutant(
        "runs/two-active",
        "A second run is active in a session.",
        On::Memory,
        &[("STA-003", "expected TK-ACTIVE-RUN, the store said yes"), ("STA-004", "runs started in round 0")],
    ),
    mutant(
        "sessions/activity-stays",
        "A change does not move a session to the front.",
        On::Memory,
        &[("PAG-006", "read 0 after a was touched")],
    ),
    mutant(
        "sessions/created-over-another",
        "A session is created over one with its id.",
        On::Memory,
        &[("ID-001", "expected TK-ALREADY-EXISTS, the store said yes")],
    ),
    mutant(
        "sessions/deleted-life-made-again",
        "A commit deletes a session and makes the same life of it again.",
        On::Memory,
        &[("DEL-006", "expected TK-INVALID, the store said yes")],
    ),
    mutant(
        "sessions/former-life-passes",
        "A reference to a former life of a session passes.",
        On::Memory,
        &[("BRA-002", "expected TK-NOT-FOUND, the store said yes")],
    ),
    mutant(
        "sessions/messages-not-counted",
        "A session does not count its messages.",
        On::Memory,
        &[
            ("LIM-007", "messages, of which an unknown kind is none"),
            ("RUN-002", "the message counter beside the head"),
        ],
    ),
    mutant(
        "sessions/preview-of-the-last",
        "The preview is that of the newest user message.",
        On::Memory,
        &[("QRY-005", "the preview after step 2 is Some("), ("RES-008", "the preview in a list")],
    ),
    mutant(
        "sessions/revision-stays",
        "A change does not move the revision.",
        On::Memory,
        &[("RUN-004", "the revision after creation and one commit")],
    ),
    mutant(
        "times/updated-backwards",
        "`updated_at` follows a clock that jumps back.",
        On::Memory,
        &[("RES-006", "updated_at with the clock at"), ("ORD-002", "updated_at moved backwards:")],
    ),
    mutant(
        "usage/run-forgets-the-sum",
        "A run keeps only the usage added last.",
        On::Memory,
        &[("LIM-004", "saturated counters of the run")],
    ),
];
