//! Reports and what is made from them, without any store.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod certificates;
mod files;
mod made;
