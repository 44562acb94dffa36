//! The rules against a plain model and tables, and the group committer on an engine made for tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod against_model;
mod along_the_way;
mod bench;
#[cfg(feature = "mutants")]
mod breaks;
mod cases;
mod committer;
mod compare;
mod copies;
mod exclusive;
mod fake_engine;
mod fingerprint;
mod kit;
mod leases;
mod locked;
mod model;
mod naive;
mod readers;
mod requests;
mod restoring;
mod streams;
mod tape;
mod transitions;
mod validation;
