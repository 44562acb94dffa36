//! The house rules, one file each. A check reads the project and reports; it never writes.

mod arrows;
mod dependencies;
mod errors;
mod files;
mod licences;
mod parity;
mod words;

use crate::project::Project;

/// A check by name.
type Check = (&'static str, fn(&Project) -> Report);

/// Every check, in the order in which they run.
pub(crate) const ALL: [Check; 7] = [
    ("arrows", arrows::check),
    ("files", files::check),
    ("dependencies", dependencies::check),
    ("licences", licences::check),
    ("errors", errors::check),
    ("parity", parity::check),
    ("words", words::check),
];

/// What a check found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Broken rules. Each says what to do.
    pub(crate) failures: Vec<String>,
    /// Worth knowing, not wrong.
    pub(crate) notes: Vec<String>,
}

impl Report {
    fn fail(&mut self, message: impl Into<String>) {
        self.failures.push(message.into());
    }

    fn note(&mut self, message: impl Into<String>) {
        self.notes.push(message.into());
    }

    /// The value, or a failure and `None`.
    fn take<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.fail(message)).ok()
    }
}
