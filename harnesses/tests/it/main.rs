//! Integration tests of the harnesses.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod disk;
mod golden;
mod liars;
#[cfg(feature = "mutants")]
mod mutants;
#[cfg(all(unix, feature = "memory"))]
mod page;
mod power;
