//! The contract, clause by clause.

use crate::harness::ToyHarness;

turnkeep_conformance::conformance_tests!(ToyHarness);
