//! Puts a backup in the place of a store, whole or not at all.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use turnkeep_core::local::random_owner;
use turnkeep_core::{Error, ErrorKind, Result};

use super::verify;
use crate::error::file as failed;
use crate::files::{self, Locked};
use crate::open::reads_well;
use crate::options::RedbOptions;

pub(crate) fn restore(options: &RedbOptions, from: &Path, keep: Option<&Path>) -> Result<()> {
    restore_steps(options, from, keep).map_err(|error| error.with_operation("restore"))
}

fn restore_steps(options: &RedbOptions, from: &Path, keep: Option<&Path>) -> Result<()> {
    let source = open_source(from)?;
    let path = files::locate(&options.path)?;
    let there = fs::symlink_metadata(&path).is_ok();
    if there && keep.is_none() {
        return Err(taken(&path));
    }
    // Nobody else has it, nor gets it before it is replaced; then whoever waits sees that the name leads elsewhere.
    let take = || Locked::take(&path, random_owner()?, options.busy_timeout);
    let locked = there.then(take).transpose()?;
    files::tidy(&path);
    let unfinished = files::unfinished(&path)?;
    let done = put(options, &path, from, &unfinished, keep.filter(|_| there));
    if done.is_err() {
        // Best effort: the error that is answered says more than this one would.
        let _ = options.media.files.remove(&unfinished);
    }
    if let Some(locked) = locked {
        locked.release();
    }
    drop(source);
    done
}

/// Opens the backup, and sees that nobody writes to it.
fn open_source(from: &Path) -> Result<File> {
    let source = File::open(from).map_err(|error| failed("read the backup", from, error))?;
    let found = source.metadata().map_err(|error| failed("read the backup", from, error))?;
    if !found.is_file() {
        return Err(
            Error::new(ErrorKind::Invalid, "the backup is no ordinary file").with("path", from.display())
        );
    }
    match source.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Err(Error::new(
            ErrorKind::Busy,
            "another process has the file open as a store; make a backup of it first",
        )
        .with("path", from.display())),
        // Without locks there is no store that could be open either.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(source),
    }
}

fn put(
    options: &RedbOptions,
    path: &Path,
    from: &Path,
    unfinished: &Path,
    keep: Option<&Path>,
) -> Result<()> {
    let files = &options.media.files;
    let copy = files.copy(from, unfinished).map_err(|error| failed("copy the backup", from, error))?;
    // Says to a tidying neighbour that somebody is at it.
    let _ = copy.try_lock();
    // The copy is what is looked at: nobody changes that one.
    reads_well(&copy, unfinished, |snapshot| match verify::verify(snapshot)?.damage.into_iter().next() {
        None => Ok(()),
        Some(damage) => {
            let message =
                "the backup is damaged, and nothing was changed; restore another, or repair this one";
            Err(Error::new(ErrorKind::Corrupt, message).with("place", damage.place).with("what", damage.what))
        }
    })
    .map_err(|error| match error.kind() {
        ErrorKind::Invalid => {
            Error::new(ErrorKind::Invalid, "the file is no backup of a redb store; nothing was changed")
                .with("backup", from.display())
        }
        _ => error.with("backup", from.display()),
    })?;
    let Some(keep) = keep else {
        let published = files.publish(unfinished, path);
        let published = published.map_err(|error| failed("name the store", path, error))?;
        return if published { Ok(()) } else { Err(taken(path)) };
    };
    files
        .replace(unfinished, path, keep)
        .map_err(|error| failed("put the backup in the place of the store", path, error))
}

fn taken(path: &Path) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        "there is a store already, and it was not touched; say under which name it is to be kept",
    )
    .with("path", path.display())
}
