//! Stores for tests: each test runs once on every backend, and a wrapper watches or breaks what passes through.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tokio::sync::Mutex;
use turnkeep_core::commit::{Commit, NewEntry, NewRun, NewSession, Op, Receipt};
use turnkeep_core::model::{Entry, Row, RunState, RunStates, SessionRow, SessionState};
use turnkeep_core::query::{EntryQuery, Page, RowQuery, SessionQuery};
use turnkeep_core::{
    Error, ErrorKind, Incarnation, Layer, Result, RunId, SessionId, SessionKey, SessionRef, Store,
    WorkspaceId,
};
use turnkeep_memory::MemoryStore;
use turnkeep_redb::RedbStore;
use turnkeep_sqlite::SqliteStore;

/// Runs a test on every backend, each as a test of its own.
macro_rules! on_each {
    ($(async fn $name:ident($backend:ident: Backend) $body:block)*) => {$(
        mod $name {
            use super::*;

            async fn run($backend: crate::both::Backend) $body

            #[tokio::test]
            async fn memory() {
                run(crate::both::Backend::memory()).await;
            }

            #[tokio::test]
            async fn sqlite() {
                run(crate::both::Backend::sqlite()).await;
            }

            #[tokio::test]
            async fn redb() {
                run(crate::both::Backend::redb()).await;
            }
        }
    )*};
}
pub(crate) use on_each;

/// A backend with one place where its data is.
pub(crate) enum Backend {
    Memory(MemoryStore),
    Sqlite(tempfile::TempDir),
    Redb(tempfile::TempDir, Mutex<Vec<Weak<RedbStore>>>),
}

impl Backend {
    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryStore::new())
    }

    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) fn redb() -> Self {
        Self::Redb(tempfile::tempdir().unwrap(), Mutex::default())
    }

    /// A further handle on the same data, its own owner of leases.
    pub(crate) async fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => Arc::new(store.reopen()),
            Self::Sqlite(dir) => Arc::new(SqliteStore::open(dir.path().join("state.sqlite3")).await.unwrap()),
            Self::Redb(dir, opened) => {
                // One opener at a time has such a file, so that the others are handles of it.
                let mut opened = opened.lock().await;
                let handle = opened.iter().filter_map(Weak::upgrade).find_map(|store| store.handle().ok());
                let store = Arc::new(match handle {
                    Some(handle) => handle,
                    None => RedbStore::open(dir.path().join("state.redb")).await.unwrap(),
                });
                opened.push(Arc::downgrade(&store));
                store
            }
        }
    }

    /// Another store of the same kind, empty.
    pub(crate) fn another(&self) -> Self {
        match self {
            Self::Memory(_) => Self::memory(),
            Self::Sqlite(_) => Self::sqlite(),
            Self::Redb(..) => Self::redb(),
        }
    }
}

pub(crate) fn workspace() -> WorkspaceId {
    WorkspaceId::new("ws").unwrap()
}

pub(crate) async fn row(store: &dyn Store, id: &str) -> Option<SessionRow> {
    let key = SessionKey { workspace: workspace(), id: SessionId::new(id).unwrap() };
    store.session(&key).await.unwrap()
}

/// Every session, also those that are being built.
pub(crate) async fn all_sessions(store: &dyn Store) -> Vec<SessionRow> {
    let mut rows = Vec::new();
    for state in [SessionState::Active, SessionState::Restoring] {
        let mut query = SessionQuery::new(workspace());
        query.state = state;
        rows.extend(store.sessions(&query).await.unwrap().items);
    }
    rows
}

/// A session that a test writes to.
pub(crate) struct Scene {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) session: SessionRef,
}

impl Scene {
    pub(crate) async fn create(store: &Arc<dyn Store>, id: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let bits = u128::from(NEXT.fetch_add(1, Ordering::Relaxed)).to_be_bytes();
        let session =
            SessionRef { id: SessionId::new(id).unwrap(), incarnation: Incarnation::from_bytes(bits) };
        let new = NewSession {
            id: session.id.clone(),
            incarnation: session.incarnation,
            state: SessionState::Active,
            profile: turnkeep_core::model::Profile::default(),
        };
        let scene = Self { store: Arc::clone(store), session };
        scene.commit(vec![Op::CreateSession(new)]).await;
        scene
    }

    pub(crate) async fn commit(&self, ops: Vec<Op>) -> Receipt {
        let mut commit = Commit::new(workspace());
        commit.ops = ops;
        self.store.commit(commit).await.unwrap()
    }

    pub(crate) async fn append(&self, entries: Vec<NewEntry>) -> Receipt {
        self.commit(vec![Op::Append { session: self.session.clone(), entries }]).await
    }

    pub(crate) async fn start_run(&self, run: &str) {
        let run = NewRun {
            id: RunId::new(run).unwrap(),
            state: RunState::Running,
            intent: None,
            after: None,
            source: Some("test".into()),
            model: None,
            mode: None,
            work_dir: None,
        };
        self.commit(vec![Op::StartRun { session: self.session.clone(), run }]).await;
    }

    pub(crate) async fn end_run(&self, run: &str, to: RunState) {
        let run = RunId::new(run).unwrap();
        let session = self.session.clone();
        self.commit(vec![Op::TransitionRun { session, run, from: RunStates::ACTIVE, to, error: None }]).await;
    }
}

/// What happens at a commit.
type AtCommit = dyn Fn(usize, &Commit) -> Result<()> + Send + Sync;

/// A store that counts what is read and may refuse what is written.
pub(crate) struct Watched {
    inner: Arc<dyn Store>,
    pub(crate) entries_read: AtomicUsize,
    pub(crate) commits: AtomicUsize,
    at_commit: Box<AtCommit>,
    /// Appended to a session after each page of rows, to be a session that moves.
    meddler: Option<(Scene, NewEntry, usize)>,
    pages: AtomicUsize,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self::at_commit(inner, |_, _| Ok(()))
    }

    pub(crate) fn at_commit(
        inner: Arc<dyn Store>,
        at_commit: impl Fn(usize, &Commit) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            entries_read: AtomicUsize::new(0),
            commits: AtomicUsize::new(0),
            at_commit: Box::new(at_commit),
            meddler: None,
            pages: AtomicUsize::new(0),
        }
    }

    /// Fails every commit from the `n`th on, as if the process had died there.
    pub(crate) fn dying_at(inner: Arc<dyn Store>, n: usize) -> Self {
        Self::at_commit(inner, move |at, _| {
            if at < n { Ok(()) } else { Err(Error::new(ErrorKind::Io, "the process is dead")) }
        })
    }

    /// Appends an entry after each of the first `pages` pages of rows.
    pub(crate) fn moving(scene: Scene, entry: NewEntry, pages: usize) -> Self {
        let mut watched = Self::new(Arc::clone(&scene.store));
        watched.meddler = Some((scene, entry, pages));
        watched
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

#[async_trait]
impl Layer for Watched {
    fn behind(&self) -> &dyn Store {
        &*self.inner
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        (self.at_commit)(self.commits.fetch_add(1, Ordering::SeqCst), &commit)?;
        self.inner.commit(commit).await
    }

    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>> {
        let page = self.inner.entries(query).await?;
        self.entries_read.fetch_add(page.items.len(), Ordering::SeqCst);
        Ok(page)
    }

    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>> {
        let page = self.inner.rows(query).await?;
        let at = self.pages.fetch_add(1, Ordering::SeqCst);
        if let Some((scene, entry, _)) = self.meddler.as_ref().filter(|(_, _, pages)| at < *pages) {
            scene.append(vec![entry.clone()]).await;
        }
        Ok(page)
    }
}
