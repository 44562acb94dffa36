//! Breaks the rules and the backends in every small way, and looks which clause of the suite notices.
//!
//! The breaks are those that `cargo mutants` lists. It builds the workspace anew for each; this program writes all of
//! them into one copy of the sources, each behind a question that a variable of the environment answers, builds that
//! once, and runs the suite once for each break until a clause fails. A break that does not compile is found by the
//! compiler and taken out; one that only this way of writing it does not let compile is listed, for a build of its own.
//!
//! What no clause notices is asked of the tests of the broken crate, and what they do not notice either must be listed,
//! with its reason, in `docs/mutants.md`.
//!
//! What SQL checks is in no Rust source: the SQLite backend lists the terms and values of its statements itself.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod build;
mod child;
mod crate_tests;
mod judge;
mod left;
mod listed;
mod questions;
mod rewrite;
mod spots;
mod sql;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo run -p turnkeep-mutation -- COPY RESULTS BACKEND GLOB...

  COPY     folder for the changed copy of the workspace and its build; made or made anew
  RESULTS  file of results, one JSON object per line; breaks that have a line are not run again
  BACKEND  memory, sqlite or redb: the store that the clauses are run on
  GLOB     files to break, as `cargo mutants --file` takes them; or `sql`, alone: the checks of SQL statements

needs cargo-mutants, for its list";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [copy, results, backend, globs @ ..] = arguments.as_slice() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if globs.is_empty() {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    match run(&PathBuf::from(copy), &PathBuf::from(results), backend, globs) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("mutation: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every break that could be run was noticed, but for those that may be left.
fn run(
    copy: &std::path::Path,
    results: &std::path::Path,
    backend: &str,
    globs: &[String],
) -> Result<bool, String> {
    if globs == ["sql"] {
        let program = build::build_sound(copy)?;
        let ready = sql::list(&program, &copy.join("target/checks"), backend)?;
        println!("{} checks listed", ready.len());
        let tests = crate_tests::build(copy, sql::FILES.into_iter())?;
        let built = build::Built { program, tests, ready, unviable: Vec::new(), alone: Vec::new() };
        return judge::judge(&built, results, backend, |line| println!("{line}"));
    }
    let all = listed::list(globs)?;
    let count = all.len();
    let listed = questions::leave_out(all, std::path::Path::new("."))?;
    println!(
        "{} breaks listed; {} more touch only what a named fault runs",
        listed.len(),
        count - listed.len()
    );
    let built = build::build(copy, &listed, |line| println!("{line}"))?;
    println!(
        "{} can be run, {} do not compile, {} need a build of their own",
        built.ready.len(),
        built.unviable.len(),
        built.alone.len()
    );
    for one in &built.alone {
        println!("  needs a build of its own: {}", one.name);
    }
    judge::judge(&built, results, backend, |line| println!("{line}"))
}
