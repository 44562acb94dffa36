//! Which workspace a directory is, and where its state lies.
//!
//! The only thing kept in the directory is `.turnkeep/workspace-id`. Everything else lies outside, where tools that
//! work in the directory cannot change it.

mod files;
mod layout;
mod marker;
mod origin;

use std::path::{Path, PathBuf};

use turnkeep_core::WorkspaceId;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::mutant;
use uuid::Uuid;

pub use layout::StateLayout;

use crate::entropy::{Entropy, SystemEntropy};
use layout::StateFolders;
use origin::{Origin, Place};

/// A directory whose workspace is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceDir {
    directory: PathBuf,
    id: Uuid,
    fate: Fate,
    folders: StateFolders,
}

/// How a directory came to its workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It was never opened before.
    Created,
    /// It was opened before, here or under another path that leads to the same directory.
    Known,
    /// It has a marker, but no state is known here: the state was removed, or its root moved. It starts empty.
    Adopted,
    /// It was moved, and keeps its history.
    Moved {
        /// Where it was.
        from: PathBuf,
    },
    /// It is a copy whose original still exists: it got an id of its own and starts empty.
    Copied {
        /// The original.
        of: PathBuf,
        /// The id of the original.
        original: WorkspaceId,
    },
}

impl WorkspaceDir {
    /// Finds out which workspace a directory is, and makes it one if it is none yet.
    ///
    /// Only one process at a time decides this for a state root, so that two that open a directory at once agree.
    ///
    /// # Errors
    /// `NotFound` or `Invalid` when it is no directory; `UnsafeRoot` when the state would lie inside it; `Corrupt` when
    /// its marker holds no id (never a silent new one: the message says what to do); `Io` when something cannot be read
    /// or written; `Busy` when another process decides for too long.
    pub fn resolve(directory: impl AsRef<Path>, layout: &StateLayout) -> Result<Self> {
        Self::resolve_with(directory, layout, &SystemEntropy)
    }

    /// As [`resolve`](Self::resolve), with random bits of one's own.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_with(
        directory: impl AsRef<Path>,
        layout: &StateLayout,
        entropy: &dyn Entropy,
    ) -> Result<Self> {
        let directory = existing_directory(directory.as_ref())?;
        let root = layout.prepare(&directory)?;
        let beside = layout.marker_folder(&directory);
        let root = mutant::either("identity/state-beside-the-marker", beside, root);
        let _deciding = files::decide_alone(&root)?;
        let here = Place::of(&directory)?;
        let (id, fate) = match marker::read(&directory, layout)? {
            None => (fresh(entropy)?, Fate::Created),
            Some(id) => {
                let folders = StateFolders::of(&root, id);
                match judge(&folders, id, &directory, &here, layout)? {
                    fate @ Fate::Copied { .. } => (fresh(entropy)?, fate),
                    fate => (id, fate),
                }
            }
        };
        let folders = StateFolders::of(&root, id);
        folders.refuse_overlap(&directory)?;
        folders.make()?;
        // The record comes first: a marker without one would read as adopted, a record without a marker is nothing.
        let origin = Origin { path: directory.clone(), place: here };
        if fate != Fate::Known {
            origin.write(&folders.state)?;
        }
        if matches!(fate, Fate::Created | Fate::Copied { .. }) {
            marker::write(&directory, layout, id)?;
        }
        Ok(Self { directory, id, fate, folders })
    }

    /// The workspace's id.
    ///
    /// # Errors
    /// Never in practice: a UUID is a valid id.
    pub fn id(&self) -> Result<WorkspaceId> {
        WorkspaceId::new(self.id.hyphenated().to_string())
    }

    /// The directory, as its canonical path.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// How it came to its workspace.
    #[must_use]
    pub fn fate(&self) -> &Fate {
        &self.fate
    }

    /// The folder that holds its state; private to its user.
    #[must_use]
    pub fn state_folder(&self) -> &Path {
        &self.folders.state
    }

    /// Where its SQLite database lies.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.folders.state.join("state.sqlite3")
    }

    /// The folder for its logs. It may not exist yet.
    #[must_use]
    pub fn log_folder(&self) -> &Path {
        &self.folders.logs
    }
}

fn existing_directory(directory: &Path) -> Result<PathBuf> {
    let canonical = directory.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, "the workspace directory does not exist; create it first")
                .with("directory", directory.display())
        }
        _ => Error::io("the workspace directory cannot be opened", directory, error),
    })?;
    if !canonical.is_dir() {
        return Err(Error::new(ErrorKind::Invalid, "the workspace is no directory; name a folder")
            .with("directory", canonical.display()));
    }
    Ok(canonical)
}

fn fresh(entropy: &dyn Entropy) -> Result<Uuid> {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}

/// Whether the directory that holds the marker `id` is the one that the state of `id` belongs to.
fn judge(
    folders: &StateFolders,
    id: Uuid,
    directory: &Path,
    here: &Place,
    layout: &StateLayout,
) -> Result<Fate> {
    let Some(origin) = Origin::read(&folders.state)? else { return Ok(Fate::Adopted) };
    if origin.path == directory || mutant::is("identity/a-copy-is-the-original") {
        return Ok(Fate::Known);
    }
    let there = origin.look(id, layout)?;
    Ok(match there {
        // Another way to the same directory: a bind mount, or a second mount.
        origin::There::Original(place) if place == *here => Fate::Known,
        // A directory that was moved away and whose old path was filled with a copy keeps its identity.
        origin::There::Original(_) if origin.place.is_certainly(here) => Fate::Moved { from: origin.path },
        origin::There::Original(_) => {
            Fate::Copied { of: origin.path, original: WorkspaceId::new(id.hyphenated().to_string())? }
        }
        origin::There::Gone => Fate::Moved { from: origin.path },
    })
}
