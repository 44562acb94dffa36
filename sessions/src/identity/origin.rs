//! Where the directory of a workspace was when it was last opened: how a copy is told from a move.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use turnkeep_core::error::{Error, ErrorKind, Result};
use uuid::Uuid;

use super::files::replace;
use super::layout::StateLayout;
use super::marker;

const NAME: &str = "origin.json";

/// Which directory a path leads to, whatever mounts and links lie between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    device: Option<u64>,
    inode: Option<u64>,
}

impl Place {
    pub(super) fn of(directory: &Path) -> Result<Self> {
        let metadata = fs::metadata(directory)
            .map_err(|error| Error::io("the directory cannot be looked at", directory, error))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Ok(Self { device: Some(metadata.dev()), inode: Some(metadata.ino()) })
        }
        #[cfg(not(unix))]
        {
            let _ = metadata;
            Ok(Self { device: None, inode: None })
        }
    }

    /// Whether both are known and the same.
    pub(super) fn is_certainly(&self, other: &Self) -> bool {
        self.device.is_some() && self == other
    }
}

/// The record in the state of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) path: PathBuf,
    pub(super) place: Place,
}

/// The stored form. A path need not be UTF-8, so it is kept as bytes where it is not.
#[derive(Serialize, Deserialize)]
struct Stored {
    path: StoredPath,
    #[serde(flatten)]
    place: Place,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredPath {
    Text(String),
    Bytes(Vec<u8>),
}

/// What is at the recorded place now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum There {
    /// A directory with the same marker.
    Original(Place),
    /// Nothing, or something else.
    Gone,
}

impl Origin {
    /// The record of a workspace; `None` if its state is not known.
    pub(super) fn read(state: &Path) -> Result<Option<Self>> {
        let path = state.join(NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("the record of the workspace cannot be read", &path, error)),
        };
        let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| {
            Error::new(
                ErrorKind::Corrupt,
                "the record of where the workspace lies is damaged; remove it if the directory is the only one \
                 with this workspace id",
            )
            .with("record", path.display())
            .with_source(error)
        })?;
        Ok(Some(Self { path: stored.path.into_path(), place: stored.place }))
    }

    pub(super) fn write(&self, state: &Path) -> Result<()> {
        let stored = Stored { path: StoredPath::from_path(&self.path), place: self.place };
        let json = serde_json::to_vec_pretty(&stored).map_err(|error| {
            Error::new(ErrorKind::Invalid, "the record of the workspace cannot be written").with_source(error)
        })?;
        replace(&state.join(NAME), &json)
    }

    /// Looks whether the recorded directory is still there and still this workspace.
    pub(super) fn look(&self, id: Uuid, layout: &StateLayout) -> Result<There> {
        match fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(There::Gone),
            Err(error) if gone(error.kind()) => return Ok(There::Gone),
            // Guessing here could let two directories share one history.
            Err(error) => {
                return Err(Error::io(
                    "cannot tell whether the original workspace still exists",
                    &self.path,
                    error,
                ));
            }
        }
        Ok(if marker::holds(&self.path, layout, id)? {
            There::Original(Place::of(&self.path)?)
        } else {
            There::Gone
        })
    }
}

fn gone(kind: std::io::ErrorKind) -> bool {
    matches!(kind, std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

impl StoredPath {
    fn from_path(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_encoded_bytes().to_vec()),
        }
    }

    fn into_path(self) -> PathBuf {
        match self {
            Self::Text(text) => PathBuf::from(text),
            #[cfg(unix)]
            Self::Bytes(bytes) => {
                use std::os::unix::ffi::OsStringExt;
                PathBuf::from(std::ffi::OsString::from_vec(bytes))
            }
            #[cfg(not(unix))]
            Self::Bytes(bytes) => PathBuf::from(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
}
