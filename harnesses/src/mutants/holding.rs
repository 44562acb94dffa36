//! Faults of the rules: leases, exclusive work, records.

use super::{Mutant, On, mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    mutant(
        "changes/unowned-records-unseen",
        "A change of a record that nobody owns moves no mark.",
        On::Sqlite,
        &[("ISO-002", "the workspace's mark does not notice a record that nobody owns")],
    ),
    mutant(
        "exclusive/collections-are-shared",
        "Records that need the lease are written without it.",
        On::Memory,
        &[("REK-005", "expected TK-INVALID, the store said yes")],
    ),
    mutant(
        "exclusive/held-session-written",
        "Exclusive work over a lease that somebody holds passes.",
        On::Memory,
        &[("PAR-007", "expected TK-LEASE-HELD, the store said yes")],
    ),
    mutant(
        "exclusive/no-recovery-first",
        "Exclusive work over a dead owner's lease passes while a run is active.",
        On::Memory,
        &[("LEA-007", "expected TK-ACTIVE-RUN, the store said yes")],
    ),
    mutant(
        "exclusive/streams-are-shared",
        "Streams that need the lease are written without it.",
        On::Memory,
        &[("PAR-007", "expected TK-LEASE-HELD, the store said yes")],
    ),
    mutant(
        "exclusive/tombstone-keeps-epoch",
        "A lease that exclusive work ends keeps its epoch.",
        On::Memory,
        &[("LEA-004", "the lease after Append")],
    ),
    mutant(
        "exclusive/waits-for-the-dead",
        "Exclusive work waits for a dead owner's lease to expire.",
        On::Memory,
        &[("LEA-007", "was refused: somebody else holds the lease")],
    ),
    mutant(
        "leases/epoch-not-compared",
        "A fence of an earlier epoch passes.",
        On::Memory,
        &[("LEA-005", "expected TK-LEASE-LOST, the store said yes")],
    ),
    mutant(
        "leases/epoch-not-raised",
        "A new holder gets the epoch of the one before.",
        On::NamedMemory,
        &[("CON-005", "the epoch of the session's lease in round 2")],
    ),
    mutant(
        "leases/force-waits",
        "A lease is not taken by force before it expired.",
        On::Memory,
        &[("LEA-002", "was refused: somebody else holds the lease")],
    ),
    mutant(
        "leases/never-expire",
        "An expired lease cannot be taken.",
        On::Memory,
        &[("CON-006", "was refused: somebody else holds the lease")],
    ),
    mutant(
        "leases/purpose-not-told",
        "Who is refused does not learn what the holder does.",
        On::Memory,
        &[(
            "LEA-001",
            "the purpose that somebody else holds the lease; wait for it or give up (session s, purpose",
        )],
    ),
    mutant(
        "leases/release-keeps-it",
        "A released lease is still held.",
        On::NamedMemory,
        &[("CON-005", "expected TK-LEASE-LOST, the store said yes")],
    ),
    mutant(
        "leases/released-one-renewed",
        "A released lease is renewed.",
        On::Memory,
        &[("LEA-006", "expected TK-LEASE-LOST, the store said yes")],
    ),
    mutant(
        "leases/renewal-shortens",
        "A renewal moves the expiry to an earlier time.",
        On::Memory,
        &[("LEA-006", "the expiry after a renewal for a shorter time")],
    ),
    mutant(
        "leases/taken-from-the-living",
        "The lease of a living owner counts as a dead one's.",
        On::Memory,
        &[
            (
                "REC-006",
                "IfOwnerDead while the owner lives and nothing expired: expected TK-LEASE-HELD, the store s",
            ),
            ("RST-004", "expected TK-LEASE-HELD, the store said yes"),
        ],
    ),
    mutant(
        "leases/the-dead-keep-theirs",
        "The lease of a dead owner cannot be taken.",
        On::Memory,
        &[("REC-006", "was refused: somebody else holds the lease")],
    ),
    mutant(
        "leases/token-not-compared",
        "A fence with another token passes.",
        On::Memory,
        &[("LEA-003", "expected TK-LEASE-LOST, the store said yes")],
    ),
    mutant(
        "leases/two-holders",
        "A held lease is given to a second holder.",
        On::Memory,
        &[
            ("CON-006", "expected TK-LEASE-HELD, the store said yes"),
            ("MOD-001", "acquire: expected TK-LEASE-HELD"),
        ],
    ),
    mutant(
        "records/absence-not-looked-at",
        "A record that must be absent may be there.",
        On::Memory,
        &[("REK-001", "expected TK-VERSION-CONFLICT, the store said yes"), ("REK-004", "winners of round 0")],
    ),
    mutant(
        "records/anybody-deletes-exclusive-ones",
        "An exclusive record is deleted by who does not name its owner.",
        On::Memory,
        &[("REK-005", "expected TK-VERSION-CONFLICT, the store said yes")],
    ),
    mutant(
        "records/births-alike",
        "A record made again has the version of the one before.",
        On::Memory,
        &[("REK-002", "round 1 gave version Version")],
    ),
    mutant(
        "records/exclusive-one-changes-owner",
        "An exclusive record is given to another owner.",
        On::Memory,
        &[("REK-005", "expected TK-INVALID, the store said yes")],
    ),
    mutant(
        "records/former-owner-not-told",
        "A record that goes to another owner does not move the former owner's revision.",
        On::Memory,
        &[("REK-005", "the revision of the former owner")],
    ),
    mutant(
        "records/new-owner-keeps-place",
        "A record given to another owner keeps its place in lists.",
        On::Memory,
        &[("REK-005", "the records of the new owner")],
    ),
    mutant(
        "records/outlive-their-owner",
        "A record of a deleted owner is still there for commits.",
        On::Memory,
        &[("REK-005", "was refused: there is no such session")],
    ),
    mutant(
        "records/places-alike",
        "Records of a list share a place.",
        On::Memory,
        &[("ORD-004", "records by ordinal")],
    ),
    mutant(
        "records/put-into-what-is-built",
        "A record of a session that is being built is written by others.",
        On::Memory,
        &[("RST-001", "expected TK-VERSION-CONFLICT, the store said yes")],
    ),
    mutant(
        "records/version-not-compared",
        "A record may be at another version than expected.",
        On::Memory,
        &[("REK-001", "expected TK-VERSION-CONFLICT, the store said yes")],
    ),
    mutant(
        "records/version-stays",
        "A put does not move the version.",
        On::Memory,
        &[("RUN-011", "the record of a")],
    ),
];
