//! A source file stays short enough to be read in one go.

use super::Report;
use crate::project::Project;

/// A file of this many lines is too long.
const LIMIT: usize = 800;
/// Above this many lines a file is worth a look.
const AIM: usize = 500;

pub(super) fn check(project: &Project) -> Report {
    let mut report = Report::default();
    for file in project.rust_files() {
        let Some(text) = report.take(project.read(file)) else { continue };
        let lines = text.lines().count();
        if lines >= LIMIT {
            report
                .fail(format!("{file}: {lines} lines; split it by meaning, so that it stays under {LIMIT}"));
        } else if lines > AIM {
            report.note(format!("{file}: {lines} lines; the aim is {AIM}"));
        }
    }
    report
}
