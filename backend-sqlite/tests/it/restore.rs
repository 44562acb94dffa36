//! Putting a backup in the place of a store: whole or not at all, and never under anybody's feet.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use turnkeep_core::{ErrorKind, Maintenance};
use turnkeep_sqlite::{SqliteOptions, SqliteStore};

use crate::support::{Restoring, block_on, close, fresh, open, session_of};

const SQLITE: Restoring<SqliteStore> = Restoring {
    file: "state.sqlite3",
    open,
    messages: |path| {
        let conn = Connection::open(path).unwrap();
        conn.query_row("SELECT messages FROM sessions", [], |row| row.get::<_, u32>(0)).unwrap().into()
    },
    restore: |path, backup, keep, files| {
        let options = SqliteOptions::new(path).busy_timeout(Duration::from_millis(100));
        options.files(files).restore_blocking(backup, keep)
    },
};

#[test]
fn a_backup_becomes_a_store_where_none_is() {
    SQLITE.becomes_a_store();
}

#[test]
fn a_store_that_is_there_is_replaced_only_under_another_name() {
    SQLITE.replaces_only_under_another_name();
}

#[test]
fn a_log_that_was_left_behind_stays_with_its_store() {
    let (folder, _) = fresh();
    let (path, backup) = SQLITE.store_and_backup(folder.path());
    // A killed program leaves its last commits in the log.
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA wal_autocheckpoint = 0; UPDATE sessions SET messages = 7").unwrap();
    let log = PathBuf::from(format!("{}-wal", path.display()));
    let (left, copy) = (fs::read(&log).unwrap(), fs::read(&path).unwrap());
    drop(conn);
    fs::write(&path, copy).unwrap();
    fs::write(&log, left).unwrap();
    let keep = folder.path().join("kept");
    SQLITE.restore(&path, &backup, Some(&keep));
    assert_eq!((SQLITE.messages(&path), SQLITE.messages(&keep)), (Some(2), Some(7)));
}

#[test]
fn a_store_that_somebody_has_open_is_not_replaced() {
    let (folder, _) = fresh();
    let (path, backup) = SQLITE.store_and_backup(folder.path());
    let keep = folder.path().join("kept");
    let held = open(&path);
    assert_eq!(SQLITE.refused(&path, &backup, Some(&keep)).kind(), ErrorKind::Busy);
    close(&held);
    drop(held);
    // Nor one that another program looks at.
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("BEGIN; SELECT count(*) FROM sessions").unwrap();
    assert_eq!(SQLITE.refused(&path, &backup, Some(&keep)).kind(), ErrorKind::Busy);
    drop(conn);
    assert!(!keep.exists());
    assert_eq!(SQLITE.messages(&path), Some(3));
    SQLITE.restore(&path, &backup, Some(&keep));
}

#[test]
fn what_is_no_whole_backup_is_refused_and_nothing_is_changed() {
    SQLITE.refuses(|folder| {
        let other = folder.join("other.db");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
        vec![(other, ErrorKind::Invalid)]
    });
}

#[test]
fn a_store_in_use_is_no_backup_because_its_file_alone_may_be_stale() {
    let (folder, path) = fresh();
    let used = folder.path().join("used.sqlite3");
    let store = open(&used);
    session_of(&store, "u", 1);
    let error = SQLITE.refused(&path, &used, None);
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("log"), "{error}");
    close(&store);
    assert!(!path.exists());
}

#[test]
fn a_restore_that_dies_anywhere_leaves_the_old_store_or_the_new_one() {
    SQLITE.dies_anywhere();
}

#[test]
fn a_backup_of_an_older_format_is_restored_and_upgraded_when_it_is_opened() {
    let (folder, path) = fresh();
    let backup = folder.path().join("old");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harnesses/golden/sqlite-1.bytes");
    fs::copy(golden, &backup).unwrap();
    let format = |path: &Path| -> i64 {
        let conn = Connection::open(path).unwrap();
        conn.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
    };
    SQLITE.restore(&path, &backup, None);
    assert_eq!((format(&path), format(&backup)), (1, 1), "it is put there as it is");
    let store = SqliteOptions::new(&path).open_blocking().unwrap();
    assert_eq!(block_on(store.verify()).unwrap().damage, []);
    close(&store);
    assert!(format(&path) > 1);
}
