//! A file layer for SQLite (a "VFS") that tells a [`Disk`] of everything the engine does to its files, and fails where
//! the disk says so. It lies over the engine's own layer and passes everything on to it.
//!
//! It sees each sync with its flags, those of the log too, and also the syncs of folders, which the engine's layer
//! makes by itself. Files in memory and temporary ones are no concern of a power loss and go by unseen, and so does the
//! shared memory of the log, which means nothing once the last process is gone.
//!
//! ```
//! use turnkeep_conformance::disk::Disk;
//!
//! let folder = tempfile::tempdir().unwrap();
//! let (path, disk) = (folder.path().join("state.sqlite3"), Disk::new());
//! let vfs = turnkeep_test_vfs::register(&disk, &path).unwrap();
//! let conn = rusqlite::Connection::open_with_flags_and_vfs(&path, Default::default(), vfs.as_str()).unwrap();
//! conn.execute_batch("CREATE TABLE t (x)").unwrap();
//! assert!(disk.log().ops().count() > 0);
//! ```

mod file;
mod folder;
mod layer;

use std::ffi::CString;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use turnkeep_conformance::disk::{Disk, Names};

/// Registers a layer for the database at `path` and gives the name under which a connection asks for it.
///
/// It stays registered until the process ends, for nobody can tell when the engine has done with it; once the disk is
/// gone it only passes on. A few hundred bytes each.
///
/// # Errors
/// When the engine has no layer of its own, or takes no other.
pub fn register(disk: &Disk, path: &Path) -> io::Result<String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("turnkeep-test-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let c_name = CString::new(name.as_str()).map_err(io::Error::other)?;
    layer::register(c_name, disk.downgrade(), Names::of(path))?;
    Ok(name)
}
