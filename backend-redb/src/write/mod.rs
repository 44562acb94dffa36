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
use turnkeep_core::local::{CommitFailure, Engine, Handles, random_bits};
use turnkeep_core::rules::{Facts, ReadSet, Stamp, WriteSet};
use turnkeep_core::{Clock, Error, ErrorKind, Result, WorkspaceId};

use crate::database::Database;
use crate::error;
use crate::write::cache::Cache;
use crate::write::chores::Chores;

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
    chores: Chores,
    /// Why no more may be written.
    poisoned: Option<Error>,
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
    ) -> Self {
        Self {
            database,
            transaction: None,
            clock,
            owners,
            cache: Cache::default(),
            last_activity,
            dirty: false,
            chores: Chores::default(),
            poisoned: None,
        }
    }

    fn check_poison(&self) -> Result<()> {
        match &self.poisoned {
            Some(error) => Err(Error::new(
                ErrorKind::Poisoned,
                "an earlier write failed in a way that leaves its outcome open; reopen the store",
            )
            .with_source(error.to_string())),
            None => Ok(()),
        }
    }

    fn open_transaction(&mut self) -> Result<()> {
        self.check_poison()?;
        let quick_repair = self.database.quick_repair;
        let transaction = self.database.with(|database| {
            let mut transaction = database.begin_write().map_err(error::transaction)?;
            transaction.set_durability(Durability::Immediate).map_err(|error| {
                Error::new(ErrorKind::Io, "the engine cannot make commits durable").with_source(error)
            })?;
            transaction.set_quick_repair(quick_repair);
            Ok(transaction)
        })?;
        self.transaction = Some(Transaction(transaction));
        Ok(())
    }

    fn transaction(&self) -> Result<&WriteTransaction> {
        self.transaction.as_ref().map(|open| &open.0).ok_or_else(no_transaction)
    }

    fn finish(&mut self) -> std::result::Result<(), CommitFailure> {
        let open = self.transaction.take().ok_or_else(|| CommitFailure::NothingApplied(no_transaction()))?;
        match open.0.commit() {
            Ok(()) => {
                self.dirty = false;
                Ok(())
            }
            Err(failure) => {
                self.forget();
                let (error, undone) = error::commit(failure);
                if undone {
                    return Err(CommitFailure::NothingApplied(error));
                }
                self.poisoned.get_or_insert_with(|| error.duplicate());
                Err(CommitFailure::Unknown(error))
            }
        }
    }

    /// Rows at hand may be those of a transaction that is given up.
    fn forget(&mut self) {
        if std::mem::replace(&mut self.dirty, false) {
            self.cache.clear();
        }
    }

    fn undo(&mut self) -> Result<()> {
        self.forget();
        match self.transaction.take() {
            Some(open) => open.0.abort().map_err(error::storage),
            None => Ok(()),
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
                    self.poisoned.get_or_insert(failed);
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
            self.chores.look_for_deleted();
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
