//! Runs clauses on one of our backends until one does not hold, and names it: what the mutation runs ask.
//!
//! `judge BACKEND CLAUSE...` prints `passed`, or the clause that failed with what it says; a clause without an answer
//! goes to the error output. `judge BACKEND --time` prints
//! all clauses that pass, the quickest first.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use turnkeep_conformance::runner::{self, Settings};
use turnkeep_conformance::{Clause, Finding, Harness, Verdict, registry};
use turnkeep_harnesses::{MemoryHarness, RedbHarness, SqliteHarness};

/// A clause that takes longer than this is given up.
const LONGEST: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [backend, clauses @ ..] = arguments.as_slice() else {
        eprintln!("usage: judge BACKEND (--time | CLAUSE...)");
        return ExitCode::from(2);
    };
    let harness: Arc<dyn Harness> = match backend.as_str() {
        "memory" => Arc::new(MemoryHarness),
        "sqlite" => Arc::new(SqliteHarness),
        "redb" => Arc::new(RedbHarness),
        _ => {
            eprintln!("judge: there is no backend {backend:?}");
            return ExitCode::from(2);
        }
    };
    if clauses == ["--time"] {
        let mut timed: Vec<_> = registry::all().map(|clause| (clause.id, find(&harness, clause))).collect();
        timed.sort_by_key(|(_, finding)| finding.elapsed);
        timed
            .iter()
            .filter(|(_, finding)| finding.verdict == Verdict::Pass)
            .for_each(|(id, _)| println!("{id}"));
        return ExitCode::SUCCESS;
    }
    for id in clauses {
        let Some(clause) = registry::by_id(id) else {
            eprintln!("judge: there is no clause {id}");
            return ExitCode::from(2);
        };
        let verdict = find(&harness, clause).verdict;
        match verdict {
            Verdict::Pass => {}
            Verdict::Fail(_) => {
                println!("{id} {}", verdict.to_string().replace('\n', " "));
                return ExitCode::SUCCESS;
            }
            // Noticed, but not by a broken promise: a panic, a hang, or nothing to ask.
            other => {
                eprintln!("{id} {}", other.to_string().replace('\n', " "));
                return ExitCode::FAILURE;
            }
        }
    }
    println!("passed");
    ExitCode::SUCCESS
}

fn find(harness: &Arc<dyn Harness>, clause: &'static Clause) -> Finding {
    let mut settings = Settings::of(clause);
    settings.longest = settings.longest.min(LONGEST);
    runner::find(Arc::clone(harness), clause, settings)
}
