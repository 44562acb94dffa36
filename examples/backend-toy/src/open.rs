//! Opening a store, step by step. Nothing of a log that is not accepted is changed.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use turnkeep_core::local::owner::private;
use turnkeep_core::local::{
    CommitFailure, CommitterOptions, GroupCommitter, Handles, Readers, place, random_owner,
};
use turnkeep_core::{Capabilities, Durability, Error, ErrorKind, OwnerId, Result, StoreInfo};
use turnkeep_memory::Tables;

use crate::log::Log;
use crate::migrate::{self, FORMAT};
use crate::options::ToyOptions;
use crate::store::ToyStore;
use crate::write::Writer;

pub(crate) fn open(options: ToyOptions) -> Result<ToyStore> {
    let path = place::locate(&options.path)?;
    let lock = lock(&path, options.patience)?;
    // The lock has a file of its own, so it covers the making and the renaming of the log too.
    if place::look_at(&path)?.is_none() {
        make(&options, &path)?;
    }
    let (log, tables) = migrate::open(&options.medium, &path)?;
    let (owner, handles) = (random_owner()?, Handles::default());
    handles.enter(owner);
    let tables = Arc::new(RwLock::new(tables));
    let writer = Writer::new(log, Arc::clone(&tables), options.clock.clone(), handles.clone(), lock);
    let mut settings = CommitterOptions::new("toy-write");
    // One commit at a time, so that rows of a commit are never asked for before it is durable.
    settings.group = 1;
    let committer = GroupCommitter::start(writer, settings)?;
    let readers = Readers::start(vec![tables; 2])?;
    Ok(ToyStore::new(info(&path, owner), committer, readers, handles, options.clock))
}

/// One process at a time, and one opening of it: whoever comes second is told so.
fn lock(path: &Path, patience: Duration) -> Result<File> {
    let path = place::beside(path, ".lock");
    let file = private().create(true).truncate(false).open(&path);
    let file = file.map_err(|error| Error::io("the log could not be locked", &path, error))?;
    let until = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                let message = "somebody has this store open, and it serves one process at a time; close it there, or \
                               take another handle of the store that is open with `ToyStore::handle`";
                return Err(Error::new(ErrorKind::Busy, message).with("lock", path.display()));
            }
            Err(TryLockError::Error(error)) => {
                return Err(Error::io("the log could not be locked", &path, error));
            }
        }
    }
}

fn make(options: &ToyOptions, path: &Path) -> Result<()> {
    match Log::make(&options.medium, path, &Tables::default()) {
        Ok(_) => Ok(()),
        Err(CommitFailure::NothingApplied(error) | CommitFailure::Unknown(error)) => Err(error),
    }
}

fn info(path: &Path, owner: OwnerId) -> StoreInfo {
    let mut info = StoreInfo::new("toy", env!("CARGO_PKG_VERSION"), Durability::D3, owner);
    info.engine = "a log file, rows in memory".to_owned();
    info.location = path.display().to_string();
    info.format = FORMAT;
    let mut capabilities = Capabilities::NONE;
    capabilities.persistent = true;
    capabilities.owner_liveness = true;
    capabilities.compact = true;
    info.capabilities = capabilities;
    info
}
