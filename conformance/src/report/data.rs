//! The parts of a report.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnkeep_core::Timestamp;

use crate::backend::Backend;
use crate::catalogue::{self, Promise};
use crate::clause::Level;
use crate::tier::Tier;
use crate::verdict::{Finding, Verdict};

/// What a run of the suite found about one backend. Everything else is made from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this form, [`FORMAT`](super::FORMAT).
    pub format: u32,
    /// The version of the specification.
    pub spec: String,
    /// The version of the suite.
    pub suite: String,
    /// The digest of all clauses that there are, see [`catalogue`](super::catalogue).
    pub catalogue: String,
    /// Who was asked.
    pub backend: Backend,
    /// How it was asked.
    pub run: Run,
    /// Every clause there is, in the order of the specification, with what was found.
    pub clauses: Vec<Entry>,
}

/// How the questions were asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// How much work it was.
    pub tier: Tier,
    /// What everything that was drawn follows from.
    pub seed: u64,
    /// How long it was let, in seconds; no bound by default.
    pub budget_s: Option<u64>,
    /// Clauses or groups that it was narrowed to; all of them if empty.
    pub only: Vec<String>,
    /// How many clauses were asked at the same time.
    pub jobs: u32,
    /// The program with its backend, such as `turnkeep certify sqlite:`, where one ran. Tests have none.
    pub program: Option<String>,
    /// The command that asks all of it again.
    pub command: String,
    /// When it began.
    #[serde(with = "super::time")]
    pub began: Timestamp,
    /// When it ended.
    #[serde(with = "super::time")]
    pub ended: Timestamp,
}

/// One clause with what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The clause.
    #[serde(flatten)]
    pub promise: Promise,
    /// The answer.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How long it took, in milliseconds, all rounds together.
    pub elapsed_ms: u64,
    /// How often it was asked.
    pub rounds: u32,
    /// The seed of the round that the answer is from.
    pub seed: u64,
    /// What the answer rests on, all rounds together.
    pub counted: BTreeMap<String, u64>,
    /// The shortest tape that shows a failure.
    pub tape: Option<Value>,
}

impl Entry {
    /// A clause that nobody asked yet.
    #[must_use]
    pub fn unasked(promise: Promise, why: &str) -> Self {
        let verdict = Verdict::NotRun(why.to_owned());
        Self { promise, verdict, elapsed_ms: 0, rounds: 0, seed: 0, counted: BTreeMap::new(), tape: None }
    }

    /// Takes in what a round found. The first answer that is not acceptable stands, whatever later rounds say.
    pub fn add(&mut self, finding: &Finding, seed: u64) {
        if self.rounds == 0 || self.verdict.is_acceptable() {
            self.verdict = finding.verdict.clone();
            self.seed = seed;
            self.tape = finding
                .tape
                .as_deref()
                .map(|tape| serde_json::from_str(tape).unwrap_or_else(|_| Value::String(tape.to_owned())));
        }
        self.rounds += 1;
        self.elapsed_ms = self.elapsed_ms.saturating_add(millis(finding.elapsed));
        for (what, more) in &finding.counted {
            let sum = self.counted.entry(what.clone()).or_default();
            *sum = sum.saturating_add(*more);
        }
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How many clauses got which answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All of them.
    pub clauses: u32,
    /// The promise held.
    pub pass: u32,
    /// A promise that must hold was broken.
    pub fail: u32,
    /// A promise that should hold was broken: said, and no obstacle to a certificate.
    pub should_fail: u32,
    /// The clause could not be carried out.
    pub error: u32,
    /// Declared absent, and confirmed so.
    pub unsupported: u32,
    /// Somebody decided not to ask.
    pub waived: u32,
    /// Not asked.
    pub not_run: u32,
    /// The chance that it depends on did not come up.
    pub inconclusive: u32,
}

impl Report {
    /// A report in which nobody has been asked anything yet.
    #[must_use]
    pub fn blank(backend: Backend, run: Run) -> Self {
        let promises = catalogue::current();
        Self {
            format: super::FORMAT,
            spec: crate::SPEC_VERSION.to_owned(),
            suite: env!("CARGO_PKG_VERSION").to_owned(),
            catalogue: catalogue::catalogue(&promises),
            backend,
            run,
            clauses: promises.into_iter().map(|promise| Entry::unasked(promise, "not asked")).collect(),
        }
    }

    /// The clause with this id.
    #[must_use]
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.clauses.iter().find(|entry| entry.promise.id == id)
    }

    /// How many clauses got which answer.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for entry in &self.clauses {
            counts.clauses += 1;
            let counter = match (&entry.verdict, entry.promise.level) {
                (Verdict::Pass, _) => &mut counts.pass,
                (Verdict::Fail(_), Level::Must) => &mut counts.fail,
                (Verdict::Fail(_), Level::Should) => &mut counts.should_fail,
                (Verdict::Error(_), _) => &mut counts.error,
                (Verdict::Unsupported(_), _) => &mut counts.unsupported,
                (Verdict::Waived(_), _) => &mut counts.waived,
                (Verdict::NotRun(_), _) => &mut counts.not_run,
                (Verdict::Inconclusive(_), _) => &mut counts.inconclusive,
            };
            *counter += 1;
        }
        counts
    }

    /// What all answers rest on, summed by name.
    #[must_use]
    pub fn counted(&self) -> BTreeMap<String, u64> {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for (what, more) in self.clauses.iter().flat_map(|entry| &entry.counted) {
            let sum = all.entry(what.clone()).or_default();
            *sum = sum.saturating_add(*more);
        }
        all
    }

    /// The command that asks one clause again, as it was asked when its answer was found.
    #[must_use]
    pub fn again(&self, entry: &Entry) -> Option<String> {
        let program = self.run.program.as_ref()?;
        Some(format!("{program} --tier {} --seed {} --only {}", self.run.tier, entry.seed, entry.promise.id))
    }

    /// The command that replays the tape of a clause, from the folder of the report.
    #[must_use]
    pub fn replay(&self, entry: &Entry) -> Option<String> {
        entry.tape.as_ref()?;
        let program = self.run.program.as_ref()?;
        Some(format!("{program} replay {}", super::folder::tape_path(&entry.promise.id)))
    }

    /// `report.json`. The same report gives the same bytes.
    ///
    /// # Errors
    /// Never for a report that this suite made: every key is text.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        Ok(json)
    }
}
