//! Backups: made whole or not at all, and put in the place of a store.

use std::fs::{self, File};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::local::{Files, place};
use crate::mutant;
use crate::store::VerifyReport;

/// Makes a backup with the name `to`, which `copy` makes durably under another name first: a copy that was cut short
/// must never be taken for one.
///
/// # Errors
/// `AlreadyExists` when something has the name, `Invalid` for a path that can be no file, what `copy` answers, and the
/// file system.
pub fn make(files: &Files, to: &Path, copy: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if mutant::is("files/backup-over-something") {
        let _ = fs::remove_file(to);
    }
    let taken = || {
        let message = "something has the name of the backup already; it was not touched";
        Error::new(ErrorKind::AlreadyExists, message).with("path", to.display())
    };
    // A name that leads nowhere is taken too: what it leads to may come back.
    if fs::symlink_metadata(to).is_ok() {
        return Err(taken());
    }
    if to.file_name().is_none() {
        let message = "the path of the backup names no file";
        return Err(Error::new(ErrorKind::Invalid, message).with("path", to.display()));
    }
    if place::make_whole(files, to, copy)? { Ok(()) } else { Err(taken()) }
}

/// Opens a backup that is to be restored.
///
/// # Errors
/// `Invalid` for something that is no file, and what the file system answers.
pub fn open(from: &Path) -> Result<File> {
    let unread = |error| Error::io("cannot read the backup", from, error);
    let source = File::open(from).map_err(unread)?;
    if source.metadata().map_err(unread)?.is_file() {
        return Ok(source);
    }
    Err(Error::new(ErrorKind::Invalid, "the backup is no ordinary file").with("path", from.display()))
}

/// The name under which the store at `to` is to go on; `None` when there is no store.
///
/// # Errors
/// `AlreadyExists` when there is one and no name.
pub fn kept<'k>(to: &Path, keep: Option<&'k Path>) -> Result<Option<&'k Path>> {
    match (fs::symlink_metadata(to), keep) {
        (Ok(_), None) => Err(taken(to)),
        (Ok(_), keep) => Ok(keep),
        (Err(_), _) => Ok(None),
    }
}

fn taken(to: &Path) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        "there is a store already, and it was not touched; say under which name it is to be kept",
    )
    .with("path", to.display())
}

/// A backup on its way into the place of a store.
#[derive(Clone, Copy, Debug)]
pub struct Restore<'a> {
    /// Does what is done to files.
    pub files: &'a Files,
    /// The backup.
    pub from: &'a Path,
    /// The place.
    pub to: &'a Path,
    /// What [`kept`] answered.
    pub keep: Option<&'a Path>,
    /// The engine, as a person calls it.
    pub engine: &'static str,
}

impl Restore<'_> {
    /// Copies the backup beside the place, looks at the copy with `verify`, and gives it the name. What is in the place
    /// is shut first, and stays so until it is replaced: nobody has it open then. Cut short anywhere, the place has the
    /// old store or the new one, whole. The caller sees to it that nobody else makes or opens the store meanwhile.
    ///
    /// # Errors
    /// What `verify` answers: `Invalid` from it means that the copy is none of a store of ours; `Corrupt` when it finds
    /// damage; what `shut` answers; `AlreadyExists`, `Full`, `Io`. Nothing is changed then.
    pub fn put<S>(
        &self,
        verify: impl FnOnce(&File, &Path) -> Result<VerifyReport>,
        shut: impl FnOnce(&Path) -> Result<S>,
    ) -> Result<()> {
        let unfinished = place::unfinished(self.to)?;
        let done = self.steps(&unfinished, verify, shut);
        if done.is_err() {
            // Best effort: the error that is answered says more than this one would.
            let _ = self.files.remove(&unfinished);
        }
        done
    }

    fn steps<S>(
        &self,
        unfinished: &Path,
        verify: impl FnOnce(&File, &Path) -> Result<VerifyReport>,
        shut: impl FnOnce(&Path) -> Result<S>,
    ) -> Result<()> {
        let copy = self.files.copy(self.from, unfinished);
        let copy = copy.map_err(|error| Error::io("cannot copy the backup", self.from, error))?;
        // The copy is what is looked at: nobody changes that one.
        let report = verify(&copy, unfinished).map_err(|error| match error.kind() {
            ErrorKind::Invalid => none(self.from, self.engine),
            ErrorKind::Corrupt => damaged(self.from).with_source(error),
            _ => error.with("backup", self.from.display()),
        })?;
        if let Some(damage) = report.damage.into_iter().next() {
            return Err(damaged(self.from).with("place", damage.place).with("what", damage.what));
        }
        let Some(keep) = self.keep else {
            let published = self.files.publish(unfinished, self.to);
            let published = published.map_err(|error| Error::io("cannot name the store", self.to, error))?;
            return if published { Ok(()) } else { Err(taken(self.to)) };
        };
        if fs::symlink_metadata(keep).is_ok() {
            let message =
                "something has the name already under which the store was to be kept; nothing was changed";
            return Err(Error::new(ErrorKind::AlreadyExists, message).with("path", keep.display()));
        }
        let _shut = shut(keep)?;
        self.files
            .replace(unfinished, self.to, keep)
            .map_err(|error| Error::io("cannot put the backup in the place of the store", self.to, error))
    }
}

fn damaged(from: &Path) -> Error {
    let message = "the backup is damaged, and nothing was changed; restore another, or repair this one";
    Error::new(ErrorKind::Corrupt, message).with("backup", from.display())
}

/// The refusal of a file that is no backup of a store of an engine, as a person calls it.
#[must_use]
pub fn none(from: &Path, engine: &str) -> Error {
    let message = format!("the file is no backup of a {engine} store; nothing was changed");
    Error::new(ErrorKind::Invalid, message).with("backup", from.display())
}
