//! What the writer does between commits and at its end: checkpoints, slices of purges, old lock files.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use turnkeep_core::local::{CommitFailure, Engine as _, Pace, WriteLock, owner};
use turnkeep_core::mutant;
use turnkeep_core::store::PurgeReport;
use turnkeep_core::{Error, ErrorKind, OwnerId, Result};

use crate::error::sql;
use crate::statement::Prepare as _;
use crate::write::Writer;
use crate::write::index::{self, Indexing};
use crate::write::purge::{self, ExpiryWalk};

/// Frames in the log from which on it is worth a checkpoint while nobody waits. Fewer would sync too often.
const CHECKPOINT_PAGES: i32 = 1000;
/// Frames from which on a checkpoint is made although commits wait. More would make readers search longer.
const CHECKPOINT_PAGES_BUSY: i32 = 4000;
/// How long a chore waits for another process.
const CHORE_WAIT: Duration = Duration::from_secs(5);

/// What is to be done, and when next.
#[derive(Debug)]
pub(crate) struct Chores {
    /// The line for the right to write, for chores that a caller asks for.
    turn: WriteLock,
    pub(super) pace: Pace,
    expiry: ExpiryWalk,
    pub(super) index: Indexing,
}

impl Chores {
    pub(super) fn new(turn: WriteLock, index: bool) -> Self {
        let (pace, index) = (Pace::new(Instant::now()), Indexing::new(index));
        Self { turn, pace, expiry: ExpiryWalk::default(), index }
    }
}

impl Writer {
    /// Chores of the moment. A chore that fails is tried again later; one whose outcome is unknown poisons the
    /// writer. Answers whether more is to be done.
    pub(super) fn keep_house(&mut self, idle: bool) -> bool {
        if self.permit.check().is_err() {
            return false;
        }
        let enough = if idle { CHECKPOINT_PAGES } else { CHECKPOINT_PAGES_BUSY };
        if self.log_pages.load(Ordering::Relaxed) >= enough {
            let _ = self.checkpoint();
        }
        let due = self.chores.pace.round(idle, Instant::now());
        if due.purge {
            let _ = self.purge_slice();
        }
        if due.expiry {
            self.expire();
        }
        self.chores.pace.waits(Instant::now())
    }

    /// Moves the log into the database as far as readers allow, and waits for nobody.
    pub(super) fn checkpoint(&self) -> Result<()> {
        self.log_pages.store(0, Ordering::Relaxed);
        self.conn
            .prepared("PRAGMA wal_checkpoint(PASSIVE)")
            .and_then(|mut run| run.query_row([], |_| Ok(())))
            .map_err(sql)
    }

    /// Purges one slice in a transaction of its own; `None` when nothing waits.
    fn purge_slice(&mut self) -> Result<Option<PurgeReport>> {
        let report = self.in_transaction(|writer| purge::deleted_slice(&writer.conn));
        self.chores.pace.purged(&report);
        report
    }

    /// Purges one slice for a caller, standing in line with other processes.
    ///
    /// # Errors
    /// `Busy` when another process writes for too long, and whatever the engine answers.
    pub(crate) fn purge_now(&mut self) -> Result<Option<PurgeReport>> {
        let purged = self.in_turn(Self::purge_slice);
        self.chores.turn.let_others();
        purged
    }

    /// Gives unused space back: rewrites the database, then empties the log.
    ///
    /// # Errors
    /// `Busy` when another process uses the store, `Full` when there is no room for a second copy.
    pub(crate) fn compact(&mut self) -> Result<()> {
        self.in_turn(|writer| {
            // A look at the format first: what a newer program has upgraded is not ours to rewrite.
            writer.in_transaction(|_| Ok(()))?;
            writer.conn.busy_timeout(CHORE_WAIT).map_err(sql)?;
            writer.conn.flush_prepared_statement_cache();
            if !mutant::is("sqlite/compacts-nothing") {
                writer.conn.execute_batch("VACUUM").map_err(sql)?;
            }
            writer.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(sql)
        })
    }

    pub(crate) fn in_turn<T>(&mut self, chore: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if !self.chores.turn.lock_until(Instant::now() + CHORE_WAIT)? {
            return Err(Error::new(ErrorKind::Busy, "another process kept the store busy; try again"));
        }
        let done = chore(self);
        self.chores.turn.unlock();
        done
    }

    pub(crate) fn in_transaction<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.begin(Instant::now() + CHORE_WAIT)?;
        match work(self) {
            Ok(done) => match self.commit() {
                Ok(()) => Ok(done),
                Err(CommitFailure::NothingApplied(error) | CommitFailure::Unknown(error)) => Err(error),
            },
            Err(error) => {
                if let Err(failed) = self.undo() {
                    self.permit.poison(&failed);
                }
                Err(error)
            }
        }
    }

    /// Brings the index for searches further by a slice. Answers whether more is to be done.
    pub(super) fn index_slice(&mut self) -> bool {
        if self.permit.check().is_err() {
            return false;
        }
        let mut work = self.chores.index.hand_over();
        let more = self.in_transaction(|writer| index::slice(&writer.conn, &mut work));
        if more.is_err() {
            work.give_up_for_now();
        }
        self.chores.index.take_up(work);
        if self.log_pages.load(Ordering::Relaxed) >= CHECKPOINT_PAGES {
            let _ = self.checkpoint();
        }
        more.unwrap_or(false)
    }

    /// A program that ends soon after its commits never rests, so a larger backlog is worked off at its end, for a
    /// moment and unless somebody else is writing.
    pub(super) fn index_at_the_end(&mut self) {
        let until = Instant::now() + index::AT_THE_END;
        if self.permit.check().is_err()
            || !self.chores.index.is_worth_the_end(&self.conn)
            || !self.chores.turn.try_lock().unwrap_or(false)
        {
            return;
        }
        while self.index_slice() && Instant::now() < until {}
        self.chores.turn.unlock();
    }

    /// Removes a slice of expired requests. A walk that fails is over, and the next one starts at the beginning.
    fn expire(&mut self) {
        let (now, walk) = (self.clock.now(), self.chores.expiry);
        let next = self.in_transaction(|writer| purge::expired_slice(&writer.conn, now, walk)).ok().flatten();
        self.chores.pace.expired(next.is_some(), Instant::now());
        self.chores.expiry = next.unwrap_or_default();
    }

    /// Removes the lock files of dead owners that no lease names. Done at the end, so that the file of this handle
    /// goes too, if it left no lease behind.
    pub(super) fn sweep_owners(&self) {
        let named = self
            .conn
            .prepare("SELECT DISTINCT owner FROM leases WHERE state = 'held'")
            .and_then(|mut read| read.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>());
        // If nobody can say which are named, all stay.
        if let Ok(named) = named {
            let named: HashSet<[u8; 16]> = named;
            owner::sweep(&self.owners.folder, |owner: OwnerId| named.contains(owner.as_bytes()));
        }
    }
}
