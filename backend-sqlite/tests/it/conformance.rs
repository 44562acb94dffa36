//! The contract, clause by clause.

use turnkeep_harnesses::SqliteHarness;

turnkeep_conformance::conformance_tests!(SqliteHarness);
