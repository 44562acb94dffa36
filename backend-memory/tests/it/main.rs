//! The in-memory backend through its public face.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod certifies;
mod conformance;
mod copies;
mod deletes;
mod entries;
mod handles;
mod ledger;
mod paths_property;
mod rows;
mod sessions;
mod soundness_property;
mod suite_bites;
mod support;
