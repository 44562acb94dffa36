//! The in-memory backend of turnkeep, for tests: the same rules as on disk, gone with the process.
//!
//! ```
//! use turnkeep_core::commit::{Commit, NewSession, Op};
//! use turnkeep_core::{Incarnation, SessionId, Store, WorkspaceId};
//! use turnkeep_memory::MemoryStore;
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let store = MemoryStore::new();
//! let id = SessionId::new("first")?;
//! let incarnation = Incarnation::from_bytes([7; 16]); // draw random bits here
//! let new = NewSession { id, incarnation, state: Default::default(), profile: Default::default() };
//! let receipt = store.commit(Commit::new(WorkspaceId::new("w")?).op(Op::CreateSession(new))).await?;
//! assert_eq!(receipt.sessions[0].revision, 1);
//! # Ok::<(), turnkeep_core::Error>(()) }).unwrap();
//! ```

mod data;
mod image;
mod lookup;
mod maintenance;
mod options;
mod read;
mod tables;
mod verify;
mod write;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use turnkeep_core::limits::SLICE_ROWS;
use turnkeep_core::model::{Entry, Event, LeaseKey, LeaseView, Record, Row, Run, SessionRow};
use turnkeep_core::mutant;
use turnkeep_core::query::{
    EntryQuery, EventQuery, Mark, Page, RecordQuery, RowQuery, RunQuery, Scope, SearchHit, SearchQuery,
    SessionQuery,
};
use turnkeep_core::rules::{self, Stamp};
use turnkeep_core::{Commit, Error, Maintenance, Receipt, Result, SessionKey, Store, StoreInfo, Timestamp};

use data::Data;
pub use options::MemoryOptions;
pub use tables::Tables;

/// A store in memory. Clones are the same handle; [`reopen`](Self::reopen) and [`named`](Self::named) give further
/// handles on the same data, each its own owner of leases.
///
/// An owner is dead when its handle was closed or its last clone dropped, as a process is that was killed.
#[derive(Clone)]
pub struct MemoryStore {
    handle: Arc<Handle>,
}

struct Handle {
    data: Arc<Data>,
    info: StoreInfo,
    options: MemoryOptions,
    closed: AtomicBool,
}

impl Handle {
    /// Says once that this owner is dead.
    fn leave(&self) {
        if !self.closed.swap(true, Ordering::SeqCst) {
            self.data.leave(&self.info.owner);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = &self.handle.info;
        let closed = self.handle.closed.load(Ordering::SeqCst);
        f.debug_struct("MemoryStore")
            .field("location", &info.location)
            .field("owner", &info.owner)
            .field("closed", &closed)
            .finish()
    }
}

impl MemoryStore {
    /// A new, empty store with the machine's clock. [`MemoryOptions`] sets more.
    #[must_use]
    pub fn new() -> Self {
        if mutant::is("memory/stores-share-rows") {
            return Self::named("shared");
        }
        MemoryOptions::new().build()
    }

    /// A handle on the store of this name in this process, made when it is not there.
    #[must_use]
    pub fn named(name: &str) -> Self {
        MemoryOptions::new().open(name)
    }

    /// Another handle on the same data, with the same clock, seed and limits and its own owner id. Works on a closed
    /// handle too.
    #[must_use]
    pub fn reopen(&self) -> Self {
        self.handle.options.without_owner().attach(self)
    }

    /// Forgets the store of this name; `false` when there is none. Handles that are open keep their data.
    pub fn destroy(name: &str) -> bool {
        data::destroy(name)
    }

    fn check_open(&self) -> Result<()> {
        if self.handle.closed.load(Ordering::SeqCst) && !mutant::is("memory/closed-handle-goes-on") {
            return Err(Error::closed().with("store", &self.handle.info.location));
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.handle.options.the_clock().now()
    }

    /// Runs a read under the lock.
    fn read<T>(&self, operation: &'static str, read: impl FnOnce(&Tables) -> Result<T>) -> Result<T> {
        let answer = self.handle.data.read().and_then(|tables| {
            self.check_open()?;
            read(&tables)
        });
        answer.map_err(|error| error.with_operation(operation))
    }

    /// Everything from the look-ups to the rows happens under one lock and without an await, so a commit is whole or
    /// absent wherever its future is dropped.
    fn commit_now(&self, commit: &Commit) -> Result<Receipt> {
        self.check_open()?;
        rules::validate(commit, &self.handle.info.limits)?;
        let reads = rules::plan(commit);
        let data = &self.handle.data;
        let mut tables = data.write()?;
        self.check_open()?;
        let stamp = self.stamp(&tables);
        let facts = tables.facts(&commit.workspace, reads, |owner| data.liveness(owner));
        let writes = rules::decide(commit, facts, &stamp)?;
        // Only now, because a refused commit changes nothing, not even what no read sees.
        tables.chores(&commit.workspace, stamp.now, SLICE_ROWS);
        Ok(tables.apply(writes, stamp.activity))
    }

    /// The birth bits follow from seed and activity, so that two handles with one seed never draw the same.
    fn stamp(&self, tables: &Tables) -> Stamp {
        let now = self.now();
        let activity = Stamp::next_activity(now, tables.activity());
        let nonce = match self.handle.options.the_seed() {
            Some(seed) => data::mix(seed ^ data::mix(activity)),
            None => data::random(),
        };
        Stamp { now, activity, nonce }
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn info(&self) -> &StoreInfo {
        &self.handle.info
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        self.commit_now(&commit).map_err(|error| error.with_operation("commit"))
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        self.read("session", |tables| Ok(tables.session_row(key)))
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionRow>> {
        self.read("sessions", |tables| tables.sessions(query, &self.handle.info.limits))
    }

    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>> {
        self.read("entries", |tables| tables.entries(query, &self.handle.info.limits))
    }

    async fn runs(&self, query: &RunQuery) -> Result<Page<Run>> {
        self.read("runs", |tables| tables.runs(query, &self.handle.info.limits))
    }

    async fn events(&self, query: &EventQuery) -> Result<Page<Event>> {
        self.read("events", |tables| tables.events(query, &self.handle.info.limits))
    }

    async fn records(&self, query: &RecordQuery) -> Result<Page<Record>> {
        self.read("records", |tables| tables.records(query, &self.handle.info.limits))
    }

    async fn lease(&self, key: &LeaseKey) -> Result<Option<LeaseView>> {
        let data = &self.handle.data;
        self.read("lease", |tables| Ok(tables.lease(key, self.now(), |owner| data.liveness(owner))))
    }

    async fn search(&self, query: &SearchQuery) -> Result<Page<SearchHit>> {
        self.read("search", |tables| tables.search(query, &self.handle.info.limits))
    }

    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>> {
        self.read("rows", |tables| tables.rows(query, &self.handle.info.limits))
    }

    async fn changes(&self, scope: &Scope, _since: Mark) -> Result<Mark> {
        self.read("changes", |tables| tables.changes(scope))
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }

    /// Waits for a commit under way, by waiting for its lock. Closing a closed handle is harmless.
    async fn close(&self) -> Result<()> {
        let waited = self.handle.data.write();
        self.handle.leave();
        drop(waited);
        Ok(())
    }
}
