//! What only this backend can get wrong: its files, its tables, its engine. The contract is tested by the conformance
//! suite.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod audit;
#[cfg(feature = "mutants")]
mod breaks;
mod conformance;
mod files;
mod format;
mod housekeeping;
mod index;
mod maintenance;
mod opening;
mod queries;
mod restore;
mod support;
mod threads;
mod upgrade;
