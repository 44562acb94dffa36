//! The file of a store: where it is, who has it.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use turnkeep_core::local::{Handles, place};
use turnkeep_core::{Error, ErrorKind, OwnerId, Result};

/// Whether the store is still to be made.
///
/// # Errors
/// `Invalid` for something that is no file, `ReadOnly` or `Io` when its modes forbid the use, `Corrupt` when it is
/// empty.
pub(crate) fn is_absent(path: &Path) -> Result<bool> {
    let Some(found) = place::look_at(path)? else { return Ok(true) };
    if found.len() == 0 {
        // A store gets its name only when it is whole, so an empty file never was one, or has lost everything.
        return Err(place::empty(path));
    }
    Ok(false)
}

/// A store that this process has open, until its file is given back.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// The handles on it. None are left while it closes.
    pub(crate) owners: Handles,
    gone: Mutex<bool>,
    moved: Condvar,
}

impl Gate {
    fn gone(&self) -> MutexGuard<'_, bool> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the file is given back; `false` when that takes too long.
    fn wait(&self, until: Instant) -> bool {
        let mut gone = self.gone();
        while !*gone {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            gone = self.moved.wait_timeout(gone, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

type Gates = HashMap<PathBuf, Arc<Gate>>;

static OPEN: LazyLock<Mutex<Gates>> = LazyLock::new(Mutex::default);

/// A panic cannot leave the map half changed, so its poison means nothing.
fn gates() -> MutexGuard<'static, Gates> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file of a store, locked: no other process, and no other opener of this one, has it.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) gate: Arc<Gate>,
    released: Mutex<bool>,
}

impl Locked {
    /// Opens and locks the file for a first handle, at once or not at all. Only for a store that this very process is
    /// just closing there is a wait of at most `patience`.
    ///
    /// # Errors
    /// `Busy` when somebody has it, else what the file system answers.
    pub(crate) fn take(path: &Path, owner: OwnerId, patience: Duration) -> Result<Self> {
        let until = Instant::now() + patience;
        loop {
            let mut options = fs::OpenOptions::new();
            let file = options
                .read(true)
                .write(true)
                .open(path)
                .map_err(|error| Error::io("cannot open the file of the store", path, error))?;
            // Held until the gate is in the map, so that whoever finds the file locked finds the gate.
            let mut gates = gates();
            match file.try_lock() {
                Ok(()) if still_named(&file, path) => {
                    let gate = Arc::new(Gate::default());
                    gate.owners.enter(owner);
                    gates.insert(path.to_owned(), Arc::clone(&gate));
                    let (path, released) = (path.to_owned(), Mutex::new(false));
                    return Ok(Self { file, path, gate, released });
                }
                // Somebody replaced the file between the open and the lock.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let gate = gates.get(path).cloned();
                    drop(gates);
                    match gate {
                        Some(gate) if gate.owners.is_empty() && gate.wait(until) => {}
                        Some(_) => return Err(busy_here(path)),
                        None => return Err(busy(path)),
                    }
                }
                Err(TryLockError::Error(error)) => {
                    return Err(Error::io("cannot lock the file of the store", path, error));
                }
            }
        }
    }

    /// Gives the file back. Called once the engine is done with it.
    pub(crate) fn release(&self) {
        let mut released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *released, true) {
            return;
        }
        let mut gates = gates();
        if gates.get(&self.path).is_some_and(|gate| Arc::ptr_eq(gate, &self.gate)) {
            gates.remove(&self.path);
        }
        // Explicitly: a process that is being started may hold a copy of the descriptor for a moment.
        let _ = self.file.unlock();
        drop(gates);
        *self.gate.gone() = true;
        self.gate.moved.notify_all();
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(unix)]
fn still_named(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(named)) => place(ours) == place(named),
        _ => true,
    }
}

#[cfg(not(unix))]
fn still_named(_file: &File, _path: &Path) -> bool {
    true
}

fn busy(path: &Path) -> Error {
    Error::new(
        ErrorKind::Busy,
        "another process has this store open, and a redb store serves one process at a time; close it there, or use \
         the SQLite backend, which several processes may share",
    )
    .with("path", path.display())
}

fn busy_here(path: &Path) -> Error {
    Error::new(
        ErrorKind::Busy,
        "this process has this store open already; clone that handle, or make another with `RedbStore::handle`",
    )
    .with("path", path.display())
}
