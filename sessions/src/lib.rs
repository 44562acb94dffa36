//! Placeholder.
pub mod message;
pub mod replay;
