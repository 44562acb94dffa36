//! The tests of the crates that are broken. They are asked about what no clause notices.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build;
use crate::child;

/// Modules that are not asked: clauses were asked before, and the others break the stores themselves.
const NOT_ASKED: [&str; 4] = ["conformance::", "breaks::", "suite_bites::", "certifies::"];

/// A program that runs tests of a crate.
pub(crate) struct Tests {
    program: PathBuf,
    folder: PathBuf,
}

/// Builds the tests of the crates that have these files.
pub(crate) fn build<'f>(copy: &Path, files: impl Iterator<Item = &'f str>) -> Result<Vec<Tests>, String> {
    let folders: BTreeSet<&str> = files.filter_map(|file| Some(file.split_once('/')?.0)).collect();
    let mut tests = Vec::new();
    for folder in folders {
        let manifest = format!("{folder}/Cargo.toml");
        let made = build::cargo(copy, &["test", "--no-run", "--all-features", "--manifest-path", &manifest])?;
        if !made.errors.is_empty() {
            return Err(format!("the tests of {folder} do not compile: {:?}", made.errors));
        }
        let programs = made.programs.into_iter().filter(|program| program.tests);
        tests.extend(programs.map(|program| Tests { program: program.path, folder: copy.join(folder) }));
    }
    Ok(tests)
}

impl Tests {
    /// Runs the tests with one break, or with none if it is empty. Answers what failed.
    pub(crate) fn ask(&self, fault: &str) -> Result<Option<String>, String> {
        let mut command = Command::new(&self.program);
        command.args(NOT_ASKED.iter().flat_map(|module| ["--skip", module]));
        command.current_dir(&self.folder).env("TURNKEEP_MUTANT", fault);
        let ended = child::run(command)?;
        if ended.success == Some(true) {
            return Ok(None);
        }
        let failed =
            ended.said.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        let hangs = || if ended.success.is_none() { "no end" } else { "no test is named" };
        Ok(Some(failed.map_or_else(|| hangs().to_owned(), str::to_owned)))
    }
}
