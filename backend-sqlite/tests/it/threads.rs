//! Several handles, many threads, and futures that nobody waits for.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};

use turnkeep_core::query::SessionQuery;
use turnkeep_core::{Commit, ErrorKind, Store};
use turnkeep_sqlite::SqliteStore;

use crate::support::{
    append, block_on, close, commit, create, fresh, life, message, open, session_of, texts, workspace,
};

/// Open files of this process that lie in a folder.
fn open_files(folder: &Path) -> usize {
    let folder = fs::canonicalize(folder).unwrap();
    let files = fs::read_dir("/proc/self/fd").unwrap();
    files
        .filter(|file| {
            let target = file.as_ref().ok().and_then(|file| fs::read_link(file.path()).ok());
            target.is_some_and(|target| target.starts_with(&folder))
        })
        .count()
}

#[test]
fn case_29_sixteen_openers_of_a_fresh_file_all_succeed() {
    for _ in 0..20 {
        let (_folder, path) = fresh();
        let start = Arc::new(Barrier::new(16));
        let openers: Vec<_> = (0..16)
            .map(|n| {
                let (path, start) = (path.clone(), Arc::clone(&start));
                std::thread::spawn(move || {
                    start.wait();
                    let store = SqliteStore::open_blocking(&path).unwrap();
                    commit(&store, [create(&life(&format!("s{n:02}")))]);
                    store
                })
            })
            .collect();
        let stores: Vec<_> = openers.into_iter().map(|opener| opener.join().unwrap()).collect();
        for store in &stores {
            let page = block_on(store.sessions(&SessionQuery::new(workspace()))).unwrap();
            assert_eq!(page.items.len(), 16, "one schema, everybody's session in it");
        }
        stores.iter().for_each(close);
    }
}

#[test]
fn two_handles_see_each_others_commits_and_never_reuse_a_number() {
    let (_folder, path) = fresh();
    let (a, b) = (open(&path), open(&path));
    let session = session_of(&a, "s", 1);
    for n in 2..40 {
        let store = if n % 2 == 0 { &b } else { &a };
        let receipt = commit(store, [append(&session, vec![message(&format!("message {n}"))])]);
        assert_eq!(receipt.entries(0).map(|number| number.get()).collect::<Vec<_>>(), [n]);
    }
    assert_eq!(texts(&a, &session), texts(&b, &session));
    assert_eq!(texts(&a, &session).len(), 39);
    close(&a);
    close(&b);
}

#[test]
fn case_32_a_closed_store_leaves_no_open_file() {
    let (folder, path) = fresh();
    for _ in 0..20 {
        let store = open(&path);
        session_of(&store, &format!("s{}", open_files(folder.path())), 1);
        close(&store);
        assert_eq!(open_files(folder.path()), 0);
        fs::remove_dir_all(folder.path().join("state.sqlite3.owners")).unwrap();
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_dropped_store_lets_go_of_its_files() {
    let (folder, path) = fresh();
    let store = open(&path);
    session_of(&store, "s", 1);
    drop(store);
    // Its threads end by themselves; how soon is nobody's promise.
    for _ in 0..1000 {
        if open_files(folder.path()) == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the files are still open");
}

#[test]
fn a_closed_store_answers_closed_and_closing_again_is_harmless() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 1);
    close(&store);
    close(&store);
    let commit = Commit::new(workspace()).op(append(&session, vec![message("late")]));
    assert_eq!(block_on(store.commit(commit)).unwrap_err().kind(), ErrorKind::Closed);
    let sessions = block_on(store.sessions(&SessionQuery::new(workspace())));
    assert_eq!(sessions.unwrap_err().kind(), ErrorKind::Closed);
    let chores = store.maintenance().unwrap();
    assert_eq!(block_on(chores.verify()).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(block_on(chores.purge()).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(block_on(chores.stats()).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_commit_and_a_read_return_to_the_executor_at_once() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 1);
    // Somebody else holds the lock, so the commit cannot be done within one poll; it must not wait in there either.
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let commit = Commit::new(workspace()).op(append(&session, vec![message("while locked")]));
    let mut commit = store.commit(commit);
    assert!(matches!(commit.as_mut().poll(&mut context), Poll::Pending));
    other.execute_batch("COMMIT").unwrap();
    block_on(commit).unwrap();
    assert_eq!(texts(&store, &session).len(), 2);
    close(&store);
}

#[test]
fn a_dropped_commit_is_whole_or_absent_and_the_store_goes_on() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 1);
    let mut context = Context::from_waker(Waker::noop());
    for n in 0..50 {
        let pair = vec![message(&format!("{n} call")), message(&format!("{n} result"))];
        let mut commit = store.commit(Commit::new(workspace()).op(append(&session, pair)));
        for _ in 0..n % 3 {
            let _ = commit.as_mut().poll(&mut context);
        }
        drop(commit);
    }
    commit(&store, [append(&session, vec![message("end")])]);
    let texts = texts(&store, &session);
    let pairs = texts.strip_suffix(&["end".to_owned()]).unwrap().get(1..).unwrap().chunks(2);
    for pair in pairs {
        let call = pair[0].strip_suffix(" call").unwrap();
        assert_eq!(pair[1], format!("{call} result"));
    }
    close(&store);
}
