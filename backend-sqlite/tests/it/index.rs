//! The index for searches: written at rest, never in a commit, and nothing is left in it.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use turnkeep_core::commit::Op;
use turnkeep_core::query::SearchQuery;
use turnkeep_core::{Maintenance, Store};
use turnkeep_sqlite::{SqliteOptions, SqliteStore};

use crate::support::{
    append, block_on, close, commit, create, fresh, life, message, open, session_of, workspace,
};

fn count(path: &Path, what: &str) -> i64 {
    let conn = Connection::open(path).unwrap();
    conn.busy_timeout(Duration::from_secs(10)).unwrap();
    conn.query_row(&format!("SELECT count(*) FROM {what}"), [], |row| row.get(0)).unwrap()
}

fn wait_for(path: &Path, what: &str, rows: i64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while count(path, what) != rows {
        assert!(Instant::now() < deadline, "{what} has {} rows, not {rows}", count(path, what));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn hits(store: &SqliteStore, text: &str) -> usize {
    let query = SearchQuery { limit: 10_000, ..SearchQuery::new(workspace(), text) };
    block_on(store.search(&query)).unwrap().items.len()
}

#[test]
fn a_commit_never_writes_the_index_and_a_handle_at_rest_does() {
    let (_folder, path) = fresh();
    let store = SqliteOptions::new(&path).search_index(false).open_blocking().unwrap();
    session_of(&store, "s", 150);
    assert_eq!(hits(&store, "message"), 150);
    close(&store);
    assert_eq!(count(&path, "search_docsize"), 0);
    // Somebody who does index finds what others wrote, with no commit of its own.
    let store = open(&path);
    wait_for(&path, "search_docsize", 150);
    assert_eq!(hits(&store, "message"), 150);
    assert_eq!(hits(&store, "149"), 1);
    session_of(&store, "t", 30);
    assert_eq!(hits(&store, "message"), 180);
    wait_for(&path, "search_docsize", 180);
    assert_eq!(hits(&store, "message"), 180);
    assert_eq!(block_on(store.verify()).unwrap().damage, []);
    close(&store);
}

#[test]
fn what_another_handle_wrote_is_indexed_by_whoever_rests() {
    let (_folder, path) = fresh();
    let silent = SqliteOptions::new(&path).search_index(false).open_blocking().unwrap();
    let store = open(&path);
    let mine = life("mine");
    commit(&store, [create(&mine)]);
    session_of(&silent, "s", 70);
    // A commit of its own shows it that somebody else has written.
    commit(&store, [append(&mine, vec![message("one more message")])]);
    wait_for(&path, "search_docsize", 71);
    close(&silent);
    close(&store);
}

#[test]
fn a_program_that_never_rests_leaves_no_large_backlog() {
    let (_folder, path) = fresh();
    for round in 0..3 {
        let store = open(&path);
        session_of(&store, &format!("s{round}"), 100);
        close(&store);
    }
    assert_eq!(count(&path, "search_docsize"), 300);
    let store = open(&path);
    assert_eq!(hits(&store, "message 100"), 3);
    close(&store);
}

#[test]
fn case_52_a_purge_leaves_nothing_in_the_index() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let doomed = session_of(&store, "doomed", 2_300);
    session_of(&store, "kept", 70);
    wait_for(&path, "search_docsize", 2_370);
    commit(&store, [Op::DeleteSession { session: doomed, force: true }]);
    assert_eq!(hits(&store, "message"), 70, "gone with the commit, whatever the index has");
    block_on(store.purge()).unwrap();
    assert_eq!(count(&path, "search_docsize"), 70);
    assert_eq!(count(&path, "indexed"), 1);
    assert_eq!(hits(&store, "message"), 70);
    assert_eq!(block_on(store.verify()).unwrap().damage, []);
    close(&store);
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("INSERT INTO search (search) VALUES ('integrity-check')").unwrap();
}

#[test]
fn verify_names_what_the_index_has_and_the_store_has_not() {
    let (_folder, path) = fresh();
    let store = open(&path);
    session_of(&store, "s", 3);
    let other = Connection::open(&path).unwrap();
    other.busy_timeout(Duration::from_secs(10)).unwrap();
    other.execute_batch("INSERT INTO search (rowid, words) VALUES ((1 << 32) | 99, 'x')").unwrap();
    let found = block_on(store.verify()).unwrap().damage;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].what.contains("index for searches"), "{found:?}");
    // A search says nothing of it: what is not in the store is not found.
    assert_eq!(hits(&store, "x"), 0);
    other.execute_batch("DELETE FROM search WHERE rowid = ((1 << 32) | 99)").unwrap();
    close(&store);
}

#[test]
fn very_long_texts_are_indexed_and_found() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = life("s");
    let long: String = (0..300_000).map(|at| format!("w{at} ")).collect();
    commit(&store, [create(&session)]);
    for _ in 0..2 {
        commit(&store, [append(&session, vec![message(&long), message("a needle")])]);
    }
    assert_eq!((hits(&store, "w299999"), hits(&store, "needle")), (2, 2));
    wait_for(&path, "search_docsize", 4);
    assert_eq!((hits(&store, "w299999"), hits(&store, "needle")), (2, 2));
    close(&store);
}

#[test]
fn case_48_bytes_per_append_stay_flat_with_the_index() {
    const PART: usize = 1_000;
    let (_folder, path) = fresh();
    let session = life("s");
    let mut sizes = Vec::new();
    for part in 0..5 {
        let store = open(&path);
        if part == 0 {
            commit(&store, [create(&session)]);
        }
        for at in (0..PART).step_by(50) {
            let number = |at: usize| part * PART + at;
            // Words that come again and words that never do, as in a conversation.
            let text = |at: usize| {
                format!("message {} about {} {}", number(at), number(at) % 97, "the parser ".repeat(20))
            };
            commit(&store, [append(&session, (at..at + 50).map(|at| message(&text(at))).collect())]);
        }
        wait_for(&path, "search_docsize", i64::try_from((part + 1) * PART).unwrap());
        close(&store);
        sizes.push(std::fs::metadata(&path).unwrap().len());
    }
    // The index merges its parts now and then, so that single steps differ.
    let (earlier, later) = (sizes[2] - sizes[0], sizes[4] - sizes[2]);
    assert!(later * 2 < earlier * 3, "bytes after each further {PART} entries: {sizes:?}");
}
