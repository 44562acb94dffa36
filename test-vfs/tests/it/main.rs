//! Integration tests of the file layer.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, ffi};
use tempfile::TempDir;
use turnkeep_conformance::disk::{Disk, Failure, Fault, Flush, Kind, Log, Loss, Op, Replay};

struct Place {
    folder: TempDir,
    path: PathBuf,
    disk: Disk,
    vfs: String,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let (path, disk) = (folder.path().join("state.db"), Disk::new());
    let vfs = turnkeep_test_vfs::register(&disk, &path).unwrap();
    Place { folder, path, disk, vfs }
}

fn connect(place: &Place) -> Connection {
    let conn =
        Connection::open_with_flags_and_vfs(&place.path, OpenFlags::default(), place.vfs.as_str()).unwrap();
    conn.execute_batch(
        "PRAGMA busy_timeout = 5000; PRAGMA page_size = 8192; PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;",
    )
    .unwrap();
    conn
}

fn end(log: &Log) -> Replay<'_> {
    let mut replay = Replay::new(log);
    while replay.advance() {}
    replay
}

/// The files that lie there, but for the shared memory, under the names that the disk has for them.
fn really(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for file in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = file.file_name().into_string().unwrap().replace("state.db", "main");
        if !name.ends_with("-shm") {
            files.insert(name, std::fs::read(file.path()).unwrap());
        }
    }
    files
}

fn insert(conn: &Connection, from: u32, count: u32) {
    for row in from..from + count {
        conn.execute("INSERT INTO t VALUES (?1, ?2)", (row, "words ".repeat(row as usize % 700))).unwrap();
    }
}

#[test]
fn the_log_replayed_in_full_equals_the_files_byte_by_byte() {
    let place = place();
    let same = |when: &str| {
        let log = place.disk.log();
        let replayed = end(&log).image(Loss::None).files;
        let really = really(place.folder.path());
        assert_eq!(replayed.keys().collect::<Vec<_>>(), really.keys().collect::<Vec<_>>(), "{when}");
        assert!(replayed == really, "{when}: the contents differ");
    };
    let conn = connect(&place);
    let other = connect(&place);
    conn.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT); CREATE INDEX i ON t (b)").unwrap();
    insert(&conn, 0, 60);
    same("while the log is used");
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    insert(&other, 100, 30);
    same("after a checkpoint and a new beginning of the log, by another connection");
    conn.execute_batch("DELETE FROM t WHERE a % 3 = 0; VACUUM; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    same("after a vacuum and an emptied log");
    insert(&conn, 200, 10);
    let copy = place.folder.path().join("copy.db");
    conn.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    same("beside a copy");
    conn.execute_batch("BEGIN; INSERT INTO t VALUES (1000, 'undone'); ROLLBACK").unwrap();
    drop(other);
    drop(conn);
    same("after the last connection removed the log");
    assert!(place.disk.log().ops().any(|op| matches!(op, Op::Remove { name } if name == "main-wal")));

    let conn = connect(&place);
    conn.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA; DELETE FROM t").unwrap();
    same("with a rollback journal");
    drop(conn);
}

#[test]
fn a_file_that_was_there_before_is_known_with_its_bytes() {
    let place = place();
    let plain = Connection::open(&place.path).unwrap();
    plain.execute_batch("CREATE TABLE t (a, b)").unwrap();
    drop(plain);
    let conn = connect(&place);
    insert(&conn, 0, 3);
    assert!(end(&place.disk.log()).image(Loss::None).files == really(place.folder.path()));
}

#[test]
fn every_sync_is_seen_with_its_flags_and_its_folder() {
    let place = place();
    let conn = connect(&place);
    conn.execute_batch("CREATE TABLE t (a, b)").unwrap();
    insert(&conn, 0, 2);
    let log = place.disk.log();
    let ops: Vec<&Op> = log.ops().collect();
    let wal = ops.iter().find_map(|op| match op {
        Op::Create { name, file } if name == "main-wal" => Some(*file),
        _ => None,
    });
    let wal = wal.expect("the log is made");
    let syncs: Vec<usize> = ops
        .iter()
        .enumerate()
        .filter(|(_, op)| matches!(op, Op::Sync { file, .. } if *file == wal))
        .map(|(at, _)| at)
        .collect();
    assert_eq!(syncs.len(), 4, "one for the head of the log and one for each of three commits: {syncs:?}");
    let folder = Op::SyncFolder { folder: String::new() };
    assert_eq!(*ops[syncs[0] + 1], folder, "with the first sync of a new log comes that of its name");
    assert!(syncs[1..].iter().all(|at| ops.get(at + 1).is_none_or(|op| **op != folder)));
    // The engine asks for the flags of a full sync; what is only data it says where it is.
    conn.execute_batch("PRAGMA synchronous = NORMAL; INSERT INTO t VALUES (1, 2)").unwrap();
    assert_eq!(
        place.disk.log().ops().filter(|op| matches!(op, Op::Sync { file, .. } if *file == wal)).count(),
        4
    );
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let log = place.disk.log();
    let flushes: Vec<Flush> = log
        .ops()
        .filter_map(|op| match op {
            Op::Sync { flush, .. } => Some(*flush),
            _ => None,
        })
        .collect();
    assert!(flushes.contains(&Flush::Full), "{flushes:?}");
}

#[test]
fn faults_reach_the_engine_with_their_own_codes() {
    let place = place();
    let conn = connect(&place);
    conn.execute_batch("CREATE TABLE t (a, b)").unwrap();
    let codes = |sql: &str| {
        let error = conn.execute_batch(sql).unwrap_err();
        error.sqlite_error().unwrap().extended_code
    };
    let insert = "INSERT INTO t VALUES (1, 2)";
    for (kind, failure, code) in [
        (Kind::Write, Failure::Full, ffi::SQLITE_FULL),
        (Kind::Write, Failure::Io, ffi::SQLITE_IOERR_WRITE),
        (Kind::Sync, Failure::Io, ffi::SQLITE_IOERR_FSYNC),
    ] {
        place.disk.arm(Fault::once(kind, 0, failure).on("-wal"));
        assert_eq!(codes(insert), code, "{kind:?} {failure:?}");
        place.disk.disarm();
        conn.execute_batch(insert).unwrap();
    }
    place.disk.set_capacity(Some(place.disk.used()));
    assert_eq!(codes("INSERT INTO t VALUES (3, hex(zeroblob(30000)))"), ffi::SQLITE_FULL);
    place.disk.set_capacity(None);
    conn.execute_batch(insert).unwrap();
    assert_eq!(place.disk.failed(), 3, "what had no room is no fault");
    let rows: i64 = conn.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 4);
}

#[test]
fn a_layer_whose_disk_is_gone_passes_on() {
    let Place { folder: _folder, path, disk, vfs } = place();
    drop(disk);
    let conn = Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), vfs.as_str()).unwrap();
    conn.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
}
