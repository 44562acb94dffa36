//! Faults of the rules: entries, paths, events.

use super::{Mutant, On, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "branches/none-begins",
        "An append to an earlier entry begins no branch.",
        On::Memory,
        &[
            ("RES-007", "was refused: there is no such entry"),
            ("ISO-006", "was refused: the entry lies beside the conversation, so no path leads through it"),
            ("RUN-001", "was refused: there is no such entry"),
            ("RES-005", "was refused: there is no such entry"),
        ],
    ),
    mutant(
        "entries/number-given-twice",
        "A number is given to a second entry.",
        On::Memory,
        &[
            ("ORD-001", "load 0 of the batches"),
            ("ID-002", "the entry with key"),
            ("LIM-006", "the last entry of a large batch"),
            ("ORD-008", "the last number of the batch"),
        ],
    ),
    mutant(
        "entries/parent-is-the-head",
        "An append follows the newest entry instead of the leaf.",
        On::Memory,
        &[("PAR-002", "a second finalisation: expected TK-ALREADY-EXISTS")],
    ),
    mutant(
        "events/any-next",
        "Events are appended whatever number the caller expects next.",
        On::Memory,
        &[("PAR-004", "the receipt of a repeat")],
    ),
    mutant(
        "events/drop-keeps-them",
        "Dropping events leaves them there.",
        On::Memory,
        &[("DEL-006", "events of the other session")],
    ),
    mutant(
        "events/number-left-out",
        "The numbers of a stream have gaps.",
        On::Memory,
        &[
            ("RUN-011", "was refused: the stream goes on at another number"),
            ("ORD-007", "the event after 0 was read"),
        ],
    ),
    mutant(
        "events/numbers-begin-again",
        "A stream whose events were dropped numbers from 1 again.",
        On::Memory,
        &[("PAR-003", "expected TK-TURN-NOT-OPEN")],
    ),
    mutant(
        "events/other-content-repeats",
        "A batch of other content at a used number passes for a repeat.",
        On::Memory,
        &[("PAR-004", "expected TK-VERSION-CONFLICT, the store said yes")],
    ),
    mutant(
        "keys/used-twice",
        "Two entries of a session get one key.",
        On::Memory,
        &[("PAR-002", "finalisations that happened")],
    ),
    mutant(
        "leaf/append-leaves-it",
        "An append does not move the leaf.",
        On::Memory,
        &[("PAG-001", "entries of a path, Ascending: only 1 items")],
    ),
    mutant(
        "leaf/move-does-nothing",
        "Moving the leaf leaves it where it is.",
        On::Memory,
        &[("FRK-007", "the path at depth 1")],
    ),
    mutant(
        "parents/beside-the-path",
        "A parent that lies on no path is taken.",
        On::Memory,
        &[("BRA-002", "expected TK-INVALID, the store said yes")],
    ),
    mutant(
        "parents/unknown-taken",
        "A parent that is not there is taken.",
        On::Memory,
        &[("RUN-005", "expected TK-NOT-FOUND, the store said yes"), ("ISO-001", "a refused entry was read")],
    ),
    mutant(
        "partials/counted",
        "Partials and internal entries count as messages.",
        On::Memory,
        &[("PAR-001", "messages, leaf, head")],
    ),
    mutant(
        "references/to-nothing",
        "A reference may point to an entry that is not there.",
        On::Memory,
        &[
            ("BRA-002", "expected TK-NOT-FOUND, the store said yes"),
            ("RUN-003", "expected TK-NOT-FOUND, the store said yes"),
        ],
    ),
    mutant(
        "streams/never-closed",
        "A stream is not closed when asked.",
        On::Memory,
        &[("PAR-003", "expected TK-TURN-NOT-OPEN, the store said yes")],
    ),
    mutant(
        "streams/open-again",
        "A closed stream takes events.",
        On::Memory,
        &[("PAR-003", "expected TK-TURN-NOT-OPEN, the store said yes")],
    ),
];
