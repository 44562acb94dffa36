//! Verify, backup, compact, counts.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use turnkeep_core::commit::Op;
use turnkeep_core::query::{EntryQuery, PathTo, RowQuery};
use turnkeep_core::{ErrorKind, Maintenance, Order, Store};
use turnkeep_sqlite::SqliteStore;

use crate::support::{
    append, block_on, close, commit, create, fresh, life, message, open, session_of, start, texts, workspace,
};

/// Changes the tables behind the store's back.
fn tamper(path: &Path, text: &str) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    conn.execute_batch(text).unwrap();
}

fn damage(store: &SqliteStore) -> Vec<String> {
    let report = block_on(store.verify()).unwrap();
    report.damage.into_iter().map(|damage| format!("{} {}", damage.place, damage.what)).collect()
}

#[test]
fn verify_finds_nothing_in_a_healthy_store() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 30);
    commit(&store, [start(&session, "r")]);
    let mut branch = message("branch");
    branch.parent = turnkeep_core::commit::Parent::Number(turnkeep_core::EntryNo::new(7).unwrap());
    let mut label = message("label");
    label.advance_leaf = false;
    commit(&store, [append(&session, vec![branch, label])]);
    let report = block_on(store.verify()).unwrap();
    assert_eq!((report.sessions, report.entries), (1, 32));
    assert_eq!(report.damage, []);
    close(&store);
}

#[test]
fn verify_names_what_is_damaged() {
    for (tampering, finding) in [
        ("DELETE FROM entries WHERE rid & 4294967295 = 5", "session s has other entries than its head says"),
        ("UPDATE sessions SET messages = 4", "session s counts other messages than it has"),
        ("UPDATE sessions SET active_run = NULL", "session s names another active run than it has"),
        ("UPDATE sessions SET runs = 0", "session s has runs beyond its count"),
        ("UPDATE sessions SET leaf = 99", "session s has a leaf or a tip that lies on no path"),
        ("UPDATE sessions SET leaf_segment = 2", "has a leaf or a tip in another segment"),
        ("UPDATE segments SET first = 2", "segment 2 begins at an entry that does not fit it"),
        ("UPDATE segments SET parent_segment = 1", "segment 1 begins at an entry that does not fit it"),
        (
            "UPDATE entries SET parent = 9 WHERE rid & 4294967295 = 5",
            "entry 5 has a parent that is not older",
        ),
        ("UPDATE entries SET payload = '{' WHERE rid & 4294967295 = 5", "entry 5 holds a payload"),
        ("UPDATE sessions SET cwd = CAST(x'ff' AS TEXT)", "session s, its row cannot be read"),
        ("UPDATE runs SET source = CAST(x'ff' AS TEXT)", "session s, run r cannot be read"),
        (
            "UPDATE entries SET text = CAST(x'ff' AS TEXT) WHERE rid & 4294967295 = 5",
            "session s, entry 5 cannot be read",
        ),
        ("UPDATE streams SET head = 9", "stream host has other events"),
        ("DELETE FROM sessions", "entries of session key 1 belongs to no session"),
        ("UPDATE records SET ordinal = 9", "record host k has an ordinal beyond"),
        ("UPDATE records SET owner = 9", "names a row of sessions that is not there"),
    ] {
        let (_folder, path) = fresh();
        let store = open(&path);
        let session = session_of(&store, "s", 10);
        let event = turnkeep_core::commit::NewEvent {
            kind: turnkeep_core::id::EventKind::new("e").unwrap(),
            run: None,
            at: turnkeep_core::Timestamp::from_millis(1),
            payload: turnkeep_core::Payload::empty(),
        };
        let stream = turnkeep_core::id::StreamName::new("host").unwrap();
        let put = turnkeep_core::commit::Put {
            collection: turnkeep_core::id::Collection::new("host").unwrap(),
            key: turnkeep_core::id::RecordKey::new("k").unwrap(),
            owner: Some(session.clone()),
            status: None,
            expect: turnkeep_core::Expect::Any,
            payload: turnkeep_core::Payload::empty(),
        };
        commit(
            &store,
            [
                start(&session, "r"),
                Op::AppendEvents { session, stream, expect_next: None, events: vec![event] },
                Op::PutRecord(put),
            ],
        );
        assert_eq!(damage(&store), [""; 0]);
        tamper(&path, tampering);
        let found = damage(&store);
        assert!(found.iter().any(|found| found.contains(finding)), "{tampering}: {found:?}");
        close(&store);
    }
}

#[test]
fn a_path_that_leads_back_to_itself_is_damage_and_not_an_endless_walk() {
    for parent in ["first", "first + 1", "first + 9"] {
        let (_folder, path) = fresh();
        let store = open(&path);
        let session = session_of(&store, "s", 12);
        let mut query = EntryQuery::new(workspace(), session);
        query.path = Some(PathTo::Leaf);
        assert_eq!(block_on(store.entries(&query)).unwrap().items.len(), 12);
        tamper(&path, &format!("UPDATE segments SET parent = {parent}"));
        for order in [Order::Ascending, Order::Descending] {
            query.order = order;
            let refused = block_on(store.entries(&query)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "parent {parent}: {refused}");
        }
        close(&store);
    }
}

#[test]
fn verify_reports_broken_pages_and_the_rest_stays_readable() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 5);
    let hurt = session_of(&store, "hurt", 2_000);
    close(&store);
    let mut bytes = fs::read(&path).unwrap();
    // Far behind the first session, among the entries of the second.
    let at = (bytes.len() / 8192 * 3 / 4) * 8192;
    bytes[at..at + 8].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    let store = open(&path);
    let found = damage(&store);
    assert!(found.iter().any(|found| found.starts_with("pages of table entries ")), "{found:?}");
    assert!(found.iter().any(|found| found.starts_with("session hurt, entries after ")), "{found:?}");
    assert!(!found.iter().any(|found| found.contains("session s")), "{found:?}");
    assert_eq!(texts(&store, &session).len(), 5);
    let mut query = turnkeep_core::query::EntryQuery::new(workspace(), hurt);
    query.limit = 10_000;
    assert_eq!(block_on(store.entries(&query)).unwrap_err().kind(), ErrorKind::Corrupt);
    drop(store);
}

#[test]
fn case_57_a_backup_beside_a_live_writer_holds_the_last_acknowledged_commit() {
    let (folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 300);
    commit(&store, [append(&session, vec![message("the last")])]);
    let to = folder.path().join("backup.sqlite3");
    block_on(store.backup(&to)).unwrap();
    commit(&store, [append(&session, vec![message("after the backup")])]);
    let copy = open(&to);
    let mut rows = RowQuery::session(workspace(), session.clone());
    rows.limit = 10_000;
    assert_eq!(texts(&copy, &session).last().unwrap(), "the last");
    let (ours, theirs) = (block_on(store.rows(&rows)).unwrap(), block_on(copy.rows(&rows)).unwrap());
    assert_eq!(ours.items[1..302], theirs.items[1..]);
    // It is a store like any other.
    commit(&copy, [append(&session, vec![message("in the copy")])]);
    assert_eq!(damage(&copy), [""; 0]);
    close(&copy);
    close(&store);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().map(|file| file.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("unfinished")), "{left:?}");
}

#[test]
fn a_backup_never_overwrites() {
    let (folder, path) = fresh();
    let store = open(&path);
    session_of(&store, "s", 1);
    let to = folder.path().join("mine.txt");
    fs::write(&to, "my own").unwrap();
    assert_eq!(block_on(store.backup(&to)).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(block_on(store.backup(&path)).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(block_on(store.backup(folder.path())).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&to).unwrap(), "my own");
    let nowhere = folder.path().join("no/such/folder/backup");
    assert_eq!(block_on(store.backup(&nowhere)).unwrap_err().kind(), ErrorKind::Io);
    close(&store);
}

#[test]
fn compacting_gives_space_back_and_keeps_everything() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let kept = session_of(&store, "kept", 20);
    let gone = session_of(&store, "gone", 3_000);
    commit(&store, [Op::DeleteSession { session: gone, force: false }]);
    block_on(store.purge()).unwrap();
    block_on(store.compact()).unwrap();
    let stats = block_on(store.stats()).unwrap();
    assert_eq!((stats.workspaces, stats.sessions, stats.entries, stats.purges), (1, 1, 20, 0));
    assert_eq!(stats.log_bytes, 0);
    assert!(fs::metadata(&path).unwrap().len() < 600_000, "{}", fs::metadata(&path).unwrap().len());
    assert_eq!(texts(&store, &kept).len(), 20);
    commit(&store, [append(&kept, vec![message("after")])]);
    assert_eq!(damage(&store), [""; 0]);
    close(&store);
}

#[test]
fn workspaces_that_have_something_are_listed() {
    let (_folder, path) = fresh();
    let store = open(&path);
    assert_eq!(block_on(store.workspaces()).unwrap(), []);
    let session = life("s");
    commit(&store, [create(&session)]);
    assert_eq!(block_on(store.workspaces()).unwrap(), [workspace()]);
    commit(&store, [Op::DeleteSession { session, force: false }]);
    assert_eq!(block_on(store.workspaces()).unwrap(), []);
    close(&store);
}
