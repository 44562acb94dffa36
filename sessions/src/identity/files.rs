//! Small files that are written whole or not at all, and a lock around decisions.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::local::owner::private;

/// How long another process may decide.
const PATIENCE: Duration = Duration::from_secs(10);

/// Replaces a file, privately and durably: a reader sees the old content or the new one.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let _ = fs::remove_file(&fresh);
        let mut file = private().create_new(true).open(&fresh)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        // The name must survive a power cut, too.
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&fresh);
        Error::io("the file cannot be written", path, error)
    })
}

/// Takes from others the right to enter a folder of ours.
pub(super) fn make_private(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let permissions = fs::metadata(folder)
            .map_err(|error| Error::io("the state folder cannot be looked at", folder, error))?
            .permissions();
        if permissions.mode() & 0o077 != 0 {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
                .map_err(|error| Error::io("the state folder cannot be made private", folder, error))?;
        }
    }
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// Holds the line of those that decide about identities under a state root; given up when dropped.
pub(super) fn decide_alone(root: &Path) -> Result<File> {
    let path = root.join("identity.lock");
    let file = private()
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| Error::io("the state root cannot be written", &path, error))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(fs::TryLockError::WouldBlock) => {
                return Err(Error::new(
                    ErrorKind::Busy,
                    "another process is deciding about workspaces for too long; try again",
                )
                .with("lock", path.display()));
            }
            // Without file locks the worst is two first opens at once; the marker's rename still lets one win.
            Err(fs::TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => {
                return Ok(file);
            }
            Err(fs::TryLockError::Error(error)) => {
                return Err(Error::io("the state root cannot be locked", &path, error));
            }
        }
    }
}
