//! Longer chores of the turnkeep workspace. `cargo xtask check` tests the house rules and never writes.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod check;
mod project;

use std::process::ExitCode;

use project::Project;

const USAGE: &str = "usage: cargo xtask check";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => {}
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    let project = match Project::open() {
        Ok(project) => project,
        Err(message) => {
            eprintln!("xtask: {message}");
            return ExitCode::FAILURE;
        }
    };
    let mut failures = 0;
    for (name, check) in check::ALL {
        let report = check(&project);
        println!("{name}: {}", if report.failures.is_empty() { "ok" } else { "FAILED" });
        for note in &report.notes {
            println!("  note: {note}");
        }
        for failure in &report.failures {
            println!("  {failure}");
        }
        failures += report.failures.len();
    }
    if failures == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!("xtask check: {failures} failure(s)");
    ExitCode::FAILURE
}
