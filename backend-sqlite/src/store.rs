//! The store that callers hold.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;
use turnkeep_core::local::{GroupCommitter, Readers};
use turnkeep_core::model::{Entry, Event, LeaseKey, LeaseView, Record, Row, Run, SessionRow};
use turnkeep_core::query::{
    EntryQuery, EventQuery, Mark, Page, RecordQuery, RowQuery, RunQuery, Scope, SearchHit, SearchQuery,
    SessionQuery,
};
use turnkeep_core::{Commit, ErrorKind, Maintenance, Receipt, Result, SessionKey, Store, StoreInfo};

use crate::files::Files;
use crate::options::SqliteOptions;
use crate::owners::Owners;
use crate::read;
use crate::write::Writer;

/// A store in one SQLite database file. Clones are the same handle; several handles and processes may use one file.
///
/// A handle whose last clone is dropped ends its threads after the work that is queued; [`Store::close`] waits for
/// them. Leases of a handle that is gone are known to be dead at once.
#[derive(Clone)]
pub struct SqliteStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    info: StoreInfo,
    pub(crate) committer: GroupCommitter<Writer>,
    pub(crate) readers: Readers<Connection>,
    pub(crate) files: Files,
    owners: Owners,
    pub(crate) options: SqliteOptions,
    closed: tokio::sync::Mutex<bool>,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = &self.inner.info;
        f.debug_struct("SqliteStore").field("location", &info.location).field("owner", &info.owner).finish()
    }
}

impl SqliteStore {
    /// Opens or creates a database file with the defaults. [`SqliteOptions`] sets more.
    ///
    /// # Errors
    /// As [`SqliteOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        SqliteOptions::new(path).open().await
    }

    /// Opens or creates a database file with the defaults, on this thread.
    ///
    /// # Errors
    /// As [`SqliteOptions::open`].
    pub fn open_blocking(path: impl AsRef<Path>) -> Result<Self> {
        SqliteOptions::new(path).open_blocking()
    }

    pub(crate) fn new(
        info: StoreInfo,
        committer: GroupCommitter<Writer>,
        readers: Readers<Connection>,
        files: Files,
        owners: Owners,
        options: SqliteOptions,
    ) -> Self {
        let closed = tokio::sync::Mutex::new(false);
        let inner = Arc::new(Inner { info, committer, readers, files, owners, options, closed });
        crate::audit::opened(&inner);
        Self { inner }
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn info(&self) -> &StoreInfo {
        &self.inner.info
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        self.inner.committer.commit(commit).await.map_err(|error| error.with_operation("commit"))
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        let key = key.clone();
        self.inner.readers.read("session", move |conn| read::session(conn, &key)).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionRow>> {
        let (query, limits) = (query.clone(), self.inner.info.limits.clone());
        self.inner.readers.read("sessions", move |conn| read::sessions(conn, &query, &limits)).await
    }

    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>> {
        let (query, limits) = (query.clone(), self.inner.info.limits.clone());
        self.inner.readers.read("entries", move |conn| read::entries(conn, &query, &limits)).await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Page<Run>> {
        let (query, limits) = (query.clone(), self.inner.info.limits.clone());
        self.inner.readers.read("runs", move |conn| read::runs(conn, &query, &limits)).await
    }

    async fn events(&self, query: &EventQuery) -> Result<Page<Event>> {
        let (query, limits) = (query.clone(), self.inner.info.limits.clone());
        self.inner.readers.read("events", move |conn| read::events(conn, &query, &limits)).await
    }

    async fn records(&self, query: &RecordQuery) -> Result<Page<Record>> {
        let (query, limits) = (query.clone(), self.inner.info.limits.clone());
        self.inner.readers.read("records", move |conn| read::records(conn, &query, &limits)).await
    }

    async fn lease(&self, key: &LeaseKey) -> Result<Option<LeaseView>> {
        let (key, owners) = (key.clone(), self.inner.owners.clone());
        let now = self.inner.options.clock.now();
        self.inner.readers.read("lease", move |conn| read::lease(conn, &key, now, &owners)).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<Page<SearchHit>> {
        let (query, limits) = (query.clone(), self.inner.info.limits.clone());
        self.inner.readers.read("search", move |conn| read::search(conn, &query, &limits)).await
    }

    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>> {
        let (query, limits) = (query.clone(), self.inner.info.limits.clone());
        self.inner.readers.read("rows", move |conn| read::rows(conn, &query, &limits)).await
    }

    async fn changes(&self, scope: &Scope, _since: Mark) -> Result<Mark> {
        let scope = scope.clone();
        self.inner.readers.read("changes", move |conn| read::changes(conn, &scope)).await
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }

    /// Closing a closed store is harmless.
    async fn close(&self) -> Result<()> {
        let mut closed = self.inner.closed.lock().await;
        if *closed {
            return Ok(());
        }
        // The writer goes last: whoever closes the last connection empties the log.
        self.inner.readers.close().await;
        let ended = match self.inner.committer.close().await {
            // An earlier close was dropped half way.
            Err(error) if error.kind() == ErrorKind::Closed => Ok(()),
            ended => ended,
        };
        *closed = true;
        ended.map_err(|error| error.with_operation("close"))
    }
}
