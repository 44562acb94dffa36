//! Opening the workspace and its store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use turnkeep::redact::CommonSecrets;
use turnkeep::{
    ErrorKind, Fate, MemoryStore, OpenOptions, RedbOptions, SqliteOptions, Store, Workspace, WorkspaceDir,
    WorkspaceId, WorkspaceOptions,
};

use crate::args::Global;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::output::upgrade::Upgrades;
use crate::output::{note, text};

/// The name under which state is kept: `~/.turnkeep`, `TURNKEEP_STATE_HOME`, `.turnkeep/workspace-id`.
pub(crate) const APP: &str = "turnkeep";

/// A store by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Url {
    Sqlite(PathBuf),
    Redb(PathBuf),
    Memory,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Redb(path) => write!(f, "redb:{}", path.display()),
            Self::Memory => f.write_str("memory:"),
        }
    }
}

impl Url {
    /// Reads the value of an option or argument, which the error names.
    pub(crate) fn parse(of: &str, url: &str) -> Outcome<Self> {
        let known = || "give sqlite:PATH, redb:PATH or memory:";
        match url.split_once(':') {
            Some((backend @ ("sqlite" | "redb"), "")) => {
                Err(Failure::usage(format!("{of} {backend}: needs a path")).hint(known()))
            }
            Some(("sqlite", path)) => Ok(Self::Sqlite(PathBuf::from(path))),
            Some(("redb", path)) => Ok(Self::Redb(PathBuf::from(path))),
            Some(("memory", "")) => Ok(Self::Memory),
            _ => {
                let shown = text::cut(&text::line(url), 80);
                Err(Failure::usage(format!("{of} {shown} names no store that is known")).hint(known()))
            }
        }
    }

    /// Its file.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) | Self::Redb(path) => Some(path),
            Self::Memory => None,
        }
    }

    /// A store of the same kind in another file.
    pub(crate) fn at(&self, path: PathBuf) -> Self {
        match self {
            Self::Sqlite(_) => Self::Sqlite(path),
            Self::Redb(_) => Self::Redb(path),
            Self::Memory => Self::Memory,
        }
    }

    /// Refuses a store that opening would make.
    pub(crate) fn must_exist(&self) -> Outcome<()> {
        match self.path() {
            Some(path) if !path.exists() => {
                let message = format!("there is no store {}", text::line(&path.display().to_string()));
                Err(Failure::told(exit::NOT_FOUND, message))
            }
            _ => Ok(()),
        }
    }

    /// Whether two names lead to one file, over links of either kind.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        match (self.path(), other.path()) {
            (Some(one), Some(two)) => {
                one == two || identity(one).is_some_and(|file| Some(file) == identity(two))
            }
            (one, two) => one == two,
        }
    }

    /// Opens it; also one that a first look finds damaged, if `damaged` says so. One of an older version is brought up
    /// to date, and this says so.
    pub(crate) async fn open(&self, global: &Global, damaged: bool) -> Outcome<Arc<dyn Store>> {
        let upgrades = Upgrades::default();
        let store = self.open_watched(global, damaged, &upgrades).await?;
        upgrades.tell(global.json);
        Ok(store)
    }

    async fn open_watched(
        &self,
        global: &Global,
        damaged: bool,
        upgrades: &Upgrades,
    ) -> Outcome<Arc<dyn Store>> {
        let store: Arc<dyn Store> = match self {
            Self::Sqlite(path) => {
                let options = sqlite(path, global.wait()).damaged(damaged).on_upgrade(upgrades.watch());
                let opened = options.open().await;
                upgrades.end();
                accepted(opened)?
            }
            Self::Redb(path) => accepted(RedbOptions::new(path).damaged(damaged).open().await)?,
            Self::Memory => Arc::new(MemoryStore::new()),
        };
        global.stores.note(&store);
        Ok(store)
    }

    /// Puts a backup in its place; see `SqliteOptions::restore`.
    pub(crate) async fn restore(
        &self,
        wait: Option<Duration>,
        backup: &Path,
        keep: Option<&Path>,
    ) -> turnkeep::Result<()> {
        match self {
            Self::Sqlite(path) => sqlite(path, wait).restore(backup, keep).await,
            Self::Redb(path) => RedbOptions::new(path).restore(backup, keep).await,
            Self::Memory => Err(turnkeep::Error::unsupported("restore")),
        }
    }
}

/// The stores that a command has opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stores(Arc<Mutex<Vec<Arc<dyn Store>>>>);

impl Stores {
    fn note(&self, store: &Arc<dyn Store>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(store));
    }

    /// Closes them: the log goes into the database, and the index for searches catches up.
    pub(crate) async fn close(&self) {
        let stores = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for store in stores {
            // What a command did was acknowledged before, so that this fails takes nothing of it back.
            let _ = store.close().await;
        }
    }
}

/// What one file is known by, whatever it is called.
#[cfg(unix)]
fn identity(path: &Path) -> Option<impl PartialEq + use<>> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<impl PartialEq + use<>> {
    path.canonicalize().ok()
}

/// The store of `--store`, else the workspace's own; not opened.
pub(crate) async fn place(global: &Global) -> Outcome<Url> {
    match &global.store {
        Some(url) => Url::parse("--store", url),
        None => Ok(Url::Sqlite(locate(global).await?.database())),
    }
}

/// Refuses a store that was named and is not there: a command that only looks makes none.
pub(crate) fn named_must_exist(global: &Global) -> Outcome<()> {
    match &global.store {
        Some(url) => Url::parse("--store", url)?.must_exist(),
        None => Ok(()),
    }
}

/// An open workspace, and where it is.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) workspace: Workspace,
    /// The folder; `None` for a store in memory, which leaves nothing behind.
    pub(crate) dir: Option<WorkspaceDir>,
}

/// Opens the workspace of the folder that was named, in its own store or in the one of `--store`.
pub(crate) async fn workspace(global: &Global) -> Outcome<Workspace> {
    Ok(open(global).await?.workspace)
}

/// As [`workspace`], and says where it is.
pub(crate) async fn open(global: &Global) -> Outcome<Opened> {
    let upgrades = Upgrades::default();
    let opened = open_watched(global, &upgrades).await?;
    upgrades.tell(global.json);
    Ok(opened)
}

/// As [`open`], but leaves it to the caller to tell of an upgrade.
pub(crate) async fn open_watched(global: &Global, upgrades: &Upgrades) -> Outcome<Opened> {
    let wait = global.wait();
    let named = global.store.as_deref().map(|url| Url::parse("--store", url)).transpose()?;
    let dir = if named == Some(Url::Memory) { None } else { Some(locate(global).await?) };
    let (url, id) = match (&dir, named) {
        (Some(dir), Some(url)) => (url, dir.id()?),
        (Some(dir), None) => (Url::Sqlite(dir.database()), dir.id()?),
        (None, _) => (Url::Memory, WorkspaceId::new("memory")?),
    };
    let store = url.open_watched(global, false, upgrades).await?;
    let mut options = WorkspaceOptions::default();
    if let Some(wait) = wait {
        options = options.wait(wait);
    }
    if global.redact {
        options = options.redactor(CommonSecrets::new()?);
    }
    if let Some(dir) = &dir {
        options = options.audit_log(dir.log_folder());
    }
    let workspace = options.open(store, id).await?;
    tell_recovered(global, &workspace);
    Ok(Opened { workspace, dir })
}

async fn locate(global: &Global) -> Outcome<WorkspaceDir> {
    let dir = OpenOptions::new().app(APP).locate(&global.workspace).await?;
    match dir.fate() {
        Fate::Copied { of, .. } => {
            note(
                global.json,
                &format!("this folder is a copy of {}; it begins with no sessions of its own", shown(of)),
            );
        }
        Fate::Moved { from } => {
            note(global.json, &format!("this folder was {}; its sessions came along", shown(from)))
        }
        Fate::Adopted => note(global.json, "the state of this workspace is not there; it begins empty"),
        _ => {}
    }
    Ok(dir)
}

fn sqlite(path: &Path, wait: Option<Duration>) -> SqliteOptions {
    let options = SqliteOptions::new(path);
    match wait {
        Some(wait) => options.busy_timeout(wait),
        None => options,
    }
}

fn accepted<S: Store>(opened: turnkeep::Result<S>) -> Outcome<Arc<dyn Store>> {
    match opened {
        Ok(store) => Ok(Arc::new(store)),
        // A path that leads to something else is no wrong word on the command line.
        Err(error) if error.kind() == ErrorKind::Invalid => Err(Failure::from(error).exit(exit::DAMAGED)),
        Err(error) => Err(error.into()),
    }
}

/// Says what was left behind and closed, so that nobody wonders about a run that ended by itself.
fn tell_recovered(global: &Global, workspace: &Workspace) {
    let report = workspace.recovered();
    match report.interrupted.as_slice() {
        [] => {}
        [run] => note(
            global.json,
            &format!(
                "a turn of session {} was left unfinished by a program that ended; it is marked interrupted",
                text::line(run.session.id.as_str())
            ),
        ),
        runs => note(
            global.json,
            &format!(
                "{} turns were left unfinished by programs that ended; they are marked interrupted",
                runs.len()
            ),
        ),
    }
    for removed in &report.removed {
        note(
            global.json,
            &format!(
                "an import of session {} that was given up long ago was removed",
                text::line(removed.id.as_str())
            ),
        );
    }
    for (session, error) in &report.failed {
        note(
            global.json,
            &format!(
                "session {} cannot be recovered: {}",
                text::line(session.id.as_str()),
                text::line(&error.to_string())
            ),
        );
    }
}

fn shown(path: &Path) -> String {
    text::line(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_store_or_are_refused() {
        assert_eq!(Url::parse("--store", "memory:").unwrap(), Url::Memory);
        assert_eq!(
            Url::parse("--store", "sqlite:/a/b c.db").unwrap(),
            Url::Sqlite(PathBuf::from("/a/b c.db"))
        );
        assert_eq!(Url::parse("--store", "sqlite:C:\\x").unwrap(), Url::Sqlite(PathBuf::from("C:\\x")));
        assert_eq!(Url::parse("--store", "redb:/x").unwrap(), Url::Redb(PathBuf::from("/x")));
        for wrong in ["", "memory", "memory:x", "sqlite:", "sqlite", "redb:", "other:/x", "/a/b"] {
            assert_eq!(Url::parse("--store", wrong).unwrap_err().code(), exit::USAGE, "{wrong}");
        }
    }
}
