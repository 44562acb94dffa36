//! Where the file of a store lies, and what can be told before an engine looks at it.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::local::owner::create_private_folder;
use crate::local::{Files, random_bits};

/// Finds the canonical place of a store, so that two ways to one file are seen to be one. Makes the folder (mode 0700)
/// when it is absent.
///
/// # Errors
/// `Invalid` for a path that can be no file, else what the file system answers.
pub fn locate(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(invalid("the path of the store names no file", path));
    };
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(Error::new(ErrorKind::Invalid, "the path of the store holds a NUL character"));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.exists() {
        create_private_folder(folder)
            .map_err(|error| Error::io("cannot make the folder of the store", folder, error))?;
        Files::default().sync_folder(folder.parent());
    }
    let folder = fs::canonicalize(folder)
        .map_err(|error| Error::io("cannot find the folder of the store", folder, error))?;
    let place = folder.join(name);
    match fs::symlink_metadata(&place) {
        Ok(found) if found.is_symlink() => fs::canonicalize(&place).map_err(|error| {
            Error::io("cannot follow the link that the path of the store is", &place, error)
        }),
        Ok(_) => Ok(place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(place),
        Err(error) => Err(Error::io("cannot look at the file of the store", &place, error)),
    }
}

/// What is at the place of a store; `None` when nothing is.
///
/// # Errors
/// `Invalid` for something that is no file, `ReadOnly` or `Io` when its modes forbid the use.
pub fn look_at(place: &Path) -> Result<Option<Metadata>> {
    let found = match fs::metadata(place) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("cannot look at the file of the store", place, error)),
    };
    if found.is_dir() {
        return Err(invalid("the path of the store is a folder; name a file in it", place));
    }
    if !found.is_file() {
        return Err(invalid("the path of the store is no ordinary file", place));
    }
    // Modes are a statement of the owner's will, also where the user is one that no mode stops.
    if found.permissions().readonly() {
        let message = "the file of the store is read-only; allow writing, or open a copy";
        return Err(Error::new(ErrorKind::ReadOnly, message).with("path", place.display()));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o444 == 0 {
        let message = "the file of the store may not be read; change its mode";
        return Err(Error::new(ErrorKind::Io, message).with("path", place.display()));
    }
    Ok(Some(found))
}

fn invalid(message: &str, path: &Path) -> Error {
    Error::new(ErrorKind::Invalid, message).with("path", path.display())
}

/// The file with a longer name in the same folder.
#[must_use]
pub fn beside(path: &Path, suffix: impl AsRef<OsStr>) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A name beside `path` that nobody else uses, for what is not whole yet.
///
/// # Errors
/// `Io` when the operating system gives no random bits.
pub fn unfinished(path: &Path) -> Result<PathBuf> {
    Ok(beside(path, format!(".{:016x}.unfinished", random_bits()?)))
}

/// Makes a file that is whole or not there at all: `make` does so under a name of its own, and only then it gets the
/// name `path`. Answers `false` when somebody had that name by then; nothing of ours is left.
///
/// # Errors
/// What `make` answers, and the file system.
pub fn make_whole(files: &Files, path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<bool> {
    let unfinished = unfinished(path)?;
    let published = |()| {
        let published = files.publish(&unfinished, path);
        published.map_err(|error| Error::io("cannot give the file its name", path, error))
    };
    let made = make(&unfinished).and_then(published);
    if !matches!(made, Ok(true)) {
        // Best effort: what is answered says more than this error would.
        let _ = files.remove(&unfinished);
    }
    made
}
