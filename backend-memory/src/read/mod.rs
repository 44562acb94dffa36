//! The ways out, one file per query. Each is a function of the tables; the lock is the caller's.

mod entries;
mod events;
mod ledger;
mod rows;
mod runs;
mod search;
mod sessions;
