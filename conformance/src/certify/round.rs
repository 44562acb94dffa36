//! One round: each of some clauses once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::{Options, Progress};
use crate::clause::Clause;
use crate::harness::Harness;
use crate::runner::{self, Settings};
use crate::tier::Tier;
use crate::verdict::{Finding, Verdict};

/// How to ask in this round.
pub(super) struct Round<'a> {
    pub(super) harness: &'a Arc<dyn Harness>,
    pub(super) options: &'a Options,
    pub(super) seed: u64,
    pub(super) ends: Option<Instant>,
    pub(super) stop: &'a AtomicBool,
    /// Later rounds only add to what is known: what they do not come to is not said.
    pub(super) is_first: bool,
}

/// What the threads of a round report.
enum News {
    Asked(&'static Clause),
    Answered(&'static Clause, Finding),
}

impl Round<'_> {
    /// Asks the clauses; each answer is taken in as it comes, on the calling thread.
    pub(super) fn ask(
        &self,
        clauses: &[&'static Clause],
        progress: &(dyn Fn(Progress<'_>) + Sync),
        take_in: &mut dyn FnMut(&'static Clause, &Finding),
    ) {
        // What counts what its process has is disturbed by nobody who has another one.
        let shared = self.options.processes.is_none();
        let (alone, mut beside): (Vec<_>, Vec<&Clause>) =
            clauses.iter().copied().partition(|clause| clause.quiet || (clause.alone && shared));
        // They count long, so they begin first.
        beside.sort_by_key(|clause| !clause.alone);
        self.ask_at_once(&beside, self.options.jobs.max(1), progress, take_in);
        self.ask_at_once(&alone, 1, progress, take_in);
    }

    fn ask_at_once(
        &self,
        clauses: &[&'static Clause],
        jobs: u32,
        progress: &(dyn Fn(Progress<'_>) + Sync),
        take_in: &mut dyn FnMut(&'static Clause, &Finding),
    ) {
        let queue = Mutex::new(VecDeque::from(clauses.to_vec()));
        let (send, news) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..jobs {
                let (queue, send) = (&queue, send.clone());
                scope.spawn(move || self.work(queue, &send));
            }
            drop(send);
            for news in news {
                match news {
                    News::Asked(clause) => progress(Progress::Asked { clause }),
                    News::Answered(clause, finding) => {
                        progress(Progress::Answered { clause, finding: &finding });
                        take_in(clause, &finding);
                    }
                }
            }
        });
    }

    fn work(&self, queue: &Mutex<VecDeque<&'static Clause>>, send: &Sender<News>) {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(clause) = next else { return };
            let finding = match self.obstacle() {
                Some(why) => Finding::of(Verdict::NotRun(why.to_owned())),
                None => {
                    let _ = send.send(News::Asked(clause));
                    self.ask_one(clause)
                }
            };
            // Of a later round, only what was found counts.
            if self.is_first || !matches!(finding.verdict, Verdict::NotRun(_)) {
                let _ = send.send(News::Answered(clause, finding));
            }
        }
    }

    /// Why no more clauses are asked.
    fn obstacle(&self) -> Option<&'static str> {
        if self.stop.load(Ordering::Relaxed) {
            Some("interrupted")
        } else if self.ends.is_some_and(|ends| Instant::now() >= ends) {
            Some("the budget ran out")
        } else {
            None
        }
    }

    /// Asks one clause, for its own time, or what is left of the budget.
    fn ask_one(&self, clause: &'static Clause) -> Finding {
        let left = self.ends.map(|ends| ends.saturating_duration_since(Instant::now()));
        let longest = left.map_or(clause.timeout, |left| left.min(clause.timeout));
        // A soak draws no larger samples, but more of them: each has the time of its clause.
        let tier = self.options.tier.min(Tier::Full);
        let settings = Settings { tier, seed: self.seed, longest, ..Settings::of(clause) };
        let finding = match &self.options.processes {
            Some(processes) => processes.ask(clause, &settings, self.stop),
            None => runner::find(Arc::clone(self.harness), clause, settings),
        };
        // Cut short, it is neither its fault nor an answer.
        match (&finding.verdict, self.obstacle()) {
            (Verdict::Error(_), Some(why)) => {
                let why = format!("{why} while it was asked");
                Finding { verdict: Verdict::NotRun(why), ..finding }
            }
            _ => finding,
        }
    }
}
