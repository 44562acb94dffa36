//! Tests of the facade: opening by name, and what the features bring.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like the tests themselves")]

mod kill;
mod open;
mod sleeper;
mod tool_once;
