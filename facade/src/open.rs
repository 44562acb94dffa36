//! Opening a workspace or a store by name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnkeep_core::{Error, ErrorKind, Result, Store};
use turnkeep_sessions::{StateLayout, Workspace, WorkspaceDir, WorkspaceOptions};

/// The name under which turnkeep itself keeps state.
const APP: &str = "turnkeep";

/// Opens the workspace that a directory is: its identity is in `.turnkeep/workspace-id`, its state in
/// `~/.turnkeep/workspaces/<id>/state.sqlite3`. What dead processes left behind in it is closed.
///
/// # Errors
/// See [`OpenOptions::open`].
pub async fn open_workspace(directory: impl AsRef<Path>) -> Result<Workspace> {
    OpenOptions::new().open(directory).await
}

/// Opens a store by its URL: `sqlite:PATH` or `redb:PATH` for a file, which is made when it is not there, or `memory:`
/// for a new and empty one in memory.
///
/// # Errors
/// `Invalid` for another form, `Unsupported` for a backend that was not compiled in, and whatever the backend answers.
pub async fn open_store(url: &str) -> Result<Arc<dyn Store>> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        "sqlite" | "redb" if rest.is_empty() => {
            Err(Error::new(ErrorKind::Invalid, format!("the store URL names no file; write {scheme}:PATH"))
                .with("url", url))
        }
        "sqlite" => open_sqlite(Path::new(rest)).await,
        "redb" => open_redb(Path::new(rest)).await,
        "memory" if rest.is_empty() && url.ends_with(':') => open_memory(),
        _ => Err(Error::new(ErrorKind::Invalid, "no such store; write sqlite:PATH, redb:PATH or memory:")
            .with("url", url)),
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(path: &Path) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(turnkeep_sqlite::SqliteStore::open(path).await?))
}

#[cfg(not(feature = "sqlite"))]
async fn open_sqlite(_: &Path) -> Result<Arc<dyn Store>> {
    Err(not_compiled_in("sqlite"))
}

#[cfg(feature = "redb")]
async fn open_redb(path: &Path) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(turnkeep_redb::RedbStore::open(path).await?))
}

#[cfg(not(feature = "redb"))]
async fn open_redb(_: &Path) -> Result<Arc<dyn Store>> {
    Err(not_compiled_in("redb"))
}

#[cfg(feature = "memory")]
fn open_memory() -> Result<Arc<dyn Store>> {
    Ok(Arc::new(turnkeep_memory::MemoryStore::new()))
}

#[cfg(not(feature = "memory"))]
fn open_memory() -> Result<Arc<dyn Store>> {
    Err(not_compiled_in("memory"))
}

#[cfg(not(all(feature = "sqlite", feature = "redb", feature = "memory")))]
fn not_compiled_in(feature: &'static str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("this program was built without the {feature} backend; enable the feature `{feature}`"),
    )
    .with_operation("open_store")
}

/// How a workspace is opened by its directory.
#[derive(Clone, Debug)]
#[must_use]
pub struct OpenOptions {
    app: String,
    root: Option<PathBuf>,
    workspace: WorkspaceOptions,
    audit: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { app: APP.to_owned(), root: None, workspace: WorkspaceOptions::default(), audit: true }
    }
}

impl OpenOptions {
    /// The names of turnkeep itself, and the defaults of [`WorkspaceOptions`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Names of one's own: the marker in `.<app>`, the state in `~/.<app>`, moved by `<APP>_STATE_HOME`.
    pub fn app(mut self, app: impl Into<String>) -> Self {
        self.app = app.into();
        self
    }

    /// Keeps the state here, whatever the environment says.
    pub fn state_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = Some(root.into());
        self
    }

    /// How the workspace itself is opened.
    pub fn workspace(mut self, options: WorkspaceOptions) -> Self {
        self.workspace = options;
        self
    }

    /// Whether an [audit log](turnkeep_sessions::audit) is written to `~/.<app>/logs/<id>`; yes by default.
    pub fn audit_log(mut self, audit: bool) -> Self {
        self.audit = audit;
        self
    }

    /// Where the state of workspaces lies.
    ///
    /// # Errors
    /// `Invalid` for an application name that is none, or when there is no home directory; the message names the
    /// environment variable to set.
    pub fn layout(&self) -> Result<StateLayout> {
        match &self.root {
            Some(root) => StateLayout::at(&self.app, root),
            None => StateLayout::for_app(&self.app),
        }
    }

    /// Finds out which workspace a directory is, without opening its store. See [`WorkspaceDir::resolve`].
    ///
    /// # Errors
    /// As [`WorkspaceDir::resolve`].
    pub async fn locate(&self, directory: impl AsRef<Path>) -> Result<WorkspaceDir> {
        let layout = self.layout()?;
        let directory = directory.as_ref().to_owned();
        on_a_thread(move || WorkspaceDir::resolve(directory, &layout)).await?
    }

    /// Opens the workspace that a directory is.
    ///
    /// # Errors
    /// As [`locate`](Self::locate), and whatever the store answers to being opened. `Unsupported` without the feature
    /// `sqlite`.
    pub async fn open(self, directory: impl AsRef<Path>) -> Result<Workspace> {
        let located = self.locate(directory).await?;
        self.open_at(&located).await
    }

    /// Opens the workspace of a directory that was located before.
    ///
    /// # Errors
    /// Whatever the store answers to being opened. `Unsupported` without the feature `sqlite`.
    pub async fn open_at(self, located: &WorkspaceDir) -> Result<Workspace> {
        let store = open_sqlite(&located.database()).await?;
        let mut options = self.workspace;
        if self.audit && !options.has_audit_log() {
            options = options.audit_log(located.log_folder());
        }
        options.open(store, located.id()?).await
    }
}

/// Does work on files beside the threads that drive futures. Needs no runtime.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (answer, done) = tokio::sync::oneshot::channel();
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Io, "cannot start a thread to look at the workspace").with_source(error)
    };
    std::thread::Builder::new()
        .name("turnkeep-locate".into())
        .spawn(move || {
            // Nobody may be waiting any more.
            let _ = answer.send(work());
        })
        .map_err(failed)?;
    done.await.map_err(|error| failed(std::io::Error::other(error)))
}
