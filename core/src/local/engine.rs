//! What the group committer needs of an engine whose transactions are local.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::rules::{Facts, ReadSet, Stamp, WriteSet};

/// How an engine's commit failed.
#[derive(Debug)]
pub enum CommitFailure {
    /// Provably nothing of the transaction was applied, and it is rolled back.
    NothingApplied(Error),
    /// A sync failed or the engine cannot say. The handle must not be used for writing again.
    Unknown(Error),
}

/// An engine as the writer thread sees it: one transaction at a time, all calls from one thread.
pub trait Engine: Send + 'static {
    /// Starts a write transaction, waiting for other processes at most until `deadline` (`Busy` afterwards), and
    /// re-reads the format version (`NewerFormat`, `OlderFormat` when it is not ours any more).
    ///
    /// # Errors
    /// On an error no transaction is open.
    fn begin(&mut self, deadline: Instant) -> Result<()>;

    /// The time, the next activity number and fresh random bits, within a transaction.
    ///
    /// # Errors
    /// When the last activity cannot be read.
    fn stamp(&mut self) -> Result<Stamp>;

    /// Answers look-ups within the transaction; writes applied in it before are visible.
    ///
    /// # Errors
    /// `Corrupt`, `Io`, …: an absence is no error.
    fn facts(&mut self, workspace: &WorkspaceId, reads: &ReadSet, stamp: &Stamp) -> Result<Facts>;

    /// Writes rows within the transaction. Never called with anything that the rules refused.
    ///
    /// # Errors
    /// `Full`, `Io`, …: the committer rolls back and finds the culprit.
    fn apply(&mut self, writes: &WriteSet) -> Result<()>;

    /// Makes the transaction durable, as far as the store promises.
    ///
    /// # Errors
    /// Says whether anything may have been applied.
    fn commit(&mut self) -> std::result::Result<(), CommitFailure>;

    /// Undoes the transaction.
    ///
    /// # Errors
    /// When it cannot be proved undone; the handle is then poisoned.
    fn rollback(&mut self) -> Result<()>;

    /// Chores after the callers were answered: a checkpoint, a slice of a purge. Must be short. Outside of any
    /// transaction; `idle` says whether nobody waits. Answers whether more is to be done.
    fn housekeeping(&mut self, idle: bool) -> bool;

    /// How long nobody may have come before [`Engine::rest`] is called; `None` while there is nothing to do then.
    fn rests_after(&self) -> Option<Duration> {
        None
    }

    /// Chores that are not worth a wait of anybody: done when nobody came for [`Engine::rests_after`]. Must be short,
    /// like [`Engine::housekeeping`], and is called again while it answers that more is to be done and nobody comes.
    fn rest(&mut self) -> bool {
        false
    }

    /// Ends the use: flush and give back what is held.
    ///
    /// # Errors
    /// When flushing failed.
    fn close(&mut self) -> Result<()>;
}
