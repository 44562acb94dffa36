//! Shared by backends whose transactions are local.

mod engine;

pub use engine::{CommitFailure, Engine};
