//! Putting a backup in the place of a store: whole or not at all, and never under anybody's feet.

use turnkeep_core::{ErrorKind, Maintenance};
use turnkeep_redb::{RedbOptions, RedbStore};

use crate::support::{Restoring, block_on, close, fresh, open};

const REDB: Restoring<RedbStore> = Restoring {
    file: "state.redb",
    open,
    messages: |path| {
        let store = open(path);
        let found = block_on(store.stats()).unwrap().entries;
        close(&store);
        found
    },
    restore: |path, backup, keep, files| RedbOptions::new(path).files(files).restore_blocking(backup, keep),
};

#[test]
fn a_backup_becomes_a_store_where_none_is() {
    REDB.becomes_a_store();
}

#[test]
fn a_store_that_is_there_is_replaced_only_under_another_name() {
    REDB.replaces_only_under_another_name();
}

#[test]
fn a_store_or_a_backup_that_somebody_has_open_is_left_alone() {
    let (folder, _) = fresh();
    let (path, backup) = REDB.store_and_backup(folder.path());
    let keep = folder.path().join("kept");
    for held in [&path, &backup] {
        let held = open(held);
        assert_eq!(REDB.refused(&path, &backup, Some(&keep)).kind(), ErrorKind::Busy);
        close(&held);
    }
    assert_eq!(REDB.messages(&path), Some(3));
    assert!(!keep.exists());
}

#[test]
fn what_is_no_whole_backup_is_refused_and_nothing_is_changed() {
    REDB.refuses(|_| Vec::new());
}

#[test]
fn a_restore_that_dies_anywhere_leaves_the_old_store_or_the_new_one() {
    REDB.dies_anywhere();
}
