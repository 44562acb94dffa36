//! The checks of SQL statements, as the SQLite backend lists those that it prepares.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::judge;
use crate::listed::{Genre, Listed, Place, Span};

/// The variable that asks for the list, see `backend-sqlite/src/faults/checks.rs`.
const LIST: &str = "TURNKEEP_SQL_CHECKS";

/// Runs every clause and lists the checks of the statements that it prepares.
pub(crate) fn list(program: &Path, list: &Path, backend: &str) -> Result<Vec<Listed>, String> {
    let mut checks: BTreeMap<String, Check> = BTreeMap::new();
    for clause in judge::clauses(program, backend)? {
        for (fault, seen) in of_clause(program, list, backend, &clause)? {
            let check =
                checks.entry(fault).or_insert_with(|| Check { seen: seen.clone(), clauses: BTreeSet::new() });
            check.seen = check.seen.clone().min(seen);
            check.clauses.insert(clause.clone());
        }
    }
    let listed = checks.into_iter().enumerate().map(|(id, (fault, Check { seen, clauses }))| Listed {
        id,
        name: format!("{} in: {}", seen.change, seen.statement),
        file: String::new(),
        genre: Genre::SqlCheck,
        replacement: fault,
        span: Span { start: Place { line: 0, column: 0 } },
        clauses: Some(clauses),
    });
    Ok(listed.collect())
}

/// A check is in many statements: each with other filters, and written down by each process. One is shown.
struct Check {
    seen: Seen,
    clauses: BTreeSet<String>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    change: String,
    statement: String,
}

/// The checks that one clause comes past, by their faults.
fn of_clause(
    program: &Path,
    list: &Path,
    backend: &str,
    clause: &str,
) -> Result<Vec<(String, Seen)>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", list.display());
    std::fs::write(list, "").map_err(|error| failed(&error))?;
    let status = Command::new(program)
        .args([backend, clause])
        .env(LIST, list)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if !status.success() {
        return Err(format!("without any break {clause} does not end"));
    }
    let text = std::fs::read_to_string(list).map_err(|error| failed(&error))?;
    let line = |line: &str| match line.split('\t').collect::<Vec<_>>()[..] {
        [fault, change, statement] => {
            Ok((fault.to_owned(), Seen { change: change.to_owned(), statement: statement.to_owned() }))
        }
        _ => Err(format!("a line of the list is not understood: {line}")),
    };
    text.lines().map(line).collect()
}
