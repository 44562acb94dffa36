//! The marker in a workspace: one file with one UUID.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::local::owner::create_private_folder;
use uuid::Uuid;

use super::files::replace;
use super::layout::StateLayout;

const NAME: &str = "workspace-id";
/// Nothing longer is an id.
const MOST_BYTES: u64 = 256;

/// The id in the marker of a directory; `None` if it has none.
pub(super) fn read(directory: &Path, layout: &StateLayout) -> Result<Option<Uuid>> {
    let folder = layout.marker_folder(directory);
    if !is_plain(&folder, true)? {
        return Ok(None);
    }
    let path = folder.join(NAME);
    if !is_plain(&path, false)? {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    fs::File::open(&path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes)).map_err(
        |error| Error::io("the workspace marker cannot be read; give yourself the right to", &path, error),
    )?;
    let text = std::str::from_utf8(&bytes).map(str::trim).unwrap_or_default();
    match parse(text) {
        Some(id) => Ok(Some(id)),
        None => Err(garbled(&path)),
    }
}

/// Exactly the hyphenated form, and not the nil one: whatever else is there was not written by us.
fn parse(text: &str) -> Option<Uuid> {
    if text.len() != 36 {
        return None;
    }
    Uuid::try_parse(text).ok().filter(|id| !id.is_nil())
}

fn garbled(path: &Path) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the workspace marker holds no workspace id; put the UUID back (it is the name of a folder under \
         `workspaces` in the state root), or remove the file to begin an empty workspace",
    )
    .with("marker", path.display())
}

/// Whether something is there; refused if it is not what we write. A link could lead anywhere.
fn is_plain(path: &Path, folder: bool) -> Result<bool> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::io("the workspace marker cannot be looked at", path, error)),
    };
    let plain = if folder { metadata.is_dir() } else { metadata.is_file() };
    if plain {
        return Ok(true);
    }
    let what = if folder { "a folder" } else { "a file" };
    Err(Error::new(
        ErrorKind::Corrupt,
        format!("the place of the workspace marker is not {what} (a link, perhaps); remove it"),
    )
    .with("marker", path.display()))
}

/// Writes the marker, and a `.gitignore` beside it so that it is never shared.
pub(super) fn write(directory: &Path, layout: &StateLayout, id: Uuid) -> Result<PathBuf> {
    let folder = layout.marker_folder(directory);
    create_private_folder(&folder)
        .map_err(|error| Error::io("the workspace marker cannot be made", &folder, error))?;
    let ignore = folder.join(".gitignore");
    if !is_plain(&ignore, false)? {
        replace(&ignore, b"*\n")?;
    }
    let path = folder.join(NAME);
    replace(&path, format!("{}\n", id.hyphenated()).as_bytes())?;
    Ok(path)
}

/// Whether a directory has the marker of `id`. An error if that cannot be told.
pub(super) fn holds(directory: &Path, layout: &StateLayout, id: Uuid) -> Result<bool> {
    match read(directory, layout) {
        Ok(found) => Ok(found == Some(id)),
        // Garbled there means that it is no original any more.
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
        Err(error) => Err(error),
    }
}
