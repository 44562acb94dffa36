//! The checks of SQL statements, as the SQLite backend lists those that it prepares.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::judge;
use crate::listed::{Genre, Listed, Place, Span};

/// The variable that asks for the list, see `backend-sqlite/src/faults/checks.rs`.
const LIST: &str = "TURNKEEP_SQL_CHECKS";

/// Runs every clause and lists the checks of the statements that were prepared.
pub(crate) fn list(program: &Path, list: &Path, backend: &str) -> Result<Vec<Listed>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", list.display());
    // A list of an earlier run may be of other statements.
    std::fs::write(list, "").map_err(|error| failed(&error))?;
    let clauses = judge::clauses(program, backend)?;
    let status = Command::new(program)
        .arg(backend)
        .args(clauses)
        .env(LIST, list)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if !status.success() {
        return Err("without any break the suite does not end".to_owned());
    }
    let text = std::fs::read_to_string(list).map_err(|error| failed(&error))?;
    // A check is in many statements: each with other filters, and written down by each process. One is shown.
    let mut checks = BTreeMap::new();
    for line in text.lines() {
        let [fault, change, statement] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(format!("a line of the list is not understood: {line}"));
        };
        let shown = checks.entry(fault).or_insert((change, statement));
        *shown = (*shown).min((change, statement));
    }
    let mut listed = Vec::new();
    for (id, (fault, (change, statement))) in checks.into_iter().enumerate() {
        listed.push(Listed {
            id,
            name: format!("{change} in: {statement}"),
            file: String::new(),
            genre: Genre::SqlCheck,
            replacement: fault.to_owned(),
            span: Span { start: Place { line: 0, column: 0 } },
        });
    }
    Ok(listed)
}
