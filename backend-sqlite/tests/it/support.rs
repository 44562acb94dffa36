//! Stores for the tests.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use turnkeep_sqlite::{SqliteOptions, SqliteStore};

pub(crate) use turnkeep_harnesses::testing::*;

/// A fresh folder and the path of a database in it.
pub(crate) fn fresh() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.sqlite3");
    (folder, path)
}

pub(crate) fn open(path: &Path) -> SqliteStore {
    SqliteStore::open_blocking(path).unwrap()
}

/// Opens what must be refused, without a long wait.
pub(crate) fn refusal(path: &Path) -> turnkeep_core::Error {
    let options = SqliteOptions::new(path).busy_timeout(std::time::Duration::from_millis(50));
    options.open_blocking().expect_err("this must not open")
}
