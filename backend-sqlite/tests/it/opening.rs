//! Paths and files that are no store of ours, or not whole.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;
use turnkeep_core::query::RowQuery;
use turnkeep_core::{ErrorKind, Maintenance, Store};
use turnkeep_sqlite::{SqliteOptions, SqliteStore};

use crate::support::{block_on, close, fresh, open, refusal, session_of, texts};

/// A closed store with some history.
fn filled(path: &Path, messages: usize) {
    let store = open(path);
    session_of(&store, "s", messages);
    close(&store);
}

/// Opens what must be refused and checks that not a byte changed and no file came beside it.
fn untouched_refusal(path: &Path) -> turnkeep_core::Error {
    let before = fs::read(path).unwrap();
    let files = |path: &Path| fs::read_dir(path.parent().unwrap()).unwrap().count();
    let count = files(path);
    let error = refusal(path);
    assert!(fs::read(path).unwrap() == before, "the file was changed");
    assert_eq!(files(path), count, "files came beside it");
    error
}

#[test]
fn a_folder_is_no_database() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(refusal(folder.path()).kind(), ErrorKind::Invalid);
    assert_eq!(refusal(&folder.path().join("..")).kind(), ErrorKind::Invalid);
    assert_eq!(refusal(Path::new("/")).kind(), ErrorKind::Invalid);
    assert_eq!(refusal(Path::new("")).kind(), ErrorKind::Invalid);
}

#[test]
fn a_path_below_a_file_or_with_a_nul_is_refused() {
    let (folder, path) = fresh();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_eq!(refusal(&file.join("state.sqlite3")).kind(), ErrorKind::Io);
    assert_eq!(refusal(&path.with_file_name("a\0b")).kind(), ErrorKind::Invalid);
}

#[test]
fn a_read_only_file_is_refused_and_untouched() {
    let (_folder, path) = fresh();
    filled(&path, 3);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(untouched_refusal(&path).kind(), ErrorKind::ReadOnly);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    close(&open(&path));
}

#[test]
fn an_unreadable_file_is_refused() {
    let (_folder, path) = fresh();
    filled(&path, 3);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o200)).unwrap();
    let error = refusal(&path);
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().contains("may not be read"), "{error}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_untouched() {
    let (_folder, path) = fresh();
    for content in ["x", "{\"some\":\"JSON\"}\n", &"a long text of something else. ".repeat(1000)] {
        fs::write(&path, content).unwrap();
        assert_eq!(untouched_refusal(&path).kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn a_database_of_another_program_is_refused_and_untouched() {
    let (_folder, path) = fresh();
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    drop(theirs);
    assert_eq!(untouched_refusal(&path).kind(), ErrorKind::Invalid);
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch("DROP TABLE bookmarks; PRAGMA application_id = 77").unwrap();
    drop(theirs);
    let error = untouched_refusal(&path);
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("another program"), "{error}");
}

#[test]
fn case_43_a_newer_format_is_refused_and_untouched() {
    let (_folder, path) = fresh();
    filled(&path, 3);
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("PRAGMA user_version = 3").unwrap();
    drop(newer);
    let error = untouched_refusal(&path);
    assert_eq!(error.kind(), ErrorKind::NewerFormat);
    assert!(error.message().contains("upgrade"), "{error}");
}

#[test]
fn a_newer_format_that_is_only_in_the_log_is_refused_and_the_log_stays() {
    let (folder, path) = fresh();
    filled(&path, 3);
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA user_version = 3").unwrap();
    let log = folder.path().join("state.sqlite3-wal");
    let before = (fs::read(&path).unwrap(), fs::read(&log).unwrap());
    assert_eq!(refusal(&path).kind(), ErrorKind::NewerFormat);
    assert!(before == (fs::read(&path).unwrap(), fs::read(&log).unwrap()), "the files were changed");
    drop(newer);
}

#[test]
fn a_format_that_never_was_is_refused() {
    let (_folder, path) = fresh();
    filled(&path, 1);
    let older = Connection::open(&path).unwrap();
    older.execute_batch("PRAGMA user_version = 0").unwrap();
    drop(older);
    assert_eq!(refusal(&path).kind(), ErrorKind::OlderFormat);
}

#[test]
fn a_writer_of_the_old_format_is_refused_after_an_upgrade_beside_it() {
    let (_folder, path) = fresh();
    let store = open(&path);
    session_of(&store, "s", 1);
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("PRAGMA user_version = 3").unwrap();
    let new = crate::support::life("t");
    let commit = turnkeep_core::Commit::new(crate::support::workspace()).op(crate::support::create(&new));
    assert_eq!(block_on(store.commit(commit)).unwrap_err().kind(), ErrorKind::NewerFormat);
    newer.execute_batch("PRAGMA user_version = 2").unwrap();
    close(&store);
}

#[test]
fn a_truncated_file_is_corrupt_and_never_silently_empty() {
    let (_folder, path) = fresh();
    filled(&path, 300);
    let whole = fs::read(&path).unwrap();
    for keep in [1, 50, 100, 4096, 8192, whole.len() / 2, whole.len() - 8192, whole.len() - 1] {
        fs::write(&path, &whole[..keep]).unwrap();
        assert_eq!(refusal(&path).kind(), ErrorKind::Corrupt, "kept {keep} of {}", whole.len());
        assert_eq!(fs::metadata(&path).unwrap().len(), keep as u64);
    }
    fs::write(&path, &whole).unwrap();
    close(&open(&path));
}

/// Everything of the session, or the refusal that met the damage.
fn export(
    path: &Path,
    session: &turnkeep_core::SessionRef,
) -> turnkeep_core::Result<Vec<turnkeep_core::model::Row>> {
    let store = SqliteStore::open_blocking(path)?;
    let mut query = RowQuery::session(crate::support::workspace(), session.clone());
    query.limit = 10_000;
    let rows = block_on(store.rows(&query));
    let whole = block_on(store.verify()).unwrap().damage.is_empty();
    assert!(!whole, "verify does not see the damage");
    drop(store);
    rows.map(|page| page.items)
}

#[test]
fn flipped_bits_are_met_as_corrupt_and_never_as_a_shorter_history() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 300);
    let mut query = RowQuery::session(crate::support::workspace(), session.clone());
    query.limit = 10_000;
    let rows = block_on(store.rows(&query)).unwrap().items;
    close(&store);
    let whole = fs::read(&path).unwrap();
    let mut met = 0;
    for page in 1..whole.len() / 8192 {
        let mut damaged = whole.clone();
        // The kind of the page and the number of its cells.
        damaged[page * 8192] ^= 0xff;
        damaged[page * 8192 + 4] ^= 0x01;
        fs::write(&path, &damaged).unwrap();
        match export(&path, &session) {
            Ok(found) => assert!(found == rows, "page {} changed what is read", page + 1),
            Err(error) => {
                met += 1;
                assert_eq!(error.kind(), ErrorKind::Corrupt, "page {}", page + 1);
            }
        }
        let _ = fs::remove_file(path.with_file_name("state.sqlite3-wal"));
    }
    assert!(met > 10, "damaged pages were met {met} times");
    // The last is the version that a writer must know; without it the engine still reads.
    for (byte, kind) in [(0, ErrorKind::Corrupt), (16, ErrorKind::Corrupt), (18, ErrorKind::ReadOnly)] {
        let mut damaged = whole.clone();
        damaged[byte] ^= 0xff;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(refusal(&path).kind(), kind, "byte {byte} of the header");
    }
}

#[test]
fn a_missing_table_is_corrupt() {
    let (_folder, path) = fresh();
    filled(&path, 1);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("DROP TABLE leases").unwrap();
    drop(other);
    assert_eq!(refusal(&path).kind(), ErrorKind::Corrupt);
}

#[test]
fn a_view_that_somebody_added_does_no_harm() {
    let (_folder, path) = fresh();
    filled(&path, 1);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE VIEW mine AS SELECT id, title FROM sessions").unwrap();
    drop(other);
    close(&open(&path));
}

#[test]
fn an_empty_file_is_a_fresh_store() {
    let (_folder, path) = fresh();
    fs::write(&path, b"").unwrap();
    fs::write(path.with_file_name("state.sqlite3-wal"), b"").unwrap();
    let store = open(&path);
    let session = session_of(&store, "s", 1);
    assert_eq!(texts(&store, &session), ["message 1"]);
    close(&store);
}

#[test]
fn a_log_without_its_database_is_kept() {
    let (_folder, path) = fresh();
    let log = path.with_file_name("state.sqlite3-wal");
    fs::write(&log, b"commits that nothing else has").unwrap();
    let missing = refusal(&path);
    fs::write(&path, b"").unwrap();
    let empty = refusal(&path);
    for error in [missing, empty] {
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains("put the database file back"), "{error}");
    }
    assert_eq!(fs::read(&log).unwrap(), b"commits that nothing else has");
}

/// A journal as the engine begins it, for a database that had so many pages.
fn journal(pages: u32) -> Vec<u8> {
    let mut bytes = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    bytes.extend([0, 0, 0, 0, 1, 2, 3, 4]);
    bytes.extend(pages.to_be_bytes());
    bytes.resize(512, 0);
    bytes
}

#[test]
fn a_journal_left_by_somebody_who_was_stopped_while_making_the_database_is_no_obstacle() {
    let (folder, path) = fresh();
    let log = folder.path().join("state.sqlite3-journal");
    for left in [journal(0), vec![0; 512], vec![0xd9; 3]] {
        fs::write(&path, b"").unwrap();
        fs::write(&log, &left).unwrap();
        filled(&path, 3);
        fs::remove_file(&path).unwrap();
    }
    fs::write(&path, b"").unwrap();
    fs::write(&log, journal(7)).unwrap();
    assert_eq!(refusal(&path).kind(), ErrorKind::Corrupt, "a journal of a database that had pages");
    assert_eq!(fs::read(&log).unwrap(), journal(7));
}

#[test]
fn a_database_locked_for_longer_than_the_timeout_is_busy() {
    let (_folder, path) = fresh();
    filled(&path, 1);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT").unwrap();
    let error = refusal(&path);
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.is_retryable());
    drop(other);
    close(&open(&path));
}

#[test]
fn a_stuck_maker_is_waited_for_no_longer_than_the_timeout() {
    let (_folder, path) = fresh();
    let lock = fs::File::create(path.with_file_name("state.sqlite3.write.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(refusal(&path).kind(), ErrorKind::Busy);
    assert!(!path.exists(), "nothing is made out of turn");
    lock.unlock().unwrap();
    close(&open(&path));
}

#[test]
fn readers_open_while_a_writer_is_at_work() {
    let (_folder, path) = fresh();
    filled(&path, 1);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store =
        SqliteOptions::new(&path).busy_timeout(std::time::Duration::from_millis(50)).open_blocking().unwrap();
    close(&store);
}

#[test]
fn case_31_the_linked_engine_has_no_log_fault() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
    let (_folder, path) = fresh();
    let store = open(&path);
    assert!(store.info().engine.starts_with(&format!("SQLite {}, write-ahead log", rusqlite::version())));
    close(&store);
}

/// A file layer without shared memory refuses a write-ahead log just as a network file system does.
#[test]
fn case_54_where_a_log_is_refused_a_rollback_journal_keeps_the_store_durable_and_is_named() {
    let (_folder, path) = fresh();
    let dotfile = || SqliteOptions::new(&path).vfs("unix-dotfile").open_blocking().unwrap();
    let store = dotfile();
    assert!(store.info().engine.contains("rollback journal"), "{}", store.info().engine);
    assert_eq!(store.info().durability, turnkeep_core::Durability::D3);
    let session = session_of(&store, "s", 250);
    assert_eq!(texts(&store, &session).len(), 250);
    close(&store);
    let store = dotfile();
    assert_eq!(texts(&store, &session).len(), 250);
    close(&store);
    // Where memory can be shared it gets its log back.
    let store = open(&path);
    assert!(store.info().engine.contains("write-ahead log"), "{}", store.info().engine);
    assert_eq!(texts(&store, &session).len(), 250);
    close(&store);
    // And loses it again where it cannot.
    let store = dotfile();
    assert!(store.info().engine.contains("rollback journal"), "{}", store.info().engine);
    assert_eq!(texts(&store, &session).len(), 250);
    close(&store);
}

#[test]
fn opening_works_on_any_executor() {
    let (_folder, path) = fresh();
    // No runtime of any kind: a plain poll loop.
    struct Thread(std::thread::Thread);
    impl std::task::Wake for Thread {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Thread(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut opening = Box::pin(SqliteStore::open(&path));
    let store = loop {
        if let std::task::Poll::Ready(store) = opening.as_mut().poll(&mut context) {
            break store.unwrap();
        }
        std::thread::park_timeout(std::time::Duration::from_secs(1));
    };
    close(&store);
}
