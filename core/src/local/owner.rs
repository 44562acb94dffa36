//! Whether the handle behind a lease still lives: a file lock that its process holds.
//!
//! A file lock (flock) is given up by death and kept by a stopped process, so a dead owner is known at once and a
//! sleeping one is not mistaken for dead. Standard library locks are close-on-exec and belong to the open file, so
//! two handles in one process do not disturb each other.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::id::OwnerId;
use crate::model::Liveness;
use crate::mutant;

/// The lock of one open handle; held until dropped.
#[derive(Debug)]
pub struct OwnerLock {
    file: File,
    path: PathBuf,
}

impl OwnerLock {
    /// Makes and holds the lock of `owner` in a folder, which is made if needed (mode 0700).
    ///
    /// # Errors
    /// `Io` when the folder cannot be written or the file system has no file locks; owners are then `Unknown`.
    pub fn acquire(folder: &Path, owner: OwnerId) -> Result<Self> {
        let make = || -> io::Result<Self> {
            create_private_folder(folder)?;
            // Locked under another name first: nobody sees this owner's file without its lock.
            let (fresh, path) = (folder.join(format!("{owner}.new")), path_of(folder, owner));
            let file = private().create_new(true).open(&fresh)?;
            file.lock()?;
            fs::rename(&fresh, &path)?;
            Ok(Self { file, path })
        };
        make().map_err(|error| {
            Error::new(ErrorKind::Io, "the lock of this handle cannot be made")
                .with("folder", folder.display())
                .with_source(error)
        })
    }
}

impl Drop for OwnerLock {
    /// A handle that is closed leaves no file: its leases are then settled by release or expiry.
    ///
    /// While it may still hold leases the file must stay, to prove the owner dead; `sweep` removes it later.
    fn drop(&mut self) {
        if mutant::is("owners/lock-file-stays-open") {
            std::mem::forget(self.file.try_clone());
        }
        let _ = self.file.unlock();
        let _ = &self.path;
    }
}

/// Whether `owner` lives, by the lock in `folder`. A missing file answers `Unknown`.
#[must_use]
pub fn liveness(folder: &Path, owner: OwnerId) -> Liveness {
    let Ok(file) = File::open(path_of(folder, owner)) else { return Liveness::Unknown };
    match file.try_lock_shared() {
        Ok(()) => mutant::either("owners/the-dead-live", Liveness::Alive, Liveness::Dead),
        Err(TryLockError::WouldBlock) => {
            mutant::either("owners/the-living-are-dead", Liveness::Dead, Liveness::Alive)
        }
        Err(TryLockError::Error(_)) => Liveness::Unknown,
    }
}

/// Whether the handle of any owner is open, by the locks in `folder`.
#[must_use]
pub fn anybody_lives(folder: &Path) -> bool {
    let Ok(files) = fs::read_dir(folder) else { return false };
    files.flatten().any(|file| {
        File::open(file.path())
            .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    })
}

/// Removes the files of dead owners, but those for which `keep` answers true because a lease still names them.
pub fn sweep(folder: &Path, keep: impl Fn(OwnerId) -> bool) {
    if mutant::is("owners/lock-files-stay") {
        return;
    }
    let Ok(files) = fs::read_dir(folder) else { return };
    for path in files.flatten().map(|file| file.path()) {
        let owner =
            path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<OwnerId>().ok());
        let settled = path.extension().is_some_and(|extension| extension == "lock");
        if !settled || owner.is_none_or(&keep) {
            continue;
        }
        if let Ok(file) = File::open(&path)
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(&path);
        }
    }
}

fn path_of(folder: &Path, owner: OwnerId) -> PathBuf {
    folder.join(format!("{owner}.lock"))
}

/// Options that make a file only its user may touch.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder, and those above it, that only its user may enter. One that is there is left as it is.
///
/// # Errors
/// Whatever the file system answers.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_lives_as_long_as_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("owners");
        let (a, b) = (OwnerId::from_bytes([1; 16]), OwnerId::from_bytes([2; 16]));
        assert_eq!(liveness(&folder, a), Liveness::Unknown);
        let lock = OwnerLock::acquire(&folder, a).unwrap();
        assert_eq!(liveness(&folder, a), Liveness::Alive);
        assert_eq!(liveness(&folder, a), Liveness::Alive, "probing must not take the lock away");
        assert_eq!(liveness(&folder, b), Liveness::Unknown);
        assert!(anybody_lives(&folder));
        drop(lock);
        assert!(!anybody_lives(&folder));
        assert_eq!(liveness(&folder, a), Liveness::Dead);
        sweep(&folder, |owner| owner == a);
        assert_eq!(liveness(&folder, a), Liveness::Dead, "a lease still names it");
        let _alive = OwnerLock::acquire(&folder, b).unwrap();
        sweep(&folder, |_| false);
        assert_eq!(liveness(&folder, a), Liveness::Unknown);
        assert_eq!(liveness(&folder, b), Liveness::Alive);
    }
}
