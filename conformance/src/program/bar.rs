//! Progress on standard error: a bar on a terminal, else a line per clause.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::show;
use crate::certify::Progress;
use crate::clause::Clause;
use crate::verdict::{Finding, Verdict};

/// Shows how far it is.
pub(super) struct Bar {
    bar: Option<ProgressBar>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    round: u32,
    total: usize,
    done: usize,
    broken: usize,
    /// What is being asked.
    asked: Vec<&'static str>,
}

impl Bar {
    pub(super) fn new() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(
                ProgressStyle::with_template("{bar:28} {pos:>3}/{len}  {elapsed:>4}  {wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar
        });
        Self { bar, seen: Mutex::default() }
    }

    pub(super) fn show(&self, progress: &Progress<'_>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Progress::Round { round, clauses } => {
                *seen = Seen { round: *round, total: *clauses, broken: seen.broken, ..Seen::default() };
                if let Some(bar) = &self.bar {
                    bar.set_length(*clauses as u64);
                    bar.set_position(0);
                } else if *round > 1 {
                    say(&format!("round {round}: {clauses} clauses again"));
                }
            }
            Progress::Asked { clause } => seen.asked.push(clause.id),
            Progress::Answered { clause, finding } => {
                seen.asked.retain(|id| *id != clause.id);
                seen.done += 1;
                let stands_out = !finding.verdict.is_acceptable();
                seen.broken += usize::from(stands_out);
                match &self.bar {
                    Some(bar) if stands_out => bar.println(line(clause, finding)),
                    Some(_) => {}
                    // Of later rounds, only what stands out.
                    None if seen.round > 1 && !stands_out => {}
                    None => say(&format!("{:>3}/{} {}", seen.done, seen.total, line(clause, finding))),
                }
            }
        }
        if let Some(bar) = &self.bar {
            bar.set_position(seen.done as u64);
            let round = if seen.round > 1 { format!("round {}  ", seen.round) } else { String::new() };
            let broken =
                if seen.broken > 0 { format!("{} not passed  ", seen.broken) } else { String::new() };
            bar.set_message(format!("{round}{broken}{}", seen.asked.join(" ")));
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// One answer on one line.
fn line(clause: &Clause, finding: &Finding) -> String {
    let detail = match &finding.verdict {
        Verdict::Pass => String::new(),
        verdict => format!("  {}", show::first_line(verdict.detail())),
    };
    let seconds = finding.elapsed.as_secs_f64();
    format!("{:<12} {} {seconds:>6.2} s{detail}", finding.verdict.as_str(), clause.id)
}

/// If nobody reads the progress, nobody misses it.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
