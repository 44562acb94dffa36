//! Runs clauses on one of our backends until one does not hold, and names it: what the mutation runs ask.
//!
//! `judge BACKEND CLAUSE...` prints `passed`, or the clause that failed with what it says. If none fails, and one ends
//! without a verdict by a panic or a hang, it goes to the error output. `judge BACKEND --time` prints all clauses that
//! pass, the quickest first. The tier is that of generated tests, `TURNKEEP_CONFORMANCE_TIER`. `judge BACKEND --role
//! CLAUSE` is what it starts itself, for a clause that needs other processes.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use turnkeep_conformance::runner::{self, Settings};
use turnkeep_conformance::{Clause, Finding, Harness, Tier, Verdict, registry};
use turnkeep_harnesses::{MemoryHarness, RedbHarness, SqliteHarness};

/// A clause that takes longer than this in the smallest tier is given up.
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
    if let [role, id] = clauses
        && role == "--role"
    {
        let played = registry::by_id(id).map(|clause| runner::play(harness, clause));
        return match played {
            Some(Ok(())) => ExitCode::SUCCESS,
            played => {
                eprintln!("judge: a role of {id}: {played:?}");
                ExitCode::FAILURE
            }
        };
    }
    if clauses == ["--time"] {
        let mut timed = Vec::new();
        for clause in registry::all() {
            match find(&harness, backend, clause) {
                Ok(finding) => timed.push((clause.id, finding)),
                Err(error) => {
                    eprintln!("judge: {error}");
                    return ExitCode::from(2);
                }
            }
        }
        timed.sort_by_key(|(_, finding)| finding.elapsed);
        timed
            .iter()
            .filter(|(_, finding)| finding.verdict == Verdict::Pass)
            .for_each(|(id, _)| println!("{id}"));
        return ExitCode::SUCCESS;
    }
    // Noticed, but not by a broken promise. Another clause may say more; after a hang the others would hang, too.
    let mut stumbled = None;
    for id in clauses {
        let Some(clause) = registry::by_id(id) else {
            eprintln!("judge: there is no clause {id}");
            return ExitCode::from(2);
        };
        let finding = match find(&harness, backend, clause) {
            Ok(finding) => finding,
            Err(error) => {
                eprintln!("judge: {error}");
                return ExitCode::from(2);
            }
        };
        let said = format!("{id} {}", finding.verdict.to_string().replace('\n', " "));
        match finding.verdict {
            // What could not be asked was not noticed.
            Verdict::Pass
            | Verdict::Unsupported(_)
            | Verdict::Waived(_)
            | Verdict::NotRun(_)
            | Verdict::Inconclusive(_) => {}
            Verdict::Fail(_) => {
                println!("{said}");
                return ExitCode::SUCCESS;
            }
            Verdict::Error(_) => {
                stumbled.get_or_insert(said);
                if finding.elapsed >= LONGEST {
                    break;
                }
            }
        }
    }
    if let Some(said) = stumbled {
        eprintln!("{said}");
        return ExitCode::FAILURE;
    }
    println!("passed");
    ExitCode::SUCCESS
}

fn find(harness: &Arc<dyn Harness>, backend: &str, clause: &'static Clause) -> Result<Finding, String> {
    let mut settings = Settings::with_processes(clause, &[backend, "--role", clause.id])?;
    if settings.tier == Tier::Smoke {
        settings.longest = settings.longest.min(LONGEST);
    }
    Ok(runner::find(Arc::clone(harness), clause, settings))
}
