//! Tests of the sessions crate through its public interface.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like the tests themselves")]
mod message;
mod replay;
mod replay_property;

mod site;

mod entries;
mod sessions;
