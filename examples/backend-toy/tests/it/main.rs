//! Tests of the toy backend.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod conformance;
mod disk;
mod golden;
mod harness;
