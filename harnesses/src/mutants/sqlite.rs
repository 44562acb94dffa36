//! Faults of SQLite's own reads and writes.

use super::{Mutant, On, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "sqlite/any-life-is-read",
        "A former life of a session reads as the present one.",
        On::Sqlite,
        &[("ID-003", "reading beta's session through alpha: expected TK-NOT-FOUND, the store said yes")],
    ),
    mutant(
        "sqlite/attempt-is-the-oldest",
        "The newest attempt at an intent is taken for the oldest.",
        On::Sqlite,
        &[("STA-005", "expected TK-VERSION-CONFLICT, the store said yes")],
    ),
    mutant(
        "sqlite/batch-forgotten",
        "The newest batch of a stream is not remembered.",
        On::Sqlite,
        &[("PAR-005", "was refused: the stream goes on at another number")],
    ),
    mutant(
        "sqlite/branches-not-copied",
        "A fork does not get the branches.",
        On::Sqlite,
        &[("FRK-001", "the entry lies beside the conversation, so no path leads through it")],
    ),
    mutant(
        "sqlite/commit-in-two-halves",
        "The second half of a commit is a transaction of its own.",
        On::Sqlite,
        &[("DUR-002", "lines, lost: "), ("RST-003", "was refused: there is no such entry")],
    ),
    mutant(
        "sqlite/compacts-nothing",
        "A compaction leaves the file as it is.",
        On::Sqlite,
        &[("CAP-001", "a compaction with much to give back left")],
    ),
    mutant(
        "sqlite/deleted-by-id-only",
        "A deleted session is only hidden.",
        On::Sqlite,
        &[("ID-004", "was refused: a session with this id is there")],
    ),
    mutant(
        "sqlite/drops-one-too-many",
        "Dropping events drops one too many.",
        On::Sqlite,
        &[("STA-007", "events after 0, five dropped"), ("PAG-003", "events after dropped ones")],
    ),
    mutant(
        "sqlite/empty-text-is-none",
        "An empty text is stored as none.",
        On::Sqlite,
        &[("LIM-002", "the entry, fields present: true")],
    ),
    mutant(
        "sqlite/entries-by-time",
        "Entries come by their time.",
        On::Sqlite,
        &[("QRY-004", "entries over all pages, Descending")],
    ),
    mutant(
        "sqlite/fork-without-runs",
        "A fork does not get the runs that its entries name.",
        On::Sqlite,
        &[("FRK-001", "runs of a fork at 1")],
    ),
    mutant(
        "sqlite/key-of-any-session",
        "An entry key is looked up in all sessions.",
        On::Sqlite,
        &[("ISO-005", "was refused: an entry has this key already")],
    ),
    mutant(
        "sqlite/lease-keeps-its-epoch",
        "The next holder's epoch is not written.",
        On::Sqlite,
        &[("CON-005", "was refused: the lease is not held any more")],
    ),
    mutant(
        "sqlite/message-of-any-kind-counted",
        "A fork counts entries that are no messages.",
        On::Sqlite,
        &[("FRK-001", "the message counter of a fork at 3")],
    ),
    mutant(
        "sqlite/meta-written-once",
        "The metadata of a session cannot be changed.",
        On::Sqlite,
        &[("LIM-001", "host data of the session")],
    ),
    mutant(
        "sqlite/newer-format-opened",
        "A newer format is opened.",
        On::Sqlite,
        &[
            ("MIG-003", "opening a newer format, attempt 0: expected TK-NEWER-FORMAT, the store said yes"),
            ("MIG-005", "after the upgrade: expected TK-NEWER-FORMAT, the store said yes"),
        ],
    ),
    mutant(
        "sqlite/no-checkpoint",
        "The write-ahead log is never moved into the database.",
        On::Sqlite,
        &[("RES-003", "the log grew to")],
    ),
    mutant(
        "sqlite/page-begins-with-the-last",
        "A page of sessions begins with the last of the page before.",
        On::Sqlite,
        &[("PAG-002", "a2 came 2 times in a walk by activity")],
    ),
    mutant(
        "sqlite/payload-rewritten",
        "A payload is stored as the engine would write it.",
        On::Sqlite,
        &[("LIM-001", "payloads of entries")],
    ),
    mutant(
        "sqlite/places-alike",
        "The last place given in a list is not kept.",
        On::Sqlite,
        &[("ORD-004", "records by ordinal")],
    ),
    mutant(
        "sqlite/purge-forgets-events",
        "The purge leaves events behind.",
        On::Sqlite,
        &[(
            "DEL-003",
            "the store answered: the database does not hold what it should; verify it, or restore a bac",
        )],
    ),
    mutant(
        "sqlite/purge-forgets-the-index",
        "The purge leaves the words of a session in the index.",
        On::Sqlite,
        &[("SEA-003", "rows of the index after the purge")],
    ),
    mutant(
        "sqlite/purge-forgets-segments",
        "The purge leaves segments behind.",
        On::Sqlite,
        &[("RST-002", "the database does not hold what it should")],
    ),
    mutant(
        "sqlite/purge-takes-neighbours",
        "The purge removes entries of other sessions.",
        On::Sqlite,
        &[(
            "FRK-004",
            "the store answered: entries of the session are missing; verify the store (after_entry 0, s",
        )],
    ),
    mutant(
        "sqlite/reads-what-is-built",
        "A session that is being built is read.",
        On::Sqlite,
        &[
            ("RST-001", "its entries: expected TK-NOT-FOUND, the store said yes"),
            ("FRK-005", "the entries of an unfinished child: expected TK-NOT-FOUND, the store said yes"),
        ],
    ),
    mutant(
        "sqlite/receipt-apart",
        "The receipt of a commit is written in a transaction of its own.",
        On::Sqlite,
        &[("IDM-004", "has another receipt after the kill")],
    ),
    mutant(
        "sqlite/receipt-outlives-its-session",
        "The receipt of a deleted session's request is still known.",
        On::Sqlite,
        &[("IDM-005", "a request outlived the session that owns it, before its rows were purged")],
    ),
    mutant(
        "sqlite/recent-by-id",
        "Sessions by activity come by id.",
        On::Sqlite,
        &[("ID-006", "sessions by their last change")],
    ),
    mutant(
        "sqlite/record-of-any-workspace",
        "A record is looked up in all workspaces.",
        On::Sqlite,
        &[("LEA-004", "was refused: an exclusive record cannot change its owner")],
    ),
    mutant(
        "sqlite/records-of-the-dead",
        "Records of deleted sessions are listed.",
        On::Sqlite,
        &[("RST-001", "records of the collection")],
    ),
    mutant(
        "sqlite/rows-at-hand-outlive-a-rollback",
        "The writer goes on with rows that were rolled back.",
        On::Sqlite,
        &[("DUR-005", "verifying finds damage")],
    ),
    mutant(
        "sqlite/rows-at-hand-outlive-others-commits",
        "The writer goes on with rows that another handle has changed.",
        On::Sqlite,
        &[
            ("MOD-003", "patch"),
            ("CON-011", "a peer process failed"),
            ("CON-002", "was refused: the database does not hold what it should"),
        ],
    ),
    mutant(
        "sqlite/rows-of-every-owner",
        "The records that nobody owns include everybody's.",
        On::Sqlite,
        &[
            ("QRY-003", "rows, and among them records, that nobody owns"),
            ("MIG-001", "rows of a store of format 1"),
        ],
    ),
    mutant(
        "sqlite/run-copied-active",
        "An active run is active in the fork.",
        On::Sqlite,
        &[("FRK-008", "a run that was active, in the child")],
    ),
    mutant(
        "sqlite/run-stays-active",
        "A session keeps its active run when it is over.",
        On::Sqlite,
        &[
            ("STA-001", "the session has an active run in completed"),
            ("STA-006", "the session after closing"),
        ],
    ),
    mutant(
        "sqlite/runs-backwards",
        "Runs asked for newest first come oldest first.",
        On::Sqlite,
        &[("ORD-006", "runs descending in pages of 1")],
    ),
    mutant(
        "sqlite/search-in-every-workspace",
        "A search finds entries of other workspaces.",
        On::Sqlite,
        &[("SEA-004", "hits by default")],
    ),
    mutant(
        "sqlite/search-knows-only-its-index",
        "A search does not look at entries that are not in the index yet.",
        On::Sqlite,
        &[("SEA-002", "in round 0 through the handle that wrote"), ("SEA-001", "entries that a search for")],
    ),
    mutant(
        "sqlite/slice-without-its-last",
        "A fork lacks the last entry of each slice.",
        On::Sqlite,
        &[
            ("FRK-008", "there is no such entry (session with a run"),
            (
                "FRK-002",
                "the store answered: entries of the session are missing; verify the store (after_entry 5, s",
            ),
        ],
    ),
    mutant(
        "sqlite/snapshot-outlives-its-page",
        "A reader keeps the snapshot of its first page.",
        On::Sqlite,
        &[("ISO-003", "entries after the last one, through handle 0")],
    ),
    mutant(
        "sqlite/times-in-seconds",
        "Times are cut to seconds.",
        On::Sqlite,
        &[("LIM-004", "times of entries")],
    ),
    mutant(
        "sqlite/upgrade-loses-a-row",
        "An upgrade drops a row and does not look.",
        On::Sqlite,
        &[("MIG-001", "rows of a store of format 1"), ("MIG-002", "rows of a store of format 1")],
    ),
    mutant(
        "sqlite/version-before-the-tables",
        "An upgrade says the new format before it has made the tables.",
        On::Sqlite,
        &[("MIG-002", "a table of the database is missing or was changed")],
    ),
    mutant(
        "sqlite/unowned-changes-unseen",
        "What moves no session moves no mark.",
        On::Sqlite,
        &[
            ("ISO-002", "the workspace's mark does not notice a record that nobody owns"),
            ("RST-006", "the mark of the workspace stood still at the seal"),
        ],
    ),
];
