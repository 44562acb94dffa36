//! The store that callers hold.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use turnkeep_core::local::{GroupCommitter, Handles, Readers, random_owner};
use turnkeep_core::model::{Entry, Event, LeaseKey, LeaseView, Record, Row, Run, SessionRow};
use turnkeep_core::query::{
    EntryQuery, EventQuery, Mark, Page, RecordQuery, RowQuery, RunQuery, Scope, SearchHit, SearchQuery,
    SessionQuery,
};
use turnkeep_core::{
    Clock, Commit, Error, ErrorKind, Maintenance, Receipt, Result, SessionKey, Store, StoreInfo,
};

use crate::database::Database;
use crate::options::RedbOptions;
use crate::source::Source;
use crate::write::Writer;
use crate::{read, tables};

/// A store in one redb file. Clones are the same handle; [`handle`](Self::handle) gives further ones, each its own
/// owner of leases. One process at a time has the file.
///
/// The file is given back when the last handle is closed or dropped, after the work that is queued; [`Store::close`]
/// waits for that. Leases of a handle that is gone are known to be dead at once.
#[derive(Clone)]
pub struct RedbStore {
    handle: Arc<Handle>,
}

struct Handle {
    info: StoreInfo,
    closed: AtomicBool,
    shared: Arc<Shared>,
}

/// What the handles on one file share.
pub(crate) struct Shared {
    pub(crate) committer: GroupCommitter<Writer>,
    pub(crate) readers: Readers<Arc<Database>>,
    pub(crate) database: Arc<Database>,
    owners: Handles,
    clock: Arc<dyn Clock>,
    /// Held while the last handle ends the work.
    closing: tokio::sync::Mutex<()>,
}

impl Handle {
    /// Says once that this owner is gone. Answers whether it was the last one.
    fn leave(&self) -> bool {
        !self.closed.swap(true, Ordering::SeqCst) && self.shared.owners.leave(self.info.owner)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = &self.handle.info;
        f.debug_struct("RedbStore").field("location", &info.location).field("owner", &info.owner).finish()
    }
}

impl RedbStore {
    /// Opens or creates a file with the defaults. [`RedbOptions`] sets more.
    ///
    /// # Errors
    /// As [`RedbOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        RedbOptions::new(path).open().await
    }

    /// Opens or creates a file with the defaults, on this thread.
    ///
    /// # Errors
    /// As [`RedbOptions::open`].
    pub fn open_blocking(path: impl AsRef<Path>) -> Result<Self> {
        RedbOptions::new(path).open_blocking()
    }

    /// Another handle on the same file, with its own owner id. What one of them commits the others read at once.
    ///
    /// # Errors
    /// `Closed` when the last handle is gone, `Io` when the system gives no random bits.
    pub fn handle(&self) -> Result<Self> {
        let owner = random_owner()?;
        let shared = &self.handle.shared;
        if !shared.owners.join(owner) {
            return Err(Error::closed().with_operation("handle"));
        }
        let mut info = self.handle.info.clone();
        info.owner = owner;
        Ok(Self::with(info, Arc::clone(shared)))
    }

    pub(crate) fn new(
        info: StoreInfo,
        committer: GroupCommitter<Writer>,
        readers: Readers<Arc<Database>>,
        database: Arc<Database>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let owners = database.locked.gate.owners.clone();
        let closing = tokio::sync::Mutex::default();
        Self::with(info, Arc::new(Shared { committer, readers, database, owners, clock, closing }))
    }

    fn with(info: StoreInfo, shared: Arc<Shared>) -> Self {
        Self { handle: Arc::new(Handle { info, closed: AtomicBool::new(false), shared }) }
    }

    pub(crate) fn shared(&self) -> Result<&Shared> {
        if self.handle.closed.load(Ordering::SeqCst) {
            return Err(Error::closed());
        }
        Ok(&self.handle.shared)
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        read: impl FnOnce(&dyn Source) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = self.shared().map_err(|error| error.with_operation(operation))?;
        shared.readers.read(operation, move |database| database.read(read)).await
    }

    /// Rows of every table, those of deleted sessions that are not purged yet included.
    ///
    /// # Errors
    /// What a read answers.
    #[doc(hidden)]
    pub async fn table_rows(&self) -> Result<Vec<(&'static str, u64)>> {
        self.read("table_rows", |source| {
            tables::ALL.iter().map(|table| Ok((table.0, source.count(*table)?))).collect()
        })
        .await
    }
}

#[async_trait]
impl Store for RedbStore {
    fn info(&self) -> &StoreInfo {
        &self.handle.info
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let committed = match self.shared() {
            Ok(shared) => shared.committer.commit(commit).await,
            Err(error) => Err(error),
        };
        committed.map_err(|error| error.with_operation("commit"))
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        let key = key.clone();
        self.read("session", move |source| read::session(source, &key)).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionRow>> {
        let (query, limits) = (query.clone(), self.handle.info.limits.clone());
        self.read("sessions", move |source| read::sessions(source, &query, &limits)).await
    }

    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>> {
        let (query, limits) = (query.clone(), self.handle.info.limits.clone());
        self.read("entries", move |source| read::entries(source, &query, &limits)).await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Page<Run>> {
        let (query, limits) = (query.clone(), self.handle.info.limits.clone());
        self.read("runs", move |source| read::runs(source, &query, &limits)).await
    }

    async fn events(&self, query: &EventQuery) -> Result<Page<Event>> {
        let (query, limits) = (query.clone(), self.handle.info.limits.clone());
        self.read("events", move |source| read::events(source, &query, &limits)).await
    }

    async fn records(&self, query: &RecordQuery) -> Result<Page<Record>> {
        let (query, limits) = (query.clone(), self.handle.info.limits.clone());
        self.read("records", move |source| read::records(source, &query, &limits)).await
    }

    async fn lease(&self, key: &LeaseKey) -> Result<Option<LeaseView>> {
        let (key, owners) = (key.clone(), self.handle.shared.owners.clone());
        let now = self.handle.shared.clock.now();
        self.read("lease", move |source| read::lease(source, &key, now, &owners)).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<Page<SearchHit>> {
        let (query, limits) = (query.clone(), self.handle.info.limits.clone());
        self.read("search", move |source| read::search(source, &query, &limits)).await
    }

    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>> {
        let (query, limits) = (query.clone(), self.handle.info.limits.clone());
        self.read("rows", move |source| read::rows(source, &query, &limits)).await
    }

    async fn changes(&self, scope: &Scope, _since: Mark) -> Result<Mark> {
        let scope = scope.clone();
        self.read("changes", move |source| read::changes(source, &scope)).await
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }

    /// Closing a closed handle is harmless. The last one ends the threads and gives the file back.
    async fn close(&self) -> Result<()> {
        let shared = &self.handle.shared;
        self.handle.leave();
        if !shared.owners.is_empty() {
            return Ok(());
        }
        let _one_at_a_time = shared.closing.lock().await;
        shared.readers.close().await;
        match shared.committer.close().await {
            // An earlier close did it, perhaps one that was dropped half way.
            Err(error) if error.kind() == ErrorKind::Closed => Ok(()),
            ended => ended.map_err(|error| error.with_operation("close")),
        }
    }
}
