//! Faults of memory's own reads and writes.

use super::{Mutant, On, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "memory/search-finds-partials",
        "A search does not look at kind, role and visibility.",
        On::Memory,
        &[("SEA-004", "hits by default")],
    ),
    mutant(
        "memory/closed-handle-goes-on",
        "A closed handle reads and writes on.",
        On::NamedMemory,
        &[("DUR-008", "a commit: expected TK-CLOSED")],
    ),
    mutant(
        "memory/drops-one-too-many",
        "Dropping events drops one too many.",
        On::Memory,
        &[("DEL-006", "events of the other session")],
    ),
    mutant(
        "memory/fork-without-runs",
        "A fork does not get the runs that its entries name.",
        On::Memory,
        &[("FRK-001", "runs of a fork at 1")],
    ),
    mutant(
        "memory/intent-not-compared",
        "A query for one intent's runs gives all.",
        On::Memory,
        &[("QRY-003", "runs that fit RunQuery")],
    ),
    mutant(
        "memory/labels-on-the-path",
        "Entries beside the path are read along it.",
        On::Memory,
        &[("BRA-001", "the path after a commit with a fork in it")],
    ),
    mutant(
        "memory/lease-of-the-dead",
        "The lease of a deleted session is read.",
        On::Memory,
        &[("DEL-001", "its lease is still there")],
    ),
    mutant(
        "memory/lists-what-is-built",
        "Sessions that are being built are listed.",
        On::Memory,
        &[(
            "ID-001",
            "the store answered: there is no such session, or this life of it is over (workspace w, ses",
        )],
    ),
    mutant(
        "memory/marks-stand-still",
        "No change moves the mark of the workspace.",
        On::Memory,
        &[("DEL-006", "the mark of the workspace stood still")],
    ),
    mutant(
        "memory/path-from-anywhere",
        "A path is asked for from an entry that lies on none.",
        On::Memory,
        &[
            ("BRA-002", "the path of entry 3: expected TK-INVALID, the store said yes"),
            ("BRA-004", "the path of entry 6 beside it: expected TK-INVALID, the store said yes"),
        ],
    ),
    mutant(
        "memory/places-counted-per-collection",
        "Places in lists are counted per collection instead of per owner.",
        On::Memory,
        &[("REK-005", "the records of a")],
    ),
    mutant(
        "memory/prefix-is-a-pattern",
        "A prefix with `%` in it matches everything.",
        On::Memory,
        &[("ID-005", "sessions found by")],
    ),
    mutant(
        "memory/purge-stops-at-the-first-record",
        "The purge leaves records and receipts behind.",
        On::Memory,
        &[("DEL-006", "rows in all tables once everything is deleted and purged")],
    ),
    mutant(
        "memory/reads-what-is-built",
        "A session that is being built is read.",
        On::Memory,
        &[("MOD-004", "entries of a session that is being built: expected TK-NOT-FOUND, the store said yes")],
    ),
    mutant(
        "memory/receipt-outlives-its-session",
        "The receipt of a deleted session's request is still known.",
        On::Memory,
        &[("IDM-005", "a request outlived the session that owns it, before its rows were purged")],
    ),
    mutant(
        "memory/records-of-the-dead",
        "Records of deleted sessions are listed.",
        On::Memory,
        &[("REK-002", "a record outlived its owner")],
    ),
    mutant(
        "memory/rows-without-streams",
        "The rows of a session lack its streams.",
        On::Memory,
        &[("PAR-006", "open streams before")],
    ),
    mutant(
        "memory/run-copied-active",
        "An active run is active in the fork.",
        On::Memory,
        &[("FRK-008", "a run that was active, in the child")],
    ),
];
