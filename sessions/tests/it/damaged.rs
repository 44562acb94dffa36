//! A store that is opened to see what is left of it: read, also where it was cut off, and never written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnkeep_core::commit::{Commit, Op};
use turnkeep_core::id::{Collection, RecordKey};
use turnkeep_core::{ErrorKind, Payload, Store, Timestamp};
use turnkeep_memory::MemoryStore;
use turnkeep_redb::RedbOptions;
use turnkeep_sessions::Message;
use turnkeep_sessions::transfer::{SalvageOptions, quietly, salvage};
use turnkeep_sqlite::SqliteOptions;

use crate::both::{Scene, all_sessions, workspace};

/// Two sessions, of one and of 2,000 entries.
async fn talks(store: &Arc<dyn Store>) {
    let at = Timestamp::from_millis(1_764_600_000_000);
    let short = Scene::create(store, "short").await;
    short.append(vec![Message::user("hello").to_new_entry(at).unwrap()]).await;
    let long = Scene::create(store, "long").await;
    for chunk in 0..20 {
        let words = (0..100).map(|n| Message::user(format!("word {chunk} {n}")).to_new_entry(at).unwrap());
        long.append(words.collect()).await;
    }
}

fn write() -> Commit {
    Commit::new(workspace()).op(Op::PutRecord(turnkeep_core::commit::Put {
        collection: Collection::new("projects").unwrap(),
        key: RecordKey::new("p").unwrap(),
        owner: None,
        status: None,
        expect: turnkeep_core::commit::Expect::Any,
        payload: Payload::empty(),
    }))
}

/// The bytes of a store and of its log.
fn bytes(path: &Path) -> Vec<Option<Vec<u8>>> {
    let log = PathBuf::from(format!("{}-wal", path.display()));
    // An engine that reads a file in its journal makes a log that holds nothing.
    [path, &log].map(|path| fs::read(path).ok().filter(|bytes| !bytes.is_empty())).into()
}

/// Reads all that is left, is refused a write, and leaves every byte as it was.
async fn only_read(store: &dyn Store, path: &Path, before: &[Option<Vec<u8>>]) {
    assert_eq!(all_sessions(store).await.len(), 2);
    let refused = store.commit(write()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
    let chores = store.maintenance().unwrap();
    assert_eq!(chores.compact().await.unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(chores.verify().await.unwrap().damage, []);
    let to: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let saved = salvage(store, &*to, &SalvageOptions::default(), &mut quietly()).await.unwrap();
    assert_eq!((saved.sessions, saved.entries, saved.left_out.len()), (2, 2_001, 0));
    store.close().await.unwrap();
    assert!(bytes(path) == before, "what is opened as damaged is not written to");
}

#[tokio::test]
async fn a_store_that_lost_everything_is_said_to_be_empty_and_no_new_one_is_made_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    // Nothing at all, and a database of the engine without a table.
    fs::write(&path, "").unwrap();
    let said = |error: turnkeep_core::Error| (error.kind(), error.message().contains("is empty"));
    let error = RedbOptions::new(&path).damaged(true).open().await.unwrap_err();
    assert_eq!(said(error), (ErrorKind::Corrupt, true));
    for bare in [false, true] {
        if bare {
            rusqlite::Connection::open(&path).unwrap().execute_batch("VACUUM").unwrap();
        }
        let before = fs::read(&path).unwrap();
        assert_eq!(before.is_empty(), !bare);
        let error = SqliteOptions::new(&path).damaged(true).open().await.unwrap_err();
        assert_eq!(said(error), (ErrorKind::Corrupt, true));
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[tokio::test]
async fn a_sqlite_store_opened_as_damaged_is_only_read_and_keeps_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let (path, left) = (folder.path().join("state.sqlite3"), folder.path().join("left.sqlite3"));
    let store: Arc<dyn Store> = Arc::new(SqliteOptions::new(&path).open().await.unwrap());
    talks(&store).await;
    // As a kill leaves it, with commits in the log.
    for suffix in ["", "-wal"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        fs::copy(name(&path), name(&left)).unwrap();
    }
    let before = bytes(&left);
    assert!(before[1].as_ref().is_some_and(|log| !log.is_empty()));
    let from = SqliteOptions::new(&left).damaged(true).open().await.unwrap();
    only_read(&from, &left, &before).await;
    // A backup has no log, and gets none.
    let backup = folder.path().join("backup");
    store.maintenance().unwrap().backup(&backup).await.unwrap();
    let before = bytes(&backup);
    let from = SqliteOptions::new(&backup).damaged(true).open().await.unwrap();
    only_read(&from, &backup, &before).await;
}

#[tokio::test]
async fn a_redb_store_opened_as_damaged_is_only_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, left) = (folder.path().join("state.redb"), folder.path().join("left.redb"));
    let store: Arc<dyn Store> = Arc::new(RedbOptions::new(&path).open().await.unwrap());
    talks(&store).await;
    // As a kill leaves it, so that the engine has something to mend.
    fs::copy(&path, &left).unwrap();
    let before = bytes(&left);
    let from = RedbOptions::new(&left).damaged(true).open().await.unwrap();
    only_read(&from, &left, &before).await;
}

#[tokio::test]
async fn a_store_of_format_1_opened_as_damaged_is_saved_and_not_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.sqlite3");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harnesses/golden/sqlite-1.bytes");
    fs::copy(golden, &path).unwrap();
    let before = bytes(&path);
    let from = SqliteOptions::new(&path).damaged(true).open().await.unwrap();
    assert_eq!(turnkeep_core::Maintenance::verify(&from).await.unwrap().damage, []);
    let to: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let saved = salvage(&from, &*to, &SalvageOptions::default(), &mut quietly()).await.unwrap();
    assert!(saved.sessions > 0 && saved.entries > 0, "{saved:?}");
    assert_eq!(saved.left_out, []);
    from.close().await.unwrap();
    assert!(bytes(&path) == before);
}

#[tokio::test]
async fn of_a_file_that_was_cut_off_what_is_left_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.sqlite3");
    let store: Arc<dyn Store> = Arc::new(SqliteOptions::new(&path).open().await.unwrap());
    talks(&store).await;
    store.close().await.unwrap();
    let whole = fs::read(&path).unwrap();
    let pages = whole.len() / 8192;
    for cut in [(pages * 3 / 4) * 8192, (pages * 7 / 8) * 8192 + 1_000] {
        let path = folder.path().join(format!("cut-{cut}"));
        fs::write(&path, &whole[..cut]).unwrap();
        let before = bytes(&path);
        let refused = SqliteOptions::new(&path).open().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        let from = SqliteOptions::new(&path).damaged(true).open().await.unwrap();
        assert_ne!(turnkeep_core::Maintenance::verify(&from).await.unwrap().damage, []);
        let to: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let saved = salvage(&from, &*to, &SalvageOptions::default(), &mut quietly()).await.unwrap();
        assert!(saved.entries > 300, "cut at {cut} of {}: {saved:?}", whole.len());
        assert!(!saved.left_out.is_empty());
        assert_eq!(saved.entries + saved.stand_ins, 2_001);
        assert_eq!(to.maintenance().unwrap().verify().await.unwrap().damage, []);
        from.close().await.unwrap();
        assert!(bytes(&path) == before);
    }
}
