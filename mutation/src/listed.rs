//! The breaks, as `cargo mutants` lists them.

use std::collections::BTreeSet;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// A place in a file: lines and columns count from one, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Span {
    pub(crate) start: Place,
}

/// What kind of break it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Genre {
    /// A function answers something at once.
    FnValue,
    /// An operator between two values is another one.
    BinaryOperator,
    /// An operator before a value is gone.
    UnaryOperator,
    /// An arm is gone.
    MatchArm,
    /// The condition of an arm holds always, or never.
    MatchArmGuard,
    /// A field is taken from the base of a struct expression.
    StructField,
    /// A check of an SQL statement is passed over. `cargo mutants` does not list these.
    SqlCheck,
}

/// One break.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Listed {
    /// Its number within this run.
    #[serde(skip)]
    pub(crate) id: usize,
    /// What it is, with the place; the same in every run over the same sources.
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) genre: Genre,
    pub(crate) replacement: String,
    pub(crate) span: Span,
    /// The clauses that come past it, if that is known.
    #[serde(skip)]
    pub(crate) clauses: Option<BTreeSet<String>>,
}

impl Listed {
    /// What the program is told to commit it.
    pub(crate) fn fault(&self) -> String {
        match self.genre {
            Genre::SqlCheck => self.replacement.clone(),
            _ => format!("#{}", self.id),
        }
    }
}

/// Lists the breaks in the files.
pub(crate) fn list(globs: &[String]) -> Result<Vec<Listed>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["mutants", "--workspace", "--list", "--json"]);
    for glob in globs {
        command.args(["--file", glob]);
    }
    let output = command.output().map_err(|error| format!("cargo mutants cannot be run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("cargo mutants listed nothing (is it installed?): {said}"));
    }
    let mut listed: Vec<Listed> = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the list of cargo mutants is not understood: {error}"))?;
    for (id, one) in listed.iter_mut().enumerate() {
        one.id = id;
    }
    Ok(listed)
}
