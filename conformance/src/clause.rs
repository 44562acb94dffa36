//! Clauses: the promises of the contract, each with a check.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnkeep_core::{Capabilities, Durability};

use crate::context::Context;
use crate::verdict::Outcome;

/// How binding a clause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// No certificate without it.
    Must,
    /// Expected; a backend may do without and say so.
    Should,
}

impl Level {
    /// As the specification writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
        }
    }
}

/// Whether one run of a clause decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The same every time.
    Deterministic,
    /// Depends on timing: a pass is evidence that grows with runs, a failure is proof.
    Stochastic,
}

impl Kind {
    /// As reports write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deterministic => "deterministic",
            Self::Stochastic => "stochastic",
        }
    }
}

/// What a backend must offer for a clause to make sense. Its lack is confirmed by a probe, never believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Opened again, the store has what was stored.
    Persistent,
    /// Several processes may use one store at once.
    MultiProcess,
    /// A dead owner of a lease is known at once.
    OwnerLiveness,
    /// Ranked full-text search.
    Search,
    /// A backup of the store at one moment.
    Backup,
    /// An older format than today's. A store in format 1 has none, which its `StoreInfo` says.
    OlderFormat,
}

impl Need {
    /// As reports write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Persistent => "keeps data",
            Self::MultiProcess => "several processes",
            Self::OwnerLiveness => "knows dead owners",
            Self::Search => "search",
            Self::Backup => "backup",
            Self::OlderFormat => "an older format",
        }
    }

    /// Whether a backend with these capabilities declares it. The format is what an open store of it says, if one was
    /// open.
    #[must_use]
    pub fn is_offered(self, by: Capabilities, format: Option<u32>) -> bool {
        match self {
            Self::Persistent => by.persistent,
            Self::MultiProcess => by.multi_process,
            Self::OwnerLiveness => by.owner_liveness,
            Self::Search => by.search,
            Self::Backup => by.backup,
            Self::OlderFormat => format.is_none_or(|format| format > 1),
        }
    }
}

/// The runtime a clause runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeFlavor {
    /// Several worker threads.
    MultiThread,
    /// Everything on one thread.
    CurrentThread,
}

/// A future as clauses give it.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// One promise with its check.
#[derive(Clone, Copy)]
pub struct Clause {
    /// `GROUP-NNN`; never used again for something else.
    pub id: &'static str,
    /// The name of its test: the id, the claim, the reported cases.
    pub name: &'static str,
    /// The promise in one sentence, the same as in `docs/spec.md`.
    pub title: &'static str,
    /// How binding it is.
    pub level: Level,
    /// Whether one run decides.
    pub kind: Kind,
    /// What it needs.
    pub needs: &'static [Need],
    /// The least durability class it applies to.
    pub durability: Durability,
    /// The version of the specification it came with.
    pub since: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// Public reports of this going wrong elsewhere, as `owner/repository#number`.
    pub links: &'static [&'static str],
    /// The broken backend that it catches.
    pub catches: &'static str,
    /// The reported cases that it covers, as `case-01`.
    pub cases: &'static [&'static str],
    /// The runtime it runs on.
    pub runtime: RuntimeFlavor,
    /// Whether it needs a process of its own, because it counts what a process has.
    pub alone: bool,
    /// Whether it compares how long things take, so that nothing else may run beside it.
    pub quiet: bool,
    /// How long it may take.
    pub timeout: Duration,
    /// The check.
    pub(crate) run: for<'a> fn(&'a Context) -> Running<'a>,
    /// What it does in another process.
    pub(crate) peer: Option<for<'a> fn(&'a Context, &'a str) -> Running<'a>>,
}

impl Clause {
    /// What a clause is unless it says otherwise.
    pub(crate) const BLANK: Self = Self {
        id: "",
        name: "",
        title: "",
        level: Level::Must,
        kind: Kind::Deterministic,
        needs: &[],
        durability: Durability::D0,
        since: "0.1",
        why: "",
        links: &[],
        catches: "",
        cases: &[],
        runtime: RuntimeFlavor::MultiThread,
        alone: false,
        quiet: false,
        timeout: Duration::from_secs(60),
        run: |_| Box::pin(async { Ok(()) }),
        peer: None,
    };

    /// The group: the part of the id before the number.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.id.split('-').next().unwrap_or(self.id)
    }
}

impl fmt::Debug for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clause").field("id", &self.id).field("title", &self.title).finish_non_exhaustive()
    }
}
