//! The engine under the group committer, which calls it from its one writer thread.

use std::fs::File;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use turnkeep_core::limits::SLICE_ROWS;
use turnkeep_core::local::{CommitFailure, Engine, Handles, random_bits};
use turnkeep_core::rules::{Facts, ReadSet, Stamp, WriteSet};
use turnkeep_core::store::PurgeReport;
use turnkeep_core::{Clock, Error, ErrorKind, Result, WorkspaceId};
use turnkeep_memory::Tables;

use crate::log::Log;
use crate::store::liveness;

#[derive(Debug)]
pub(crate) struct Writer {
    log: Log,
    tables: Arc<RwLock<Tables>>,
    clock: Arc<dyn Clock>,
    handles: Handles,
    lock: File,
    /// The stamp of the transaction, and what it will write.
    stamp: Option<Stamp>,
    writes: Option<WriteSet>,
    /// Why no more may be written.
    poisoned: Option<Error>,
}

impl Writer {
    pub(crate) fn new(
        log: Log,
        tables: Arc<RwLock<Tables>>,
        clock: Arc<dyn Clock>,
        handles: Handles,
        lock: File,
    ) -> Self {
        Self { log, tables, clock, handles, lock, stamp: None, writes: None, poisoned: None }
    }

    /// Reads go on meanwhile. A panic cannot happen between the log and the tables, so poison means nothing.
    fn with_tables<T>(&self, read: impl FnOnce(&Tables) -> T) -> T {
        read(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change_tables<T>(&self, change: impl FnOnce(&mut Tables) -> T) -> T {
        change(&mut self.tables.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn check_poison(&self) -> Result<()> {
        let Some(error) = &self.poisoned else { return Ok(()) };
        let message = "an earlier write failed in a way that leaves its outcome open; reopen the store";
        Err(Error::new(ErrorKind::Poisoned, message).with_source(error.to_string()))
    }

    /// Writes the log anew, without what is not needed any more.
    pub(crate) fn compact(&mut self) -> Result<()> {
        self.check_poison()?;
        let tables = Arc::clone(&self.tables);
        let tables = tables.read().unwrap_or_else(PoisonError::into_inner);
        match self.log.shorten(&tables) {
            Ok(()) => Ok(()),
            Err(CommitFailure::NothingApplied(error)) => Err(error),
            Err(CommitFailure::Unknown(error)) => {
                self.poisoned = Some(error.duplicate());
                Err(error)
            }
        }
    }

    /// Removes a slice of what deleted sessions left; `None` when nothing waits. The log forgets it when it is written
    /// anew, and tables made of the log do it again.
    pub(crate) fn purge_slice(&mut self) -> Result<Option<PurgeReport>> {
        self.check_poison()?;
        Ok(self.change_tables(|tables| tables.purge_waits().then(|| tables.purge_slice(SLICE_ROWS.into()))))
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }
}

impl Engine for Writer {
    /// Never waits: nobody else writes.
    fn begin(&mut self, _deadline: Instant) -> Result<()> {
        self.check_poison()
    }

    fn stamp(&mut self) -> Result<Stamp> {
        let now = self.clock.now();
        let activity = self.with_tables(|tables| Stamp::next_activity(now, tables.activity()));
        let stamp = Stamp { now, activity, nonce: random_bits()? };
        self.stamp = Some(stamp);
        Ok(stamp)
    }

    fn facts(&mut self, workspace: &WorkspaceId, reads: &ReadSet, _stamp: &Stamp) -> Result<Facts> {
        let liveness = liveness(&self.handles);
        Ok(self.with_tables(|tables| tables.facts(workspace, reads.clone(), liveness)))
    }

    /// Keeps the rows for the commit: nobody may see them before they are durable.
    fn apply(&mut self, writes: &WriteSet) -> Result<()> {
        self.writes = Some(writes.clone());
        Ok(())
    }

    fn commit(&mut self) -> std::result::Result<(), CommitFailure> {
        let (Some(stamp), Some(set)) = (self.stamp.take(), self.writes.take()) else { return Ok(()) };
        match self.log.append(stamp.activity, &set) {
            Ok(()) => {
                self.change_tables(|tables| {
                    tables.chores(&set.workspace, stamp.now, SLICE_ROWS);
                    tables.apply(set, stamp.activity);
                });
                Ok(())
            }
            Err(CommitFailure::Unknown(error)) => {
                self.poisoned = Some(error.duplicate());
                Err(CommitFailure::Unknown(error))
            }
            Err(nothing) => Err(nothing),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        (self.stamp, self.writes) = (None, None);
        Ok(())
    }

    fn housekeeping(&mut self, idle: bool) -> bool {
        if self.log.is_long() && self.compact().is_err() {
            return false;
        }
        idle && matches!(self.purge_slice(), Ok(Some(_)))
    }

    fn close(&mut self) -> Result<()> {
        let marked = if self.poisoned.is_none() { self.log.rest() } else { Ok(()) };
        // Explicitly: a process that is being started may hold a copy of the descriptor for a moment.
        let _ = self.lock.unlock();
        marked
    }
}
