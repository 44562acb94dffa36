//! What only this backend can get wrong: its file, its tables, its engine. The contract is tested by the conformance
//! suite.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod conformance;
mod crash;
mod disk;
mod failing;
mod flips;
mod housekeeping;
mod opening;
mod restore;
mod space;
mod support;
