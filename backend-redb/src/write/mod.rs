//! The one writer: what the group committer drives.

mod apply;
mod cache;
mod chores;
mod copy;
mod facts;
mod purge;
mod rows;

use std::sync::Arc;
use std::time::Instant;

use redb::{Durability, WriteTransaction};
use turnkeep_core::local::{CommitFailure, Engine, Handles, Pace, Permit, random_bits};
use turnkeep_core::mutant;
use turnkeep_core::rules::{Facts, ReadSet, Stamp, WriteSet};
use turnkeep_core::{Clock, Error, ErrorKind, Result, WorkspaceId};

use crate::database::Database;
use crate::error;
use crate::write::cache::Cache;

/// The writer's state, owned by its thread. One process has the file, so nothing changes behind its back.
#[derive(Debug)]
pub(crate) struct Writer {
    database: Arc<Database>,
    transaction: Option<Transaction>,
    clock: Arc<dyn Clock>,
    owners: Handles,
    cache: Cache,
    last_activity: u64,
    /// Whether rows were written in the open transaction.
    dirty: bool,
    /// How many syncs had failed when it began.
    syncs_failed: u64,
    pace: Pace,
    permit: Permit,
}

/// A write transaction; the engine's own has no debug form.
struct Transaction(WriteTransaction);

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Transaction")
    }
}

impl Writer {
    pub(crate) fn new(
        database: Arc<Database>,
        clock: Arc<dyn Clock>,
        owners: Handles,
        last_activity: u64,
        damaged: bool,
    ) -> Self {
        Self {
            database,
            transaction: None,
            clock,
            owners,
            cache: Cache::default(),
            last_activity,
            dirty: false,
            syncs_failed: 0,
            pace: Pace::new(Instant::now()),
            permit: Permit::new(damaged),
        }
    }

    fn open_transaction(&mut self) -> Result<()> {
        self.permit.check()?;
        self.syncs_failed = self.database.syncs().1;
        let begun = match self.begin_engine() {
            Err(error) if self.database.syncs().1 != self.syncs_failed => {
                self.permit.poison(&error);
                Err(error)
            }
            // It met an error of the file before, perhaps while somebody read. No sync failed, so nothing is in doubt.
            Err(error) if error.kind() == ErrorKind::Poisoned => {
                self.database.revive().and_then(|()| self.begin_engine())
            }
            begun => begun,
        };
        self.transaction = Some(begun?);
        Ok(())
    }

    fn begin_engine(&self) -> Result<Transaction> {
        let quick_repair = self.database.quick_repair;
        self.database.with(|database| {
            let mut transaction = database.begin_write().map_err(error::transaction)?;
            let durability =
                mutant::either("redb/commits-not-durable", Durability::None, Durability::Immediate);
            transaction.set_durability(durability).map_err(|error| {
                Error::new(ErrorKind::Io, "the engine cannot make commits durable").with_source(error)
            })?;
            transaction.set_quick_repair(quick_repair);
            Ok(Transaction(transaction))
        })
    }

    fn transaction(&self) -> Result<&WriteTransaction> {
        self.transaction.as_ref().map(|open| &open.0).ok_or_else(no_transaction)
    }

    fn finish(&mut self) -> std::result::Result<(), CommitFailure> {
        let open = self.transaction.take().ok_or_else(|| CommitFailure::NothingApplied(no_transaction()))?;
        let before = self.database.syncs();
        match open.0.commit() {
            Ok(()) => {
                self.dirty = false;
                Ok(())
            }
            Err(failure) => {
                self.forget();
                let (error, refused) = error::commit(failure);
                // A commit in two phases, as quick repair has them, makes its rows current only after a sync that
                // worked. Where none was even asked for, the file still is what it was.
                let untouched = self.database.quick_repair && self.database.syncs() == before;
                if refused || (untouched && self.start_over(&error)) {
                    return Err(CommitFailure::NothingApplied(error));
                }
                self.permit.poison(&error);
                Err(CommitFailure::Unknown(error))
            }
        }
    }

    /// Opens the engine anew after it met an error of the file which changed nothing. `false` when that cannot be
    /// said any more: a sync failed, and nobody knows what became of the writes before it.
    fn start_over(&mut self, error: &Error) -> bool {
        if self.database.syncs().1 != self.syncs_failed {
            return false;
        }
        // If it does not open now, the next use of it tries again and answers why not.
        if error.kind() != ErrorKind::Corrupt {
            let _ = self.database.revive();
        }
        true
    }

    /// Rows at hand may be those of a transaction that is given up.
    fn forget(&mut self) {
        if std::mem::replace(&mut self.dirty, false) && !mutant::is("redb/rows-at-hand-outlive-a-rollback") {
            self.cache.clear();
        }
    }

    fn undo(&mut self) -> Result<()> {
        self.forget();
        let Some(open) = self.transaction.take() else { return Ok(()) };
        match open.0.abort().map_err(error::storage) {
            // What was not committed changed nothing, also if the engine can no longer tidy up after it.
            Err(error) if self.start_over(&error) => Ok(()),
            undone => undone,
        }
    }

    /// Does a chore in a transaction of its own.
    fn in_transaction<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.open_transaction()?;
        // A chore that looked and found nothing to do must not cost a sync.
        let done = error::contained(|| work(self));
        match done {
            Ok(done) if self.dirty => match self.finish() {
                Ok(()) => Ok(done),
                Err(CommitFailure::NothingApplied(error) | CommitFailure::Unknown(error)) => Err(error),
            },
            done => {
                if let Err(failed) = self.undo() {
                    self.permit.poison(&failed);
                }
                done
            }
        }
    }
}

fn no_transaction() -> Error {
    Error::new(ErrorKind::Io, "no transaction is open; this is a bug of turnkeep")
}

impl Engine for Writer {
    /// Never waits: nobody else writes.
    fn begin(&mut self, _deadline: Instant) -> Result<()> {
        self.open_transaction()
    }

    fn stamp(&mut self) -> Result<Stamp> {
        let now = self.clock.now();
        self.last_activity = Stamp::next_activity(now, self.last_activity);
        let nonce = random_bits()?;
        Ok(Stamp { now, activity: self.last_activity, nonce })
    }

    fn facts(&mut self, workspace: &WorkspaceId, reads: &ReadSet, _stamp: &Stamp) -> Result<Facts> {
        let open = self.transaction.as_ref().ok_or_else(no_transaction)?;
        let (cache, owners) = (&mut self.cache, &self.owners);
        error::contained(|| facts::facts(&open.0, cache, owners, workspace, reads))
    }

    fn apply(&mut self, writes: &WriteSet) -> Result<()> {
        self.dirty = true;
        let open = self.transaction.as_ref().ok_or_else(no_transaction)?;
        let (cache, activity) = (&mut self.cache, &mut self.last_activity);
        let deleted = error::contained(|| apply::apply(&open.0, cache, writes, activity))?;
        if deleted {
            self.pace.look_for_deleted();
        }
        Ok(())
    }

    fn commit(&mut self) -> std::result::Result<(), CommitFailure> {
        self.finish()
    }

    fn rollback(&mut self) -> Result<()> {
        self.undo()
    }

    fn housekeeping(&mut self, idle: bool) -> bool {
        self.keep_house(idle)
    }

    fn close(&mut self) -> Result<()> {
        let undone = self.undo();
        self.database.close().and(undone)
    }
}
