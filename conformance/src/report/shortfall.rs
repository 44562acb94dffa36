//! What stands between a report and a certificate.

use std::fmt;

use super::data::{Entry, Report};
use crate::backend::Backend;
use crate::catalogue::{self, Promise};
use crate::clause::Level;
use crate::tier::Tier;
use crate::verdict::Verdict;

/// One reason why there is no certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shortfall {
    /// A promise that must hold was broken.
    Broken {
        /// The clause.
        id: String,
    },
    /// A clause has no answer: waived, not run, inconclusive, or in error.
    Unanswered {
        /// The clause.
        id: String,
        /// Its verdict.
        verdict: &'static str,
    },
    /// A clause is called unsupported, but the backend declares all that it needs.
    Unearned {
        /// The clause.
        id: String,
    },
    /// The run was narrowed to a part.
    Part,
    /// The tier draws too few samples.
    Tier(Tier),
    /// Not one clause passed.
    NothingPassed,
    /// No store was ever seen.
    NoStore,
    /// The clauses of the report are not those whose digest it names.
    OtherClauses,
    /// The form of the report is not one that this suite knows.
    OtherFormat(u32),
}

impl Shortfall {
    /// The clause that it is about, if it is about one.
    #[must_use]
    pub fn clause(&self) -> Option<&str> {
        match self {
            Self::Broken { id } | Self::Unanswered { id, .. } | Self::Unearned { id } => Some(id),
            _ => None,
        }
    }

    /// Whether somebody chose to ask less, rather than the backend falling short.
    #[must_use]
    pub const fn is_by_choice(&self) -> bool {
        matches!(self, Self::Part | Self::Tier(_))
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { id } => write!(f, "{id} is broken"),
            Self::Unanswered { id, verdict } => write!(f, "{id} has no answer: {verdict}"),
            Self::Unearned { id } => {
                write!(f, "{id} is called unsupported, but the backend declares what it needs")
            }
            Self::Part => f.write_str("only a part of the clauses was asked"),
            Self::Tier(tier) => write!(f, "the {tier} tier is a sample; a certificate needs the full tier"),
            Self::NothingPassed => f.write_str("not one clause passed"),
            Self::NoStore => f.write_str("no store was ever seen"),
            Self::OtherClauses => f.write_str("its clauses are not those whose digest it names"),
            Self::OtherFormat(format) => write!(f, "its form {format} is not one that this suite knows"),
        }
    }
}

impl Report {
    /// Why there is no certificate; nothing if there is one to be had.
    ///
    /// Every clause needs an answer. A promise that must hold has to hold, or its lack has to be declared and
    /// confirmed. A broken promise that only should hold is said, and is no obstacle.
    #[must_use]
    pub fn shortfalls(&self) -> Vec<Shortfall> {
        let mut found = Vec::new();
        if self.format != super::FORMAT {
            found.push(Shortfall::OtherFormat(self.format));
        }
        if catalogue::catalogue(self.clauses.iter().map(|entry| &entry.promise)) != self.catalogue {
            found.push(Shortfall::OtherClauses);
        }
        if !self.run.only.is_empty() {
            found.push(Shortfall::Part);
        }
        if self.run.tier < Tier::Full {
            found.push(Shortfall::Tier(self.run.tier));
        }
        if self.backend.store.is_none() {
            found.push(Shortfall::NoStore);
        }
        if !self.clauses.iter().any(|entry| entry.verdict == Verdict::Pass) {
            found.push(Shortfall::NothingPassed);
        }
        let asked = self.clauses.iter().filter(|entry| is_asked(&self.run.only, &entry.promise));
        found.extend(asked.filter_map(|entry| fault(&self.backend, entry)));
        found
    }

    /// Whether everything that was asked was answered well, though less may have been asked than a certificate needs.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.shortfalls().iter().all(Shortfall::is_by_choice)
    }
}

/// Whether a clause is one of those that a run is narrowed to: by its id, or by its group.
pub(crate) fn is_asked(only: &[String], promise: &Promise) -> bool {
    only.is_empty()
        || only
            .iter()
            .any(|name| name.eq_ignore_ascii_case(&promise.id) || name.eq_ignore_ascii_case(promise.group()))
}

/// What is wrong with one answer.
fn fault(backend: &Backend, entry: &Entry) -> Option<Shortfall> {
    let id = entry.promise.id.clone();
    match (&entry.verdict, entry.promise.level) {
        (Verdict::Pass, _) | (Verdict::Fail(_), Level::Should) => None,
        (Verdict::Fail(_), Level::Must) => Some(Shortfall::Broken { id }),
        (Verdict::Unsupported(_), _) => {
            (!lacks_something(backend, &entry.promise)).then_some(Shortfall::Unearned { id })
        }
        (verdict, _) => Some(Shortfall::Unanswered { id, verdict: verdict.as_str() }),
    }
}

/// Whether the backend declares less than a clause needs. The runner then confirmed it by a probe.
fn lacks_something(backend: &Backend, promise: &Promise) -> bool {
    let format = backend.store.as_ref().map(|store| store.format);
    promise.durability > backend.durability
        || promise.needs.iter().any(|need| !need.is_offered(backend.capabilities, format))
}
