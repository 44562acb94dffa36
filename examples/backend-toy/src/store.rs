//! The store that callers hold.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use turnkeep_core::local::{GroupCommitter, Handles, Readers, random_owner};
use turnkeep_core::model::{Entry, Event, LeaseKey, LeaseView, Liveness, Record, Row, Run, SessionRow};
use turnkeep_core::query::{
    EntryQuery, EventQuery, Mark, Page, RecordQuery, RowQuery, RunQuery, Scope, SessionQuery,
};
use turnkeep_core::{
    Clock, Commit, Error, ErrorKind, Maintenance, OwnerId, Receipt, Result, SessionKey, Store, StoreInfo,
};
use turnkeep_memory::Tables;

use crate::options::ToyOptions;
use crate::write::Writer;

/// A store in one log file. Clones are the same handle; [`handle`](Self::handle) gives further ones, each its own
/// owner of leases. One process at a time has the file.
#[derive(Clone)]
pub struct ToyStore {
    handle: Arc<Handle>,
}

struct Handle {
    info: StoreInfo,
    closed: AtomicBool,
    shared: Arc<Shared>,
}

/// What the handles on one file share.
struct Shared {
    committer: GroupCommitter<Writer>,
    readers: Readers<Arc<RwLock<Tables>>>,
    handles: Handles,
    clock: Arc<dyn Clock>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.handles.leave(self.info.owner);
    }
}

impl fmt::Debug for ToyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = &self.handle.info;
        f.debug_struct("ToyStore").field("location", &info.location).field("owner", &info.owner).finish()
    }
}

/// Everybody who can hold a lease is a handle of this process, so nothing is unknown.
pub(crate) fn liveness(handles: &Handles) -> impl Fn(&OwnerId) -> Liveness {
    |owner| if handles.is_alive(*owner) { Liveness::Alive } else { Liveness::Dead }
}

impl ToyStore {
    /// Opens or makes a store with the defaults. [`ToyOptions`] sets more.
    ///
    /// # Errors
    /// As [`ToyOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        ToyOptions::new(path).open().await
    }

    pub(crate) fn new(
        info: StoreInfo,
        committer: GroupCommitter<Writer>,
        readers: Readers<Arc<RwLock<Tables>>>,
        handles: Handles,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::with(info, Arc::new(Shared { committer, readers, handles, clock }))
    }

    fn with(info: StoreInfo, shared: Arc<Shared>) -> Self {
        Self { handle: Arc::new(Handle { info, closed: AtomicBool::new(false), shared }) }
    }

    /// Another handle on the same store, with its own owner id.
    ///
    /// # Errors
    /// `Closed` when the last handle is gone, `Io` when the system gives no random bits.
    pub fn handle(&self) -> Result<Self> {
        let (owner, shared) = (random_owner()?, &self.handle.shared);
        if !shared.handles.join(owner) {
            return Err(Error::closed().with_operation("handle"));
        }
        let mut info = self.handle.info.clone();
        info.owner = owner;
        Ok(Self::with(info, Arc::clone(shared)))
    }

    fn shared(&self) -> Result<&Shared> {
        if self.handle.closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { Ok(&self.handle.shared) }
    }

    /// Runs a read, on a thread of its own: a long one holds up no executor.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        read: impl FnOnce(&Tables) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let readers =
            self.shared().map_err(|error| error.with_operation(operation)).map(|shared| &shared.readers)?;
        readers.read(operation, |tables| read(&tables.read().unwrap_or_else(PoisonError::into_inner))).await
    }

    /// Runs a chore on the writer's thread, between commits.
    pub(crate) async fn on_writer<T: Send + 'static>(
        &self,
        operation: &'static str,
        chore: impl FnOnce(&mut Writer) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let done = match self.shared() {
            Ok(shared) => shared.committer.run(chore).await.and_then(|done| done),
            Err(error) => Err(error),
        };
        done.map_err(|error| error.with_operation(operation))
    }

    /// Rows of every table, those of deleted sessions that are not purged yet included.
    ///
    /// # Errors
    /// `Closed`.
    #[doc(hidden)]
    pub async fn table_rows(&self) -> Result<Vec<(&'static str, u64)>> {
        self.read("table_rows", |tables| Ok(tables.table_rows())).await
    }
}

#[async_trait]
impl Store for ToyStore {
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
        self.read("session", move |tables| Ok(tables.session_row(&key))).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionRow>> {
        let (query, limits) = (query.clone(), self.info().limits.clone());
        self.read("sessions", move |tables| tables.sessions(&query, &limits)).await
    }

    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>> {
        let (query, limits) = (query.clone(), self.info().limits.clone());
        self.read("entries", move |tables| tables.entries(&query, &limits)).await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Page<Run>> {
        let (query, limits) = (query.clone(), self.info().limits.clone());
        self.read("runs", move |tables| tables.runs(&query, &limits)).await
    }

    async fn events(&self, query: &EventQuery) -> Result<Page<Event>> {
        let (query, limits) = (query.clone(), self.info().limits.clone());
        self.read("events", move |tables| tables.events(&query, &limits)).await
    }

    async fn records(&self, query: &RecordQuery) -> Result<Page<Record>> {
        let (query, limits) = (query.clone(), self.info().limits.clone());
        self.read("records", move |tables| tables.records(&query, &limits)).await
    }

    async fn lease(&self, key: &LeaseKey) -> Result<Option<LeaseView>> {
        let (key, now, handles) =
            (key.clone(), self.handle.shared.clock.now(), self.handle.shared.handles.clone());
        self.read("lease", move |tables| Ok(tables.lease(&key, now, liveness(&handles)))).await
    }

    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>> {
        let (query, limits) = (query.clone(), self.info().limits.clone());
        self.read("rows", move |tables| tables.rows(&query, &limits)).await
    }

    async fn changes(&self, scope: &Scope, _since: Mark) -> Result<Mark> {
        let scope = scope.clone();
        self.read("changes", move |tables| tables.changes(&scope)).await
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }

    /// Closing a closed handle is harmless. The last one ends the writer and gives the file back.
    async fn close(&self) -> Result<()> {
        let shared = &self.handle.shared;
        self.handle.closed.store(true, Ordering::SeqCst);
        shared.handles.leave(self.handle.info.owner);
        if !shared.handles.is_empty() {
            return Ok(());
        }
        shared.readers.close().await;
        match shared.committer.close().await {
            // An earlier close did it.
            Err(error) if error.kind() == ErrorKind::Closed => Ok(()),
            ended => ended.map_err(|error| error.with_operation("close")),
        }
    }
}
