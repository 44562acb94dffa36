//! Chores between commits: purges, expired requests, lock files, the log, a full disk.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use rusqlite::Connection;
use turnkeep_core::commit::{Commit, LeaseGrant, Op, Request, RequestId, Takeover};
use turnkeep_core::model::{LeaseKey, LeaseName, LeasePurpose, Liveness};
use turnkeep_core::query::SessionQuery;
use turnkeep_core::{Clock, ErrorKind, LeaseToken, Maintenance, ManualClock, Store, Timestamp};
use turnkeep_sqlite::{SqliteOptions, SqliteStore, Synchronous};

use crate::support::{
    append, block_on, close, commit, create, fresh, life, message, open, session_of, start, texts, workspace,
};

fn count(path: &Path, text: &str) -> i64 {
    Connection::open(path).unwrap().query_row(text, [], |row| row.get(0)).unwrap()
}

/// Rows of every table that belongs to sessions.
fn rows(path: &Path) -> i64 {
    [
        "sessions",
        "session_meta",
        "entries",
        "segments",
        "runs",
        "streams",
        "events",
        "records",
        "ordinals",
        "leases",
        "requests",
    ]
    .into_iter()
    .map(|table| count(path, &format!("SELECT count(*) FROM {table}")))
    .sum()
}

fn acquire(store: &SqliteStore, session: &turnkeep_core::SessionRef) -> Op {
    Op::AcquireLease(LeaseGrant {
        name: LeaseName::Session(session.clone()),
        owner: store.info().owner,
        token: LeaseToken::from_bytes([1; 16]),
        purpose: LeasePurpose::Execution,
        ttl_ms: 60_000,
        takeover: Takeover::IfExpired,
    })
}

#[test]
fn case_52_a_deleted_session_is_purged_in_slices_without_residue() {
    let (_folder, path) = fresh();
    let options = SqliteOptions::new(&path).synchronous(Synchronous::Off);
    let store = options.open_blocking().unwrap();
    let empty = rows(&path);
    let session = session_of(&store, "s", 5_000);
    let stream = turnkeep_core::id::StreamName::new("host").unwrap();
    let event = turnkeep_core::commit::NewEvent {
        kind: turnkeep_core::id::EventKind::new("e").unwrap(),
        run: None,
        at: turnkeep_core::Timestamp::from_millis(1),
        payload: turnkeep_core::Payload::empty(),
    };
    let events = vec![event; 1_500];
    commit(&store, [Op::AppendEvents { session: session.clone(), stream, expect_next: None, events }]);
    commit(&store, [acquire(&store, &session), start(&session, "r")]);
    let request = Request::in_session(RequestId::host("h").unwrap(), session.clone());
    let patch = turnkeep_core::commit::SessionPatch {
        meta: Some(Some(turnkeep_core::Payload::empty())),
        ..Default::default()
    };
    let with_request = Commit::new(workspace()).request(request);
    let with_request = with_request.op(Op::PatchSession { session: session.clone(), patch });
    block_on(store.commit(with_request)).unwrap();
    let kept = session_of(&store, "kept", 10);
    commit(&store, [Op::DeleteSession { session: session.clone(), force: true }]);
    // Gone at once, while its rows are still there; and the id is free.
    assert_eq!(block_on(store.sessions(&SessionQuery::new(workspace()))).unwrap().items.len(), 1);
    let again = session_of(&store, "s", 1);
    assert_eq!(texts(&store, &again), ["message 1"]);
    let report = block_on(store.purge()).unwrap();
    assert_eq!(count(&path, "SELECT count(*) FROM sessions WHERE state = 'deleted'"), 0);
    commit(&store, [Op::DeleteSession { session: again, force: false }]);
    block_on(store.purge()).unwrap();
    assert_eq!(texts(&store, &kept).len(), 10);
    commit(&store, [Op::DeleteSession { session: kept, force: false }]);
    block_on(store.purge()).unwrap();
    assert_eq!(rows(&path), empty, "purged {report:?}");
    assert!(block_on(store.verify()).unwrap().damage.is_empty());
    close(&store);
}

/// Deletes every session as a process does that dies right after that commit. `meanwhile` is done before it.
fn delete_and_die(path: &Path, meanwhile: impl FnOnce()) {
    let other = Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; UPDATE sessions SET state = 'deleted'").unwrap();
    meanwhile();
    other.execute_batch("COMMIT").unwrap();
}

/// Waits until this query counts so many; the writer works beside.
fn counts_in_time(path: &Path, text: &str, expected: i64) -> bool {
    (0..1000).any(|_| {
        let there = count(path, text) == expected;
        if !there {
            std::thread::sleep(Duration::from_millis(10));
        }
        there
    })
}

#[test]
fn a_purge_that_a_process_left_is_taken_up_by_the_next() {
    const ENTRIES: &str = "SELECT count(*) FROM entries";
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 200);
    close(&store);
    delete_and_die(&path, || ());
    let store = open(&path);
    assert!(
        block_on(store.session(&turnkeep_core::SessionKey { workspace: workspace(), id: session.id }))
            .unwrap()
            .is_none()
    );
    // Any commit brings the writer to its chores; nobody calls the purge.
    commit(&store, [create(&life("t"))]);
    assert!(counts_in_time(&path, ENTRIES, 0));
    // And so it is when the other one dies while this store is open and has nothing to purge.
    session_of(&store, "u", 200);
    block_on(store.purge()).unwrap();
    delete_and_die(&path, || ());
    commit(&store, [create(&life("v"))]);
    assert!(counts_in_time(&path, ENTRIES, 0));
    close(&store);
}

#[test]
fn a_purge_waits_for_another_program_that_writes() {
    let (_folder, path) = fresh();
    let store = open(&path);
    session_of(&store, "s", 3);
    let begun = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            delete_and_die(&path, || {
                begun.wait();
                std::thread::sleep(Duration::from_millis(300));
            });
        });
        begun.wait();
        block_on(store.purge()).unwrap();
    });
    assert_eq!(count(&path, "SELECT count(*) FROM sessions"), 0);
    close(&store);
}

#[test]
fn expired_requests_go_and_others_stay() {
    let (_folder, path) = fresh();
    let clock = ManualClock::default();
    let open = || SqliteOptions::new(&path).clock(Arc::new(clock.clone())).open_blocking().unwrap();
    let store = open();
    let session = session_of(&store, "s", 1);
    let patched = |id: RequestId| {
        let request = Request::in_session(id, session.clone());
        let op = Op::PatchSession { session: session.clone(), patch: Default::default() };
        block_on(store.commit(Commit::new(workspace()).request(request).op(op))).unwrap();
    };
    patched(RequestId::host("mine").unwrap());
    for n in 0..20 {
        patched(RequestId::generated(clock.now(), [n; 10]));
    }
    clock.advance_ms(4 * 24 * 60 * 60 * 1000);
    patched(RequestId::generated(clock.now(), [77; 10]));
    close(&store);
    // More than one slice removes, and more scopes than one slice looks at, before and behind.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN").unwrap();
    let receipt = |skey: i64, id: RequestId| {
        const COPY: &str = "INSERT INTO requests SELECT ?1, wkey, ?2, NULL, fingerprint, 0, 0, receipt
             FROM requests WHERE id = 'h:mine' LIMIT 1";
        assert_eq!(other.execute(COPY, (skey, id.to_string())).unwrap(), 1);
    };
    for n in 0_i64..2_500 {
        let mut random = [1; 10];
        random[2..].copy_from_slice(&n.to_be_bytes());
        receipt(1_000_000 + n / 1_250, RequestId::generated(Timestamp::from_millis(1), random));
        receipt(2_000_000 + n, RequestId::host("theirs").unwrap());
    }
    receipt(3_000_000, RequestId::generated(Timestamp::from_millis(1), [3; 10]));
    other.execute_batch("COMMIT").unwrap();
    drop(other);
    clock.advance_ms(4 * 24 * 60 * 60 * 1000);
    let store = open();
    commit(&store, [create(&life("t"))]);
    // The writer does it when nobody waits for it, and not any more once the store is closed.
    let gone = counts_in_time(&path, "SELECT count(*) FROM requests WHERE id LIKE 'g:%'", 1);
    close(&store);
    assert!(gone);
    assert_eq!(count(&path, "SELECT count(*) FROM requests WHERE id LIKE 'h:%'"), 2_501);
}

#[test]
fn a_dead_owner_is_known_at_once_and_its_file_goes_when_no_lease_names_it() {
    let (folder, path) = fresh();
    let files = || fs::read_dir(folder.path().join("state.sqlite3.owners")).unwrap().count();
    let store = open(&path);
    let session = session_of(&store, "s", 1);
    commit(&store, [acquire(&store, &session)]);
    let key = LeaseKey { workspace: workspace(), name: LeaseName::Session(session.clone()) };
    let seen_by = |store: &SqliteStore| block_on(store.lease(&key)).unwrap().unwrap().liveness;
    assert_eq!(seen_by(&store), Liveness::Alive);
    let other = open(&path);
    assert_eq!(seen_by(&other), Liveness::Alive);
    close(&store);
    assert_eq!(seen_by(&other), Liveness::Dead);
    close(&other);
    let third = open(&path);
    // Whoever takes the lease over frees the file of the one before.
    let takeover = Op::AcquireLease(LeaseGrant {
        name: LeaseName::Session(session.clone()),
        owner: third.info().owner,
        token: LeaseToken::from_bytes([2; 16]),
        purpose: LeasePurpose::Recovery,
        ttl_ms: 60_000,
        takeover: Takeover::IfOwnerDead,
    });
    commit(&third, [takeover]);
    close(&third);
    assert_eq!(files(), 1, "the holder's, which is dead but named");
    let last = open(&path);
    assert_eq!(files(), 2);
    commit(&last, [Op::DeleteSession { session, force: true }]);
    block_on(last.purge()).unwrap();
    close(&last);
    assert_eq!(files(), 0);
}

#[test]
fn the_log_stays_small_under_steady_commits() {
    let (folder, path) = fresh();
    let store = SqliteOptions::new(&path).synchronous(Synchronous::Off).open_blocking().unwrap();
    let session = session_of(&store, "s", 1);
    let large = "x".repeat(20_000);
    for _ in 0..1_000 {
        commit(&store, [append(&session, vec![message(&large)])]);
    }
    let log = fs::metadata(folder.path().join("state.sqlite3-wal")).unwrap().len();
    assert!(log < 3 * 1000 * 8192, "the log has {log} bytes after 40 MB of commits");
    close(&store);
}

#[test]
fn case_11_a_full_store_says_so_keeps_what_it_has_and_goes_on_when_there_is_room() {
    let (_folder, path) = fresh();
    let store = SqliteOptions::new(&path).max_bytes(2 * 1024 * 1024).open_blocking().unwrap();
    let session = session_of(&store, "s", 1);
    let large = "x".repeat(100_000);
    let mut kept = 1;
    let refused = loop {
        let commit = Commit::new(workspace()).op(append(&session, vec![message(&large)]));
        match block_on(store.commit(commit)) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 100, "the cap does not hold");
    };
    assert_eq!(refused.kind(), ErrorKind::Full);
    assert!(refused.is_retryable());
    assert_eq!(texts(&store, &session).len(), kept);
    close(&store);
    let store = open(&path);
    commit(&store, [append(&session, vec![message(&large)])]);
    assert_eq!(texts(&store, &session).len(), kept + 1);
    assert!(block_on(store.verify()).unwrap().damage.is_empty());
    close(&store);
}
