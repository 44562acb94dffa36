//! Asks a backend every clause, and writes down what it answers.
//!
//! [`run`] goes through the clauses two at a time; those that compare how long things take run alone. With [`Processes`]
//! each clause has a process of its own, so that a store that hangs, aborts or leaks ends in a verdict and takes nothing
//! along; without, those that count what a process has run alone too.

mod child;
mod round;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use turnkeep_core::{Clock, SystemClock};

pub use child::Processes;
pub(crate) use child::play;

use crate::backend::Backend;
use crate::clause::{Clause, Kind};
use crate::harness::Harness;
use crate::registry;
use crate::report::{Entry, Report, Run, is_asked};
use crate::tier::Tier;
use crate::verdict::{Finding, Verdict};
use round::Round;

/// Rounds of a soak after which it ends, whatever its budget: a clause that answers at once must not run for ever.
const MOST_ROUNDS: u32 = 100_000;

/// How to ask.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much work it may be. [`Tier::Soak`] asks as [`Tier::Full`] does, and then what rests on samples again and
    /// again, until the budget is used up.
    pub tier: Tier,
    /// What everything that is drawn follows from. Later rounds of a soak count up from it.
    pub seed: u64,
    /// How long all of it may take. Clauses that are left then are not run.
    pub budget: Option<Duration>,
    /// Clauses or groups to ask, by id; all of them if empty.
    pub only: Vec<String>,
    /// Clauses not to ask, by id, each with the reason. There is no certificate then.
    pub waive: BTreeMap<String, String>,
    /// How many clauses to ask at the same time.
    pub jobs: u32,
    /// A process for each clause. Without it, clauses that need other processes are not run.
    pub processes: Option<Arc<Processes>>,
    /// The program with its backend, as a person types it, for the commands that a report shows.
    pub program: Option<String>,
    /// The command that asks all of it again.
    pub command: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tier: Tier::Full,
            seed: 0,
            budget: None,
            only: Vec::new(),
            waive: BTreeMap::new(),
            jobs: 2,
            processes: None,
            program: None,
            command: "turnkeep_conformance::certify::run".to_owned(),
        }
    }
}

/// What just happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A round begins.
    Round {
        /// Its number, from 1.
        round: u32,
        /// How many clauses it asks.
        clauses: usize,
    },
    /// A clause is being asked.
    Asked {
        /// The clause.
        clause: &'static Clause,
    },
    /// A clause answered.
    Answered {
        /// The clause.
        clause: &'static Clause,
        /// What was found.
        finding: &'a Finding,
    },
}

/// Asks every clause, or those that the options name. `stop` ends it early: what is left is not run.
pub fn run(
    harness: &Arc<dyn Harness>,
    options: &Options,
    stop: &AtomicBool,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Report {
    let began = SystemClock.now();
    let run = Run {
        tier: options.tier,
        seed: options.seed,
        budget_s: options.budget.map(|budget| budget.as_secs()),
        only: options.only.clone(),
        jobs: options.jobs,
        program: options.program.clone(),
        command: options.command.clone(),
        began,
        ended: began,
    };
    let mut report = Report::blank(Backend::declared(&harness.manifest()), run);
    let ends = options.budget.and_then(|budget| Instant::now().checked_add(budget));
    let mut asked: Vec<&'static Clause> = Vec::new();
    for (clause, entry) in registry::all().zip(&mut report.clauses) {
        if !is_asked(&options.only, &entry.promise) {
            let why = format!("the run was narrowed to {}", options.only.join(", "));
            entry.verdict = Verdict::NotRun(why);
        } else if let Some(reason) = options.waive.get(clause.id) {
            entry.verdict = Verdict::Waived(reason.clone());
        } else {
            asked.push(clause);
        }
    }
    let mut number = 0;
    while !asked.is_empty() && number < MOST_ROUNDS {
        let seed = options.seed.wrapping_add(u64::from(number));
        number += 1;
        progress(Progress::Round { round: number, clauses: asked.len() });
        let round = Round { harness, options, seed, ends, stop, is_first: number == 1 };
        round.ask(&asked, progress, &mut |clause, finding| take_in(&mut report, clause, finding, seed));
        let over = stop.load(Ordering::Relaxed) || ends.is_some_and(|ends| Instant::now() >= ends);
        if options.tier < Tier::Soak || ends.is_none() || over {
            break;
        }
        asked.retain(|clause| {
            report.entry(clause.id).is_some_and(|entry| is_worth_asking_again(clause, entry))
        });
    }
    report.run.ended = SystemClock.now();
    report
}

/// Whether another seed can show something new: the answer depends on timing, or rests on samples that were drawn.
/// What failed once has failed; the time is better spent on the others.
fn is_worth_asking_again(clause: &Clause, entry: &Entry) -> bool {
    let may_differ = clause.kind == Kind::Stochastic || !entry.counted.is_empty();
    may_differ && entry.verdict == Verdict::Pass
}

fn take_in(report: &mut Report, clause: &Clause, finding: &Finding, seed: u64) {
    if report.backend.store.is_none() {
        report.backend.store.clone_from(&finding.store);
    }
    if let Some(entry) = report.clauses.iter_mut().find(|entry| entry.promise.id == clause.id) {
        entry.add(finding, seed);
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tier {}, seed {}", self.tier, self.seed)
    }
}
