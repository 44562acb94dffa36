//! The registry and the specification, without opening any store.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod registry;
mod specification;
