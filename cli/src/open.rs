//! Opening the workspace and its store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use turnkeep::redact::CommonSecrets;
use turnkeep::{
    ErrorKind, Fate, MemoryStore, OpenOptions, RedbStore, SqliteOptions, Store, Workspace, WorkspaceDir,
    WorkspaceId, WorkspaceOptions,
};

use crate::args::Global;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::output::{note, text};

/// The name under which state is kept: `~/.turnkeep`, `TURNKEEP_STATE_HOME`, `.turnkeep/workspace-id`.
pub(crate) const APP: &str = "turnkeep";

/// A store as `--store` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Url {
    Sqlite(PathBuf),
    Redb(PathBuf),
    Memory,
}

impl Url {
    fn parse(url: &str) -> Outcome<Self> {
        let known = || "give sqlite:PATH, redb:PATH or memory:";
        match url.split_once(':') {
            Some((backend @ ("sqlite" | "redb"), "")) => {
                Err(Failure::usage(format!("--store {backend}: needs a path")).hint(known()))
            }
            Some(("sqlite", path)) => Ok(Self::Sqlite(PathBuf::from(path))),
            Some(("redb", path)) => Ok(Self::Redb(PathBuf::from(path))),
            Some(("memory", "")) => Ok(Self::Memory),
            _ => {
                let shown = text::cut(&text::line(url), 80);
                Err(Failure::usage(format!("--store {shown} names no store that is known")).hint(known()))
            }
        }
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
    let url = global.store.as_deref().map(Url::parse).transpose()?;
    let wait = global.wait.map(Duration::from_millis);
    let (store, id, dir): (Arc<dyn Store>, WorkspaceId, Option<WorkspaceDir>) = match url {
        Some(Url::Memory) => (Arc::new(MemoryStore::new()), WorkspaceId::new("memory")?, None),
        Some(Url::Sqlite(path)) => {
            let dir = locate(global).await?;
            (sqlite(&path, wait).await?, dir.id()?, Some(dir))
        }
        Some(Url::Redb(path)) => {
            let dir = locate(global).await?;
            (accepted(RedbStore::open(&path).await)?, dir.id()?, Some(dir))
        }
        None => {
            let dir = locate(global).await?;
            (sqlite(&dir.database(), wait).await?, dir.id()?, Some(dir))
        }
    };
    let mut options = WorkspaceOptions::default();
    if let Some(wait) = wait {
        options = options.wait(wait);
    }
    if global.redact {
        options = options.redactor(CommonSecrets::new()?);
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

async fn sqlite(path: &Path, wait: Option<Duration>) -> Outcome<Arc<dyn Store>> {
    let mut options = SqliteOptions::new(path);
    if let Some(wait) = wait {
        options = options.busy_timeout(wait);
    }
    accepted(options.open().await)
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
        assert_eq!(Url::parse("memory:").unwrap(), Url::Memory);
        assert_eq!(Url::parse("sqlite:/a/b c.db").unwrap(), Url::Sqlite(PathBuf::from("/a/b c.db")));
        assert_eq!(Url::parse("sqlite:C:\\x").unwrap(), Url::Sqlite(PathBuf::from("C:\\x")));
        assert_eq!(Url::parse("redb:/x").unwrap(), Url::Redb(PathBuf::from("/x")));
        for wrong in ["", "memory", "memory:x", "sqlite:", "sqlite", "redb:", "other:/x", "/a/b"] {
            assert_eq!(Url::parse(wrong).unwrap_err().code(), exit::USAGE, "{wrong}");
        }
    }
}
