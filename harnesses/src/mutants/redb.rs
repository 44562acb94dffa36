//! Faults of redb's own reads and writes.

use super::{Mutant, On, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "redb/any-life-is-read",
        "A former life of a session reads as the present one.",
        On::Redb,
        &[("ID-003", "reading beta's session through alpha: expected TK-NOT-FOUND, the store said yes")],
    ),
    mutant(
        "redb/attempt-is-the-oldest",
        "The newest attempt at an intent is taken for the oldest.",
        On::Redb,
        &[("STA-005", "expected TK-VERSION-CONFLICT, the store said yes")],
    ),
    mutant(
        "redb/branches-not-copied",
        "A fork does not get the branches.",
        On::Redb,
        &[
            ("FRK-007", "was refused: the entry lies beside the conversation, so no path leads through it"),
            ("FRK-003", "was refused: the entry lies beside the conversation, so no path leads through it"),
        ],
    ),
    mutant(
        "redb/commits-not-durable",
        "A commit is acknowledged that the engine keeps in memory.",
        On::Redb,
        &[
            ("DUR-001", "was acknowledged and is not there after the kill"),
            ("PAR-005", "was acknowledged and is not there after the kill"),
            ("REC-001", "was acknowledged and is not there after the kill"),
            ("REC-002", "was begun and is gone"),
            ("REC-003", "is not there"),
            ("REC-004", "the store has neither these nor one more"),
            ("RUN-008", "was acknowledged and is not there after the kill"),
        ],
    ),
    mutant(
        "redb/compacts-nothing",
        "A compaction leaves the file as it is.",
        On::Redb,
        &[("CAP-001", "a compaction with much to give back left")],
    ),
    mutant(
        "redb/dead-child-stays-listed",
        "A deleted session stays among its parent's children.",
        On::Redb,
        &[("DEL-002", "rows of all tables after delete and purge")],
    ),
    mutant(
        "redb/drops-one-too-few",
        "Dropping events leaves the last one.",
        On::Redb,
        &[("PAR-002", "pieces left")],
    ),
    mutant(
        "redb/former-owner-keeps-the-record",
        "A record stays listed with its former owner.",
        On::Redb,
        &[("DEL-002", "rows of all tables after the first life")],
    ),
    mutant(
        "redb/kinds-not-indexed",
        "Entries are not found by their kind.",
        On::Redb,
        &[("LIM-007", "entries of an unknown kind"), ("QRY-001", "entries that fit EntryQuery")],
    ),
    mutant(
        "redb/marks-stand-still",
        "What moves no session moves no mark.",
        On::Redb,
        &[
            ("ISO-002", "the workspace's mark does not notice a record that nobody owns"),
            ("RST-006", "the mark of the workspace stood still at the seal"),
        ],
    ),
    mutant(
        "redb/newer-format-opened",
        "A newer format is opened.",
        On::Redb,
        &[("MIG-003", "opening a newer format, attempt 0: expected TK-NEWER-FORMAT, the store said yes")],
    ),
    mutant(
        "redb/old-place-in-lists-stays",
        "A session stays listed at its old place, too.",
        On::Redb,
        &[
            ("ID-005", "sessions in directory"),
            ("CON-010", "sessions of all openers of round 0"),
            ("MIG-004", "sessions by their words"),
        ],
    ),
    mutant(
        "redb/prefix-has-no-end",
        "What is read below a session goes on with the next one.",
        On::Redb,
        &[("ID-003", "alpha's sessions with beta's words")],
    ),
    mutant(
        "redb/purge-forgets-records",
        "The purge leaves records behind.",
        On::Redb,
        &[("DEL-002", "rows of all tables after the first life")],
    ),
    mutant(
        "redb/receipt-outlives-its-session",
        "The receipt of a deleted session's request is still known.",
        On::Redb,
        &[("IDM-005", "a request outlived the session that owns it")],
    ),
    mutant(
        "redb/rows-at-hand-outlive-a-rollback",
        "The writer goes on with rows that were rolled back.",
        On::Redb,
        &[("DUR-005", "is lost; verify the store")],
    ),
    mutant(
        "redb/run-copied-active",
        "An active run is active in the fork.",
        On::Redb,
        &[("FRK-008", "a run that was active, in the child")],
    ),
    mutant(
        "redb/run-of-events-not-compared",
        "A query for one run's events gives all.",
        On::Redb,
        &[("STA-007", "events of a run")],
    ),
    mutant(
        "redb/status-not-compared",
        "A query for records of one status gives all.",
        On::Redb,
        &[("QRY-003", "records that fit RecordQuery")],
    ),
];
