//! The contract, clause by clause.

use turnkeep_harnesses::RedbHarness;

turnkeep_conformance::conformance_tests!(RedbHarness);
