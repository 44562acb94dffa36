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
use turnkeep_core::local::{CommitFailure, Engine, Handles, Pace, random_bits};
use turnkeep_core::mutant;
use turnkeep_core::rules::{Facts, ReadSet, Stamp, WriteSet};
use turnkeep_core::{Clock, Error, ErrorKind, Result, WorkspaceId};

use crate::database::Database;
use crate::error;
use crate::write::cache::Cache;

/// The writer's state, owned by its thread. One process has the file, so nothing changes behind its back.
pub(crate) struct Writer {
    database: Arc<Database>,
    transaction: Option<WriteTransaction>,
    clock: Arc<dyn Clock>,
    owners: Handles,
    cache: Cache,
    last_activity: u64,
    pace: Pace,
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
            pace: Pace::new(Instant::now()),
        }
    }

    fn open_transaction(&self) -> Result<WriteTransaction> {
        self.database.permit().check()?;
        let mut transaction = self.database.begin_write()?;
        let durability = mutant::either("redb/commits-not-durable", Durability::None, Durability::Immediate);
        transaction.set_durability(durability).map_err(|error| {
            Error::new(ErrorKind::Io, "the engine cannot make commits durable").with_source(error)
        })?;
        transaction.set_quick_repair(self.database.quick_repair);
        Ok(transaction)
    }

    fn finish(&mut self, transaction: WriteTransaction) -> std::result::Result<(), CommitFailure> {
        let syncs = self.database.syncs.of_the_head();
        let Err(failure) = transaction.commit() else { return Ok(()) };
        self.forget();
        let error = error::commit(failure);
        // A commit in two phases, as quick repair has them, makes its rows current only after a sync that worked. Where
        // none was even asked for, the file still is what it was.
        let untouched = self.database.quick_repair && self.database.syncs.of_the_head() == syncs;
        if untouched && self.start_over() {
            return Err(CommitFailure::NothingApplied(error));
        }
        self.database.permit().poison(&error);
        Err(CommitFailure::Unknown(error))
    }

    fn undo(&mut self, transaction: WriteTransaction) -> Result<()> {
        self.forget();
        match transaction.abort() {
            Err(error) if !self.start_over() => Err(error::storage(error)),
            // What was not committed changed nothing, also if the engine can no longer tidy up after it.
            _ => Ok(()),
        }
    }

    /// Rows at hand may be those of a transaction that is given up.
    fn forget(&mut self) {
        if !mutant::is("redb/rows-at-hand-outlive-a-rollback") {
            self.cache.clear();
        }
    }

    /// Goes on after an error of the file which changed nothing. `false` when that cannot be said any more, as after a
    /// sync that failed.
    fn start_over(&self) -> bool {
        let certain = self.database.permit().check().is_ok();
        if certain {
            // An engine that met an error is opened anew when somebody writes, and who reads must not wait for that. If
            // it does not open now, the next use of it tries again and answers why not.
            drop(self.database.begin_write());
        }
        certain
    }

    /// Does a chore in a transaction of its own. One that looked and found nothing to do must not cost a sync.
    fn in_transaction<T>(
        &mut self,
        work: impl FnOnce(&WriteTransaction) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let transaction = self.open_transaction()?;
        match error::contained(|| work(&transaction)) {
            Ok(Some(done)) => match self.finish(transaction) {
                Ok(()) => Ok(Some(done)),
                Err(CommitFailure::NothingApplied(error)) => Err(error),
                // Whoever asked for the chore is told what all later ones are.
                Err(CommitFailure::Unknown(error)) => self.database.permit().check().and(Err(error)),
            },
            nothing => self.undo(transaction).and(nothing),
        }
    }
}

fn no_transaction() -> Error {
    Error::new(ErrorKind::Io, "no transaction is open; this is a bug of turnkeep")
}

impl Engine for Writer {
    /// Never waits: nobody else writes.
    fn begin(&mut self, _deadline: Instant) -> Result<()> {
        self.transaction = Some(self.open_transaction()?);
        Ok(())
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
        error::contained(|| facts::facts(open, cache, owners, workspace, reads))
    }

    fn apply(&mut self, writes: &WriteSet) -> Result<()> {
        let open = self.transaction.as_ref().ok_or_else(no_transaction)?;
        let (cache, activity) = (&mut self.cache, &mut self.last_activity);
        let deleted = error::contained(|| apply::apply(open, cache, writes, activity))?;
        if deleted {
            self.pace.look_for_deleted();
        }
        Ok(())
    }

    fn commit(&mut self) -> std::result::Result<(), CommitFailure> {
        match self.transaction.take() {
            Some(open) => self.finish(open),
            None => Err(CommitFailure::NothingApplied(no_transaction())),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        self.transaction.take().map_or(Ok(()), |open| self.undo(open))
    }

    fn housekeeping(&mut self, idle: bool) -> bool {
        self.keep_house(idle)
    }

    fn close(&mut self) -> Result<()> {
        self.transaction = None;
        self.database.close()
    }
}
