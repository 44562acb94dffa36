//! Stores for the tests.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use turnkeep_redb::RedbStore;

pub(crate) use turnkeep_harnesses::testing::*;

/// A fresh folder and the path of a store in it.
pub(crate) fn fresh() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    (folder, path)
}

pub(crate) fn open(path: &Path) -> RedbStore {
    RedbStore::open_blocking(path).unwrap()
}

/// Opens what must be refused.
pub(crate) fn refusal(path: &Path) -> turnkeep_core::Error {
    RedbStore::open_blocking(path).expect_err("this must not open")
}
