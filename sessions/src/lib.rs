//! Placeholder.
pub mod message;
