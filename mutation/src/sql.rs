//! The checks of SQL statements, as the SQLite backend lists those that it prepares.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::judge;
use crate::listed::{Genre, Listed, Place, Span};

/// Where the statements are.
pub(crate) const FILES: [&str; 1] = ["backend-sqlite/src"];
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
    // Whether it passes is asked later.
    Command::new(program)
        .args([backend, clause])
        .env(LIST, list)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = std::fs::read_to_string(list).map_err(|error| failed(&error))?;
    // A process that was killed may leave half a line. Another one wrote the whole of it.
    let line = |line: &str| match line.split('\t').collect::<Vec<_>>()[..] {
        [fault, change, statement] => {
            Some((fault.to_owned(), Seen { change: change.to_owned(), statement: statement.to_owned() }))
        }
        _ => None,
    };
    Ok(text.lines().filter_map(line).collect())
}
