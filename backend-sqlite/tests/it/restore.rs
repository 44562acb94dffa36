//! Putting a backup in the place of a store: whole or not at all, and never under anybody's feet.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use turnkeep_core::local::{FileAct, FileWatch, Files};
use turnkeep_core::{Error, ErrorKind, Maintenance};
use turnkeep_sqlite::SqliteOptions;

use crate::support::{append, block_on, close, commit, fresh, message, open, session_of, texts};

fn options(path: &Path) -> SqliteOptions {
    SqliteOptions::new(path).busy_timeout(Duration::from_millis(100))
}

fn refused(path: &Path, backup: &Path, keep: Option<&Path>) -> Error {
    options(path).restore_blocking(backup, keep).unwrap_err()
}

/// A store that went on after its backup: two messages, and a third.
fn store_and_backup(folder: &Path) -> (PathBuf, PathBuf) {
    let (path, backup) = (folder.join("state.sqlite3"), folder.join("backup"));
    let store = open(&path);
    let session = session_of(&store, "s", 2);
    block_on(store.backup(&backup)).unwrap();
    commit(&store, [append(&session, vec![message("after the backup")])]);
    close(&store);
    (path, backup)
}

/// How many messages the session of a store has; `None` when there is no store.
fn messages(path: &Path) -> Option<u32> {
    path.exists().then(|| {
        let conn = Connection::open(path).unwrap();
        conn.query_row("SELECT messages FROM sessions", [], |row| row.get(0)).unwrap()
    })
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".write.lock") && !name.ends_with(".owners"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_backup_becomes_a_store_where_none_is() {
    let (folder, path) = fresh();
    let (_, backup) = store_and_backup(folder.path());
    let to = folder.path().join("new/folder/state.sqlite3");
    options(&to).restore_blocking(&backup, None).unwrap();
    let store = open(&to);
    let session = block_on(turnkeep_core::Store::session(
        &store,
        &turnkeep_core::SessionKey {
            workspace: crate::support::workspace(),
            id: turnkeep_core::SessionId::new("s").unwrap(),
        },
    ));
    let session = session.unwrap().unwrap().session_ref();
    assert_eq!(texts(&store, &session), ["message 1", "message 2"]);
    commit(&store, [append(&session, vec![message("and on")])]);
    assert_eq!(block_on(store.verify()).unwrap().damage, []);
    close(&store);
    assert_eq!(messages(&path), Some(3), "the store it came from is as it was");
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&to).unwrap().permissions()) & 0o777,
        0o600
    );
}

#[test]
fn a_store_that_is_there_is_replaced_only_under_another_name() {
    let (folder, _) = fresh();
    let (path, backup) = store_and_backup(folder.path());
    assert_eq!(refused(&path, &backup, None).kind(), ErrorKind::AlreadyExists);
    let keep = folder.path().join("kept");
    fs::write(&keep, "mine").unwrap();
    assert_eq!(refused(&path, &backup, Some(&keep)).kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&keep).unwrap(), "mine");
    fs::remove_file(&keep).unwrap();
    assert_eq!(messages(&path), Some(3));
    options(&path).restore_blocking(&backup, Some(&keep)).unwrap();
    assert_eq!((messages(&path), messages(&keep)), (Some(2), Some(3)));
    assert_eq!(names(folder.path()), ["backup", "kept", "state.sqlite3"]);
    close(&open(&path));
    close(&open(&keep));
}

#[test]
fn a_log_that_was_left_behind_stays_with_its_store() {
    let (folder, _) = fresh();
    let (path, backup) = store_and_backup(folder.path());
    // A killed program leaves its last commits in the log.
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA wal_autocheckpoint = 0; UPDATE sessions SET messages = 7").unwrap();
    let log = PathBuf::from(format!("{}-wal", path.display()));
    let (left, copy) = (fs::read(&log).unwrap(), fs::read(&path).unwrap());
    drop(conn);
    fs::write(&path, copy).unwrap();
    fs::write(&log, left).unwrap();
    let keep = folder.path().join("kept");
    options(&path).restore_blocking(&backup, Some(&keep)).unwrap();
    assert_eq!((messages(&path), messages(&keep)), (Some(2), Some(7)));
}

#[test]
fn a_store_that_somebody_has_open_is_not_replaced() {
    let (folder, _) = fresh();
    let (path, backup) = store_and_backup(folder.path());
    let keep = folder.path().join("kept");
    let held = open(&path);
    assert_eq!(refused(&path, &backup, Some(&keep)).kind(), ErrorKind::Busy);
    close(&held);
    drop(held);
    // Nor one that another program looks at.
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("BEGIN; SELECT count(*) FROM sessions").unwrap();
    assert_eq!(refused(&path, &backup, Some(&keep)).kind(), ErrorKind::Busy);
    drop(conn);
    assert!(!keep.exists());
    assert_eq!(messages(&path), Some(3));
    options(&path).restore_blocking(&backup, Some(&keep)).unwrap();
}

#[test]
fn what_is_no_whole_backup_is_refused_and_nothing_is_changed() {
    let (folder, _) = fresh();
    let (path, backup) = store_and_backup(folder.path());
    let keep = folder.path().join("kept");
    let before = fs::read(&path).unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let whole = fs::read(&backup).unwrap();
    let mut flipped = whole.clone();
    let at = (0..whole.len() - 9).rev().find(|at| &whole[*at..*at + 9] == b"message 1").unwrap();
    flipped[at - 1] = b'{';
    for (bad, kind) in [
        (
            file(
                "words",
                b"my own words, much longer than any header of a database would ever be, over and over again",
            ),
            ErrorKind::Invalid,
        ),
        (file("half", &whole[..whole.len() / 2]), ErrorKind::Corrupt),
        (folder.path().to_owned(), ErrorKind::Invalid),
        (folder.path().join("nothing"), ErrorKind::Io),
    ] {
        let error = refused(&path, &bad, Some(&keep));
        assert_eq!(error.kind(), kind, "{}: {error}", bad.display());
    }
    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE mine (x)").unwrap();
    assert_eq!(refused(&path, &other, Some(&keep)).kind(), ErrorKind::Invalid);
    // A store in use is no backup: alone, its file may be stale.
    let used = folder.path().join("used.sqlite3");
    let store = open(&used);
    session_of(&store, "u", 1);
    let error = refused(&path, &used, Some(&keep));
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("log"), "{error}");
    close(&store);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(!keep.exists());
    assert!(!names(folder.path()).iter().any(|name| name.contains("unfinished")));
}

/// Lets so many acts pass; then the process is as good as dead.
#[derive(Debug)]
struct Dying(AtomicUsize, usize);

impl FileWatch for Dying {
    fn act(&self, _: FileAct<'_>, work: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        if self.0.fetch_add(1, Ordering::SeqCst) < self.1 { work() } else { Err(io::Error::other("dead")) }
    }
}

#[test]
fn a_restore_that_dies_anywhere_leaves_the_old_store_or_the_new_one() {
    let mut died = 0;
    for there in [true, false] {
        for n in 0..20 {
            let (folder, _) = fresh();
            let (path, backup) = store_and_backup(folder.path());
            let to = if there { path } else { folder.path().join("absent.sqlite3") };
            let keep = folder.path().join("kept");
            let dying = Files::watched(Arc::new(Dying(AtomicUsize::new(0), n)));
            if options(&to).files(dying).restore_blocking(&backup, Some(&keep)).is_ok() {
                break;
            }
            died += 1;
            let found = messages(&to);
            assert!(found == Some(2) || found == there.then_some(3), "died at {n}: {found:?}");
            // The next one ends it, whatever was left.
            let again = folder.path().join("kept again");
            options(&to).restore_blocking(&backup, Some(&again)).unwrap();
            assert_eq!(messages(&to), Some(2));
            let kept = [messages(&keep), messages(&again)];
            assert!(!there || kept.contains(&Some(3)), "died at {n}: {kept:?}");
        }
    }
    assert!(died >= 7, "create, sync, link, rename, and the same without a store: {died}");
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
    options(&path).restore_blocking(&backup, None).unwrap();
    assert_eq!((format(&path), format(&backup)), (1, 1), "it is put there as it is");
    let store = SqliteOptions::new(&path).open_blocking().unwrap();
    assert_eq!(block_on(store.verify()).unwrap().damage, []);
    close(&store);
    assert!(format(&path) > 1);
}
