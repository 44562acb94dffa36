//! Faults of what local backends share, and of pages, cursors and payloads.

use super::{Mutant, On, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "search/oldest-first",
        "A page of hits begins with the last.",
        On::Memory,
        &[("SEA-005", "ranked hits in pages of 2")],
    ),
    mutant(
        "search/phrases-not-preferred",
        "Words that stand one after another are no better than others.",
        On::Memory,
        &[("SEA-005", "ranked hits in pages of 1")],
    ),
    mutant(
        "search/words-begin-anywhere",
        "A term is found in the middle of a word.",
        On::Memory,
        &[("SEA-001", "entries that a search for")],
    ),
    mutant(
        "committer/answers-before-the-sync",
        "A commit is acknowledged before it is durable.",
        On::Sqlite,
        &[
            ("ISO-003", "through handle 0"),
            ("DUR-003", "sessions that a group of appends changed"),
            ("IDM-006", "each job once after the repeats"),
        ],
    ),
    mutant(
        "committer/failed-sync-is-success",
        "A commit whose sync failed is acknowledged.",
        On::Sqlite,
        &[
            ("DUR-004", "whose sync failed: expected TK-COMMIT-UNKNOWN"),
            ("GRP-002", "no commit answered CommitUnknown"),
            ("DUR-009", "was acknowledged and i"),
        ],
    ),
    mutant(
        "committer/forms-not-checked",
        "Sizes and forms of a commit are not checked.",
        On::Sqlite,
        &[("RUN-009", "expected TK-TOO-LARGE, the store said yes")],
    ),
    mutant(
        "committer/group-shares-a-refusal",
        "One refused commit refuses its whole group.",
        On::Sqlite,
        &[("GRP-001", "the good commit 0 was refused")],
    ),
    mutant(
        "committer/last-row-not-written",
        "The last row of each commit is not written.",
        On::Sqlite,
        &[
            ("REC-001", "was refused: there is no such session"),
            ("REC-005", "was refused: there is no such session"),
            ("REC-007", "was refused: there is no such session"),
            ("ISO-004", "session s is not there"),
            ("IDM-003", "was refused: there is no such session"),
        ],
    ),
    mutant(
        "committer/never-waits",
        "A commit that finds the store busy is answered at once.",
        On::Sqlite,
        &[
            ("CON-008", "was refused: another process kept the store busy past the deadline"),
            ("CON-012", "a peer process failed"),
            ("CON-009", "a round that was lost: expected TK-VERSION-CONFLICT"),
        ],
    ),
    mutant(
        "committer/waits-for-ever",
        "A commit stands in line for the right to write past its deadline.",
        On::Sqlite,
        &[("CON-004", "a takeover hangs while another process is stopped")],
    ),
    mutant(
        "cursors/of-any-query",
        "A cursor of another query is taken.",
        On::Memory,
        &[("PAG-004", "events with cursor Some(Cursor(")],
    ),
    mutant(
        "files/backup-over-something",
        "A backup replaces what has its name.",
        On::Redb,
        &[("CAP-002", "a second backup to the same file was accepted")],
    ),
    mutant(
        "files/names-not-synced",
        "A new file gets its name, and the folder that holds it is not synced.",
        On::Redb,
        &[("DUR-006", "an acknowledged commit is lost"), ("DUR-007", "lines, ")],
    ),
    mutant(
        "lists/archived-not-compared",
        "A list shows archived sessions whatever it is asked for.",
        On::Memory,
        &[("QRY-002", "the total of SessionQuery")],
    ),
    mutant(
        "owners/lock-file-stays-open",
        "Each handle leaves a descriptor behind.",
        On::Sqlite,
        &[("RES-001", "descriptors after 20 opens")],
    ),
    mutant(
        "owners/lock-files-stay",
        "The lock files of owners that went away are not removed.",
        On::Sqlite,
        &[("RES-001", "files after 20 opens")],
    ),
    mutant(
        "owners/the-dead-live",
        "A dead owner counts as living.",
        On::Sqlite,
        &[("REC-006", "the owner of the lease on s went away and still counts as living")],
    ),
    mutant(
        "owners/the-living-are-dead",
        "A living owner counts as dead.",
        On::Sqlite,
        &[
            ("LEA-001", "a living owner reads as dead"),
            ("CON-004", "whether a stopped owner lives: expected Some(Alive), saw Some(Dead)"),
        ],
    ),
    mutant(
        "pace/purge-forgotten-at-the-start",
        "A purge that the process before left undone is not gone on with.",
        On::Redb,
        &[("DEL-004", "a purge that was killed does not go on by itself")],
    ),
    mutant(
        "pace/purge-waits-to-be-asked",
        "A deleted session is purged only when somebody asks.",
        On::Sqlite,
        &[("DEL-002", "is not purged while the store is in use")],
    ),
    mutant(
        "pages/end-with-the-first",
        "A full page has no cursor for the rest.",
        On::Memory,
        &[
            ("RUN-007", "attempt 17, given up halfway, left 3 of 5 entries"),
            ("RES-004", "entries of commit 0, acknowledged or answered Closed, in round 0"),
            ("CON-001", "entries of the shared session"),
        ],
    ),
    mutant(
        "pages/latest-is-newest-first",
        "The newest n come newest first.",
        On::Memory,
        &[
            ("ORD-005", "a page of the last 2"),
            ("MOD-002", "no order of a round explains it"),
            ("MOD-004", "the newest entries of"),
        ],
    ),
    mutant(
        "pages/limit-zero-is-served",
        "A limit of 0 answers an empty page.",
        On::Memory,
        &[("PAG-005", "0 entries: expected TK-INVALID, the store said yes")],
    ),
    mutant(
        "pages/of-any-bytes",
        "A page takes any number of bytes.",
        On::Memory,
        &[("QRY-004", "page 0 has 7 items of")],
    ),
    mutant(
        "pages/of-any-length",
        "A page is as long as the caller asks.",
        On::Memory,
        &[("PAG-005", "entries on a page of")],
    ),
    mutant(
        "payloads/of-any-depth",
        "JSON of any depth is taken.",
        On::Memory,
        &[("LIM-005", "expected TK-TOO-LARGE, the store said yes")],
    ),
    mutant(
        "permit/poison-not-looked-at",
        "After a commit of unknown outcome chores go on.",
        On::Redb,
        &[("DUR-004", "a purge after a commit of unknown outcome")],
    ),
    mutant(
        "write-lock/kept",
        "A handle does not give the right to write back.",
        On::Sqlite,
        &[
            ("MOD-003", "the tape was not played within 25s (step 1 of 25, shrunk from 50 in 2 tries:"),
            ("CAP-001", "compact is declared and answered: another process kept the store busy; try again"),
        ],
    ),
];
