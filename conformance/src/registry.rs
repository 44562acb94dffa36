//! Every clause there is. Reading it opens nothing.

use crate::clause::Clause;
use crate::clauses;

/// The groups, in the order of the specification.
const GROUPS: &[&[Clause]] = &[
    clauses::identity::CLAUSES,
    clauses::ordering::CLAUSES,
    clauses::atomic::CLAUSES,
    clauses::partial::CLAUSES,
    clauses::recovery::CLAUSES,
    clauses::isolation::CLAUSES,
    clauses::concurrency::CLAUSES,
    clauses::idempotency::CLAUSES,
    clauses::pagination::CLAUSES,
    clauses::queries::CLAUSES,
    clauses::fork::CLAUSES,
    clauses::limits::CLAUSES,
    clauses::durability::CLAUSES,
    clauses::migration::CLAUSES,
    clauses::deletion::CLAUSES,
    clauses::resources::CLAUSES,
    clauses::runs::CLAUSES,
    clauses::records::CLAUSES,
    clauses::leases::CLAUSES,
    clauses::branches::CLAUSES,
    clauses::restore::CLAUSES,
    clauses::group::CLAUSES,
    clauses::search::CLAUSES,
    clauses::capabilities::CLAUSES,
    clauses::model::CLAUSES,
];

/// All clauses, in the order of the specification.
pub fn all() -> impl Iterator<Item = &'static Clause> {
    GROUPS.iter().copied().flatten()
}

/// What the clauses of each group are about, in the order of the specification.
const NAMES: &[(&str, &str)] = &[
    ("ID", "Identity"),
    ("ORD", "Order"),
    ("RUN", "Atomic runs"),
    ("PAR", "Partial answers"),
    ("REC", "Recovery"),
    ("ISO", "Isolation"),
    ("CON", "Concurrency"),
    ("IDM", "Repeats"),
    ("PAG", "Pages"),
    ("QRY", "Queries"),
    ("FRK", "Forks"),
    ("LIM", "Limits"),
    ("DUR", "Durability"),
    ("MIG", "Migration"),
    ("DEL", "Deletion"),
    ("RES", "Resources and time"),
    ("STA", "Run states"),
    ("REK", "Records"),
    ("LEA", "Leases"),
    ("BRA", "Branches"),
    ("RST", "Restore and purge"),
    ("GRP", "Group commit"),
    ("SEA", "Search"),
    ("CAP", "Capabilities"),
    ("MOD", "Against the model"),
];

/// What the clauses of a group, such as `ORD`, are about.
#[must_use]
pub fn group_name(group: &str) -> Option<&'static str> {
    NAMES.iter().find(|(short, _)| *short == group).map(|(_, name)| *name)
}

/// The clause with this id, such as `ORD-001`.
#[must_use]
pub fn by_id(id: &str) -> Option<&'static Clause> {
    all().find(|clause| clause.id == id)
}

/// The clause with this test name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Clause> {
    all().find(|clause| clause.name == name)
}

/// The lines of the specification's clause list, one per clause.
#[must_use]
pub fn specification() -> String {
    all()
        .map(|clause| format!("- **{}** ({}) {}\n", clause.id, clause.level.as_str(), clause.title))
        .collect()
}

/// Makes one `#[test]` per clause for a harness type that is `Harness + Default`, and one that compares the tests with
/// the registry. Put it into a module of its own in an integration test.
#[macro_export]
macro_rules! conformance_tests {
    ($harness:ty) => {
        $crate::identity_tests!($harness);
        $crate::ordering_tests!($harness);
        $crate::atomic_tests!($harness);
        $crate::partial_tests!($harness);
        $crate::recovery_tests!($harness);
        $crate::isolation_tests!($harness);
        $crate::concurrency_tests!($harness);
        $crate::idempotency_tests!($harness);
        $crate::pagination_tests!($harness);
        $crate::queries_tests!($harness);
        $crate::fork_tests!($harness);
        $crate::limits_tests!($harness);
        $crate::durability_tests!($harness);
        $crate::migration_tests!($harness);
        $crate::deletion_tests!($harness);
        $crate::resources_tests!($harness);
        $crate::runs_tests!($harness);
        $crate::records_tests!($harness);
        $crate::leases_tests!($harness);
        $crate::branches_tests!($harness);
        $crate::restore_tests!($harness);
        $crate::group_tests!($harness);
        $crate::search_tests!($harness);
        $crate::capabilities_tests!($harness);
        $crate::model_tests!($harness);

        #[test]
        fn every_clause_has_a_test() {
            let names: &[&[&str]] = &[
                &$crate::identity_tests!(@names),
                &$crate::ordering_tests!(@names),
                &$crate::atomic_tests!(@names),
                &$crate::partial_tests!(@names),
                &$crate::recovery_tests!(@names),
                &$crate::isolation_tests!(@names),
                &$crate::concurrency_tests!(@names),
                &$crate::idempotency_tests!(@names),
                &$crate::pagination_tests!(@names),
                &$crate::queries_tests!(@names),
                &$crate::fork_tests!(@names),
                &$crate::limits_tests!(@names),
                &$crate::durability_tests!(@names),
                &$crate::migration_tests!(@names),
                &$crate::deletion_tests!(@names),
                &$crate::resources_tests!(@names),
                &$crate::runs_tests!(@names),
                &$crate::records_tests!(@names),
                &$crate::leases_tests!(@names),
                &$crate::branches_tests!(@names),
                &$crate::restore_tests!(@names),
                &$crate::group_tests!(@names),
                &$crate::search_tests!(@names),
                &$crate::capabilities_tests!(@names),
                &$crate::model_tests!(@names),
            ];
            $crate::testing::assert_complete(&names.concat());
        }
    };
}
