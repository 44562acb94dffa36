//! The `turnkeep` program from outside: processes, signals, files. As on Unix.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_input;
#[cfg(feature = "mutants")]
mod breaks;
#[cfg(feature = "certify")]
mod certify;
mod crash;
mod example;
mod follow;
mod fork;
mod help;
mod kit;
mod lists;
mod log;
mod many;
mod marks;
mod output;
mod places;
mod private;
mod repair;
mod search;
mod sessions;
mod store;
mod talk;
mod terminal;
mod transfer;
mod usage;
