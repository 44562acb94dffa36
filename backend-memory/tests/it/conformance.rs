//! The contract, clause by clause.

use turnkeep_harnesses::MemoryHarness;

turnkeep_conformance::conformance_tests!(MemoryHarness);

/// The groups that say what must be there when a store is opened again.
mod named {
    use turnkeep_harnesses::NamedMemoryHarness;

    turnkeep_conformance::idempotency_tests!(NamedMemoryHarness);
    turnkeep_conformance::concurrency_tests!(NamedMemoryHarness);
    turnkeep_conformance::durability_tests!(NamedMemoryHarness);
}
