//! Statements, each prepared once per connection.

use rusqlite::{CachedStatement, Connection};

/// What readers and writer run every statement through.
pub(crate) trait Prepare {
    /// The statement with this text, prepared now or before.
    fn prepared(&self, text: &str) -> rusqlite::Result<CachedStatement<'_>>;
}

impl Prepare for Connection {
    #[cfg(not(feature = "mutants"))]
    #[inline]
    fn prepared(&self, text: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.prepare_cached(text)
    }

    #[cfg(feature = "mutants")]
    #[track_caller]
    fn prepared(&self, text: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.prepare_cached(&crate::faults::in_statement(text, std::panic::Location::caller()))
    }
}
