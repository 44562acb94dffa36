//! Faults of the rules: requests, fences, guards, what a commit may be.

use super::{Mutant, On, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "fences/first-not-checked",
        "The first fence of a commit is passed over.",
        On::NamedMemory,
        &[("CON-005", "expected TK-LEASE-LOST, the store said yes")],
    ),
    mutant(
        "fences/lost-lease-passes",
        "A fence of a lease that is not held any more passes.",
        On::NamedMemory,
        &[("CON-005", "expected TK-LEASE-LOST, the store said yes")],
    ),
    mutant(
        "fingerprint/guards-included",
        "The fingerprint depends on guards and fences, which a retry rebuilds.",
        On::Memory,
        &[("IDM-001", "was refused: the request id was used for something else")],
    ),
    mutant(
        "fingerprint/payload-left-out",
        "The fingerprint of an append does not depend on what is said.",
        On::Memory,
        &[("IDM-007", "the request of another commit, APPEND: entries")],
    ),
    mutant(
        "guards/absence-not-looked-at",
        "A session that must be absent may be there.",
        On::Memory,
        &[("RUN-010", "expected TK-ALREADY-EXISTS, the store said yes")],
    ),
    mutant(
        "guards/first-not-checked",
        "The first guard of a commit is passed over.",
        On::Memory,
        &[("REK-003", "expected TK-VERSION-CONFLICT, the store said yes")],
    ),
    mutant(
        "guards/head-not-compared",
        "Other entries than expected do not refuse the commit.",
        On::Memory,
        &[("RUN-005", "expected TK-STALE-LEAF, the store said yes")],
    ),
    mutant(
        "guards/key-may-be-missing",
        "An entry key that must be there may be missing.",
        On::Memory,
        &[("ORD-003", "expected TK-NOT-FOUND, the store said yes")],
    ),
    mutant(
        "guards/key-may-be-taken",
        "An entry key that must be free may be taken.",
        On::Memory,
        &[("RUN-010", "expected TK-ALREADY-EXISTS, the store said yes")],
    ),
    mutant(
        "guards/leaf-not-compared",
        "A leaf that moved does not refuse the commit.",
        On::Memory,
        &[
            (
                "CON-007",
                "a turn of a terminal with a stale picture: expected TK-STALE-LEAF, the store said yes",
            ),
            ("BRA-003", "expected TK-STALE-LEAF, the store said yes"),
        ],
    ),
    mutant(
        "guards/revision-not-compared",
        "A session that was changed does not refuse the commit.",
        On::Memory,
        &[("RUN-010", "expected TK-STALE-LEAF, the store said yes"), ("CON-003", "winners of round 2")],
    ),
    mutant(
        "guards/run-state-not-compared",
        "A run may be in any state.",
        On::Memory,
        &[("RUN-010", "expected TK-RUN-STATE, the store said yes")],
    ),
    mutant(
        "limits/any-number-of-ops",
        "A commit may have any number of operations.",
        On::Memory,
        &[("RUN-009", "expected TK-TOO-LARGE, the store said yes")],
    ),
    mutant(
        "limits/column-of-any-size",
        "A title, directory or other column may have any size.",
        On::Memory,
        &[
            ("LIM-008", "one byte too many: title: expected TK-TOO-LARGE, the store said yes"),
            ("LIM-003", "expected TK-TOO-LARGE, the store said yes"),
        ],
    ),
    mutant(
        "limits/commit-of-any-size",
        "A commit may have any size.",
        On::Memory,
        &[("LIM-008", "a commit of one byte too many, the last in Append")],
    ),
    mutant(
        "ops/condition-ignored",
        "An op under a condition is done whether it holds or not.",
        On::Memory,
        &[("STA-008", "an op whose key is missing")],
    ),
    mutant(
        "ops/refused-one-is-left-out",
        "The ops before a refused one are written.",
        On::Memory,
        &[("DEL-006", "expected TK-INVALID, the store said yes")],
    ),
    mutant(
        "plan/keys-not-looked-up",
        "An append does not look whether its keys are taken.",
        On::Memory,
        &[("PAR-002", "finalisations that happened")],
    ),
    mutant(
        "plan/leases-not-looked-up",
        "Exclusive work does not look for a lease.",
        On::Memory,
        &[("PAR-007", "expected TK-LEASE-HELD, the store said yes")],
    ),
    mutant(
        "requests/forgotten",
        "A repeated request is carried out once more.",
        On::Memory,
        &[("IDM-002", "expected TK-REQUEST-CONFLICT, the store said yes")],
    ),
    mutant(
        "requests/never-expire",
        "A generated request id is accepted past seven days.",
        On::Memory,
        &[("IDM-005", "expected TK-REQUEST-EXPIRED, the store said yes")],
    ),
    mutant(
        "requests/other-content-repeats",
        "A used request id answers the old receipt for other content.",
        On::Memory,
        &[(
            "IDM-007",
            "the request of another commit, one op fewer: expected TK-REQUEST-CONFLICT, the store said ",
        )],
    ),
    mutant(
        "requests/receipt-of-any-size",
        "A receipt larger than is kept is kept.",
        On::Memory,
        &[("RUN-009", "expected TK-TOO-LARGE, the store said yes")],
    ),
    mutant(
        "requests/repeat-looks-new",
        "The receipt of a repeat does not say that it is one.",
        On::Memory,
        &[("IDM-002", "a later repeat")],
    ),
    mutant(
        "texts/nul-taken",
        "A text with a NUL character is taken.",
        On::Memory,
        &[("LIM-001", "expected TK-INVALID, the store said yes")],
    ),
];
