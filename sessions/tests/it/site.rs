//! Where a test runs: each test of this crate runs on every local backend, which its name says.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use turnkeep_core::{Clock, ManualClock, Store, SystemClock, WorkspaceId};
use turnkeep_memory::{MemoryOptions, MemoryStore};
use turnkeep_redb::{RedbOptions, RedbStore};
use turnkeep_sessions::{Session, Workspace, WorkspaceOptions};
use turnkeep_sqlite::SqliteOptions;

/// A store that can be opened several times, as by several processes.
pub(crate) struct Site {
    place: Place,
    clock: Option<ManualClock>,
}

enum Place {
    Memory(String),
    Sqlite(tempfile::TempDir),
    /// One process has such a file to itself, so every client but the first is a handle of one that is open.
    Redb(tempfile::TempDir, tokio::sync::Mutex<Vec<Weak<RedbStore>>>),
}

impl Site {
    pub(crate) fn memory() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("sessions-it-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self { place: Place::Memory(name), clock: None }
    }

    pub(crate) fn sqlite() -> Self {
        Self { place: Place::Sqlite(tempfile::tempdir().unwrap()), clock: None }
    }

    pub(crate) fn redb() -> Self {
        Self { place: Place::Redb(tempfile::tempdir().unwrap(), tokio::sync::Mutex::default()), clock: None }
    }

    /// Another site of the same kind.
    pub(crate) fn another(&self) -> Self {
        match &self.place {
            Place::Memory(_) => Self::memory(),
            Place::Sqlite(_) => Self::sqlite(),
            Place::Redb(..) => Self::redb(),
        }
    }

    /// The same site with a clock that stands still, for its stores and its workspaces.
    pub(crate) fn with_clock(mut self) -> (Self, ManualClock) {
        let clock = ManualClock::default();
        self.clock = Some(clock.clone());
        (self, clock)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        match &self.clock {
            Some(clock) => Arc::new(clock.clone()),
            None => Arc::new(SystemClock),
        }
    }

    /// One more handle of the store, with an owner of its own.
    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        match &self.place {
            Place::Memory(name) => Arc::new(MemoryOptions::new().clock(self.clock()).open(name)),
            Place::Sqlite(folder) => {
                let path = folder.path().join("state.sqlite3");
                Arc::new(SqliteOptions::new(path).clock(self.clock()).open().await.unwrap())
            }
            Place::Redb(folder, opened) => {
                let mut opened = opened.lock().await;
                // A handle that was closed makes no other.
                let handle = opened.iter().filter_map(Weak::upgrade).find_map(|store| store.handle().ok());
                let store = Arc::new(match handle {
                    Some(handle) => handle,
                    None => {
                        let path = folder.path().join("state.redb");
                        RedbOptions::new(path).clock(self.clock()).open().await.unwrap()
                    }
                });
                opened.push(Arc::downgrade(&store));
                store
            }
        }
    }

    /// Where its files lie, if it has any.
    pub(crate) fn folder(&self) -> Option<&std::path::Path> {
        match &self.place {
            Place::Memory(_) => None,
            Place::Sqlite(folder) | Place::Redb(folder, _) => Some(folder.path()),
        }
    }

    pub(crate) fn options(&self) -> WorkspaceOptions {
        match &self.clock {
            Some(clock) => WorkspaceOptions::default().clock(clock.clone()),
            None => WorkspaceOptions::default(),
        }
    }

    /// The workspace `w` through one more handle.
    pub(crate) async fn workspace(&self) -> Workspace {
        self.workspace_named("w").await
    }

    pub(crate) async fn workspace_named(&self, id: &str) -> Workspace {
        self.options().open(self.store().await, WorkspaceId::new(id).unwrap()).await.unwrap()
    }

    /// A new session in the workspace `w`.
    pub(crate) async fn session(&self) -> Session {
        self.workspace().await.sessions().create().await.unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Place::Memory(name) = &self.place {
            MemoryStore::destroy(name);
        }
    }
}

/// Runs a test on a small runtime, for a bounded time.
pub(crate) fn run<F: Future<Output = ()>>(site: Site, test: impl FnOnce(Site) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(120), test(site)).await.expect("the test takes too long");
    });
}

/// Runs each test on every local backend.
macro_rules! on_each {
    ($($name:ident),+ $(,)?) => {
        mod memory {
            $(#[test] fn $name() { crate::site::run(crate::site::Site::memory(), super::$name); })+
        }
        mod sqlite {
            $(#[test] fn $name() { crate::site::run(crate::site::Site::sqlite(), super::$name); })+
        }
        mod redb {
            $(#[test] fn $name() { crate::site::run(crate::site::Site::redb(), super::$name); })+
        }
    };
}

pub(crate) use on_each;
