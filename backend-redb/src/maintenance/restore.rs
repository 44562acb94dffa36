//! Puts a backup in the place of a store, whole or not at all.

use std::fs::{File, TryLockError};
use std::path::Path;

use turnkeep_core::local::backup::{self, Restore};
use turnkeep_core::local::{place, random_owner};
use turnkeep_core::{Error, ErrorKind, Result};

use super::verify;
use crate::files::Locked;
use crate::open::reads_well;
use crate::options::RedbOptions;

pub(crate) fn restore(options: &RedbOptions, from: &Path, keep: Option<&Path>) -> Result<()> {
    restore_steps(options, from, keep).map_err(|error| error.with_operation("restore"))
}

fn restore_steps(options: &RedbOptions, from: &Path, keep: Option<&Path>) -> Result<()> {
    let _source = open_source(from)?;
    let to = place::locate(&options.path)?;
    let keep = backup::kept(&to, keep)?;
    // Nobody else has it, nor gets it before it is replaced; then whoever waits sees that the name leads elsewhere.
    let _locked = match keep {
        Some(_) => Some(Locked::take(&to, random_owner()?, options.busy_timeout)?),
        None => None,
    };
    place::tidy(&to);
    let verify = |copy: &File, path: &Path| reads_well(copy, path, verify::verify);
    let restore = Restore { files: &options.media.files, from, to: &to, keep, engine: "redb" };
    restore.put(verify, |_| Ok(()))
}

/// Opens the backup, and sees that nobody writes to it.
fn open_source(from: &Path) -> Result<File> {
    let source = backup::open(from)?;
    match source.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let message = "another process has the file open as a store; make a backup of it first";
            Err(Error::new(ErrorKind::Busy, message).with("path", from.display()))
        }
        // Without locks there is no store that could be open either.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(source),
    }
}
