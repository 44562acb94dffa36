//! The one writer: what the group committer drives.

mod apply;
mod cache;
mod chores;
mod copy;
mod facts;
mod index;
mod purge;
mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use turnkeep_core::local::{CommitFailure, Engine, OwnerLock, Permit, WriteLock, random_bits};
use turnkeep_core::mutant;
use turnkeep_core::rules::{Facts, ReadSet, Stamp, WriteSet};
use turnkeep_core::{Clock, Result, WorkspaceId};

use crate::error::{commit_is_undoable, sql};
use crate::migrate;
use crate::options::SqliteOptions;
use crate::owners::Owners;
use crate::statement::Prepare as _;
use crate::write::cache::Cache;

pub(crate) use chores::Chores;

/// The writer's connection and what it remembers between transactions.
pub(crate) struct Writer {
    conn: Connection,
    clock: Arc<dyn Clock>,
    owners: Owners,
    /// Held while the store is open; its end is the proof of death.
    owner_lock: Option<OwnerLock>,
    cache: Cache,
    /// Changes only when another connection changes the database.
    data_version: i64,
    last_activity: u64,
    /// Whether rows were written in the transaction.
    dirty: bool,
    /// Frames in the write-ahead log after the last commit.
    log_pages: Arc<AtomicI32>,
    chores: Chores,
    permit: Permit,
}

impl Writer {
    /// Takes over a connection that was opened and checked. `turn` is the line for the right to write, for chores
    /// outside the committer.
    ///
    /// # Errors
    /// When the connection cannot be prepared.
    pub(crate) fn new(
        mut conn: Connection,
        options: &SqliteOptions,
        owners: Owners,
        owner_lock: Option<OwnerLock>,
        turn: WriteLock,
    ) -> Result<Self> {
        let log_pages = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&log_pages);
        conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            seen.store(pages, Ordering::Relaxed);
            Ok(())
        }))
        .map_err(sql)?;
        Ok(Self {
            conn,
            clock: options.clock.clone(),
            owners,
            owner_lock,
            cache: Cache::default(),
            // No connection ever reports this, so that the first transaction reads everything.
            data_version: -1,
            last_activity: 0,
            dirty: false,
            log_pages,
            chores: Chores::new(turn, options.search_index),
            permit: Permit::new(options.damaged),
        })
    }

    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.conn
    }

    fn execute(&self, text: &str) -> rusqlite::Result<()> {
        self.conn.prepared(text)?.execute([]).map(drop)
    }

    /// Reads anew what another connection may have changed: rows at hand, the format, the activity.
    fn refresh(&mut self) -> Result<()> {
        let version: i64 = self
            .conn
            .prepared("PRAGMA data_version")
            .and_then(|mut read| read.query_row([], |row| row.get(0)))
            .map_err(sql)?;
        if version == self.data_version
            || (self.data_version >= 0 && mutant::is("sqlite/rows-at-hand-outlive-others-commits"))
        {
            return Ok(());
        }
        self.cache.clear();
        migrate::check_version(&self.conn)?;
        let last = cache::last_activity(&self.conn)?;
        self.last_activity = self.last_activity.max(u64::try_from(last).unwrap_or(0));
        // Whoever wrote may have deleted sessions and be gone.
        self.chores.pace.look_for_deleted();
        self.chores.index.look();
        self.data_version = version;
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        if self.dirty && !mutant::is("sqlite/rows-at-hand-outlive-a-rollback") {
            self.cache.clear();
            self.dirty = false;
        }
        if self.conn.is_autocommit() {
            // The engine ended the transaction itself, and it does so only by rolling back.
            return Ok(());
        }
        let undone = self.execute("ROLLBACK");
        if self.conn.is_autocommit() { Ok(()) } else { undone.map_err(sql) }
    }

    /// Ends a failed COMMIT: rolled back and provably so, or unknown.
    fn failed_commit(&mut self, error: rusqlite::Error) -> CommitFailure {
        let undoable = commit_is_undoable(&error);
        let error = sql(error);
        match self.undo() {
            Ok(()) if undoable => CommitFailure::NothingApplied(error),
            _ => {
                self.permit.poison(&error);
                CommitFailure::Unknown(error)
            }
        }
    }
}

impl Engine for Writer {
    fn begin(&mut self, deadline: Instant) -> Result<()> {
        self.permit.check()?;
        let left = deadline.saturating_duration_since(Instant::now());
        // A wait of nothing would answer busy without a look.
        self.conn.busy_timeout(left.max(Duration::from_millis(1))).map_err(sql)?;
        self.execute("BEGIN IMMEDIATE").map_err(sql)?;
        if let Err(error) = self.refresh() {
            self.undo()?;
            return Err(error);
        }
        Ok(())
    }

    fn stamp(&mut self) -> Result<Stamp> {
        let now = self.clock.now();
        self.last_activity = Stamp::next_activity(now, self.last_activity);
        let nonce = random_bits()?;
        Ok(Stamp { now, activity: self.last_activity, nonce })
    }

    fn facts(&mut self, workspace: &WorkspaceId, reads: &ReadSet, _stamp: &Stamp) -> Result<Facts> {
        facts::facts(&self.conn, &mut self.cache, &self.owners, workspace, reads)
    }

    fn apply(&mut self, writes: &WriteSet) -> Result<()> {
        self.dirty = true;
        let mut touched = apply::Touched::default();
        apply::apply(&self.conn, &mut self.cache, writes, &mut self.last_activity, &mut touched)?;
        if touched.deleted {
            self.chores.pace.look_for_deleted();
        }
        self.chores.index.note(touched.texts);
        Ok(())
    }

    fn commit(&mut self) -> std::result::Result<(), CommitFailure> {
        match self.execute("COMMIT") {
            Ok(()) => {
                self.dirty = false;
                Ok(())
            }
            Err(error) => Err(self.failed_commit(error)),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        self.undo()
    }

    fn housekeeping(&mut self, idle: bool) -> bool {
        self.keep_house(idle)
    }

    fn rests_after(&self) -> Option<Duration> {
        self.permit.check().ok().and_then(|()| self.chores.index.wanted_after())
    }

    fn rest(&mut self) -> bool {
        self.index_slice()
    }

    fn close(&mut self) -> Result<()> {
        self.index_at_the_end();
        // Whoever closes last empties the log; the engine does that itself when the connection goes.
        self.owner_lock = None;
        self.sweep_owners();
        let checkpoint = if self.permit.check().is_ok() { self.checkpoint() } else { Ok(()) };
        self.conn.flush_prepared_statement_cache();
        checkpoint
    }
}

#[cfg(test)]
mod tests {
    use turnkeep_core::Payload;
    use turnkeep_core::Store as _;
    use turnkeep_core::commit::{Commit, Expect, Op, Put};
    use turnkeep_core::id::{Collection, RecordKey};

    use super::*;
    use crate::SqliteStore;

    #[tokio::test]
    async fn rows_at_hand_stay_until_another_writes_or_a_change_is_undone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.sqlite3");
        let [store, other] = [&path; 2].map(|path| SqliteStore::open_blocking(path).unwrap());
        let write = || {
            Commit::new(WorkspaceId::new("w").unwrap()).op(Op::PutRecord(Put {
                collection: Collection::new("c").unwrap(),
                key: RecordKey::new("k").unwrap(),
                owner: None,
                status: None,
                expect: Expect::Any,
                payload: Payload::empty(),
            }))
        };
        let at_hand = async |change: bool| {
            let look = move |writer: &mut Writer| {
                writer.begin(Instant::now() + Duration::from_secs(60)).unwrap();
                let begun = !writer.cache.is_empty();
                writer.dirty |= change;
                writer.undo().unwrap();
                (begun, !writer.cache.is_empty())
            };
            store.inner.committer.run(look).await.unwrap()
        };
        store.commit(write()).await.unwrap();
        assert_eq!(at_hand(false).await, (true, true), "nobody else wrote, and nothing was undone");
        assert_eq!(at_hand(true).await, (true, false), "what was written to the rows is undone");
        store.commit(write()).await.unwrap();
        assert_eq!(at_hand(false).await, (true, true));
        other.commit(write()).await.unwrap();
        assert_eq!(at_hand(false).await, (false, false), "another handle has written");
        store.close().await.unwrap();
        other.close().await.unwrap();
    }
}
