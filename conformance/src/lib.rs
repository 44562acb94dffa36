//! The conformance suite: the contract of `Store` as clauses that any backend can be held to.
//!
//! A backend author writes a [`Harness`] and one line, which makes a `#[test]` of every clause:
//!
//! ```ignore
//! turnkeep_conformance::conformance_tests!(MyHarness);
//! ```
//!
//! Without opening anything, the clauses can be read:
//!
//! ```
//! use turnkeep_conformance::{Level, registry};
//!
//! let clause = registry::by_id("ORD-001").unwrap();
//! assert_eq!(clause.level, Level::Must);
//! assert_eq!(clause.cases, ["case-01", "case-02"]);
//! assert!(registry::specification().contains(clause.title));
//! ```
//!
//! Each test gets a fresh site, its own runtime and a bounded time, and removes the site afterwards. A test is named
//! after its clause, `ord_001_…`, and ends with the reported cases it covers: `…_case_01_case_02`.
//! [`registry`] lists the clauses without opening anything; [`runner::run`] runs one and answers a [`Verdict`].
//!
//! `docs/backend-guide.md` in the repository takes a backend's author from nothing to a certificate.

#[macro_use]
mod macros;

mod backend;
// Without the programs that report, it is only what a fragment names.
#[cfg_attr(not(feature = "certify"), expect(dead_code, unreachable_pub, reason = "public with the reports"))]
mod catalogue;
#[cfg(feature = "certify")]
pub mod certify;
mod clause;
mod clauses;
mod context;
mod crash;
pub mod disk;
mod fragment;
pub mod golden;
mod harness;
mod kit;
mod measure;
mod peer;
#[cfg(feature = "certify")]
pub mod program;
pub mod registry;
#[cfg(feature = "certify")]
pub mod report;
pub mod runner;
pub mod tape;
#[doc(hidden)]
pub mod testing;
mod tier;
mod verdict;

pub use backend::{Backend, StoreFacts};
pub use clause::{Clause, Kind, Level, Need, RuntimeFlavor};
pub use context::Context;
pub use harness::{Damage, Fixture, Harness, Manifest, OpenWith, Policies, Site, TableCount};
pub use tier::Tier;
pub use verdict::{Finding, Outcome, Stop, Verdict};

/// The version of the specification that the clauses describe. Each clause names the version it came with.
pub const SPEC_VERSION: &str = "0.1";
