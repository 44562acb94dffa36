//! Proof that a test notices the fault that it is said to notice.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Broken programs that are tried at once.
const AT_ONCE: usize = 2;

/// A capability, a fault that takes it away, and the test that fails then.
#[derive(Clone, Copy, Debug)]
pub struct Break {
    /// The row of `docs/parity.md`, say `B21`.
    pub row: &'static str,
    /// The fault, as the code asks for it.
    pub mutant: &'static str,
    /// The path of the test in its program, as `cargo test -- --list` prints it.
    pub test: &'static str,
}

/// What is wrong with a list of breaks: faults that are not noticed by their test, tests that do not exist or fail
/// without a fault, and what the map (the text of `docs/parity.md`) does not say alike. Runs the program of tests that
/// it is called from.
#[must_use]
pub fn doubts(breaks: &[Break], map: &str) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let doubts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(one) = breaks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = unmapped(one, map).or_else(|| unnoticed(one));
                    doubts.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
                }
            });
        }
    });
    doubts.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn unmapped(one: &Break, map: &str) -> Option<String> {
    let Break { row, mutant, test } = one;
    // Some tests have a name per backend below their own.
    let backends = ["memory", "sqlite", "redb"];
    let name = test.rsplit("::").find(|part| !backends.contains(part)).unwrap_or(test);
    let Some(line) = map.lines().find(|line| line.starts_with(&format!("| **{row}** |"))) else {
        return Some(format!("{row}: the map has no such row"));
    };
    [*mutant, name]
        .iter()
        .find(|word| !line.contains(&format!("`{word}`")))
        .map(|word| format!("{row}: its row in the map does not name `{word}`"))
}

fn unnoticed(one: &Break) -> Option<String> {
    let Break { row, mutant, test } = one;
    match (run(test, ""), run(test, mutant)) {
        (Ok(true), Ok(false)) => None,
        (Ok(true), Ok(true)) => Some(format!("{row}: {test} does not notice {mutant}")),
        (Ok(false), _) => Some(format!("{row}: {test} fails without any fault, or is no test")),
        (Err(error), _) | (_, Err(error)) => Some(format!("{row}: {test} cannot be run: {error}")),
    }
}

/// Whether the test was run and passed.
fn run(test: &str, mutant: &str) -> std::io::Result<bool> {
    let output = Command::new(std::env::current_exe()?)
        .args([test, "--exact", "--include-ignored"])
        .env("TURNKEEP_MUTANT", mutant)
        .stdin(Stdio::null())
        .output()?;
    Ok(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed"))
}
