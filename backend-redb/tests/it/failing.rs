//! What the writer answers when the file fails under it, and what is there afterwards.

use std::io;
use std::path::Path;

use turnkeep_core::commit::{Commit, Op};
use turnkeep_core::query::EntryQuery;
use turnkeep_core::{ErrorKind, Maintenance, SessionRef, Store};
use turnkeep_redb::{RedbOptions, RedbStore};

use crate::disk::{Call, Disk};
use crate::support::{append, block_on, close, commit, fresh, message, open, session_of, texts, workspace};

/// What saying a word answers.
fn say(store: &RedbStore, session: &SessionRef, word: &str) -> Result<(), ErrorKind> {
    let commit = Commit::new(workspace()).op(append(session, vec![message(word)]));
    block_on(store.commit(commit)).map(drop).map_err(|error| error.kind())
}

fn read(store: &RedbStore, session: &SessionRef) -> Result<usize, ErrorKind> {
    let page = block_on(store.entries(&EntryQuery::new(workspace(), session.clone())));
    page.map(|page| page.items.len()).map_err(|error| error.kind())
}

/// Closes a store whose disk may have failed, and opens it on one that works: it has these words, at most one that
/// nobody knows of, and goes on.
fn reopened(store: &RedbStore, path: &Path, session: &SessionRef, words: &[&str], in_doubt: Option<&str>) {
    let _ = block_on(store.close());
    let store = open(path);
    let mut there = texts(&store, session);
    if there.len() > words.len() {
        assert_eq!(there.pop().as_deref(), in_doubt, "a word that was refused is there");
    }
    assert_eq!(there, words);
    commit(&store, [append(session, vec![message("goes on")])]);
    assert_eq!(block_on(Maintenance::verify(&store)).unwrap().damage, []);
    close(&store);
}

/// Every read is one of the file.
fn without_cache(path: &Path, disk: &Disk) -> RedbStore {
    disk.under(RedbOptions::new(path).cache_bytes(0)).open_blocking().unwrap()
}

fn is_write(call: Call) -> bool {
    matches!(call, Call::Write(_))
}

const FAILURES: [(io::ErrorKind, ErrorKind); 3] = [
    (io::ErrorKind::StorageFull, ErrorKind::Full),
    (io::ErrorKind::Other, ErrorKind::Io),
    (io::ErrorKind::ReadOnlyFilesystem, ErrorKind::ReadOnly),
];

#[test]
fn a_commit_that_asked_for_no_sync_changed_nothing_and_the_store_goes_on() {
    for (failure, kind) in FAILURES {
        let (_folder, path) = fresh();
        let disk = Disk::default();
        let store = disk.open(&path);
        let session = session_of(&store, "s", 1);
        disk.fails_once(0, is_write, failure);
        assert_eq!(say(&store, &session, "refused"), Err(kind));
        disk.works();
        assert_eq!(read(&store, &session), Ok(1));
        assert_eq!(say(&store, &session, "said"), Ok(()));
        reopened(&store, &path, &session, &["message 1", "said"], None);
    }
}

#[test]
fn a_commit_that_fails_after_its_first_sync_leaves_its_outcome_open() {
    for which in [is_write, |call| call == Call::Sync] {
        let (_folder, path) = fresh();
        let disk = Disk::default();
        let store = disk.open(&path);
        let session = session_of(&store, "s", 1);
        let mut synced = false;
        disk.fails(move |call| {
            let fails = synced && which(call);
            synced |= call == Call::Sync;
            fails.then_some(io::ErrorKind::StorageFull)
        });
        assert_eq!(say(&store, &session, "in doubt"), Err(ErrorKind::CommitUnknown));
        disk.works();
        assert_eq!(say(&store, &session, "refused"), Err(ErrorKind::Poisoned));
        assert_eq!(block_on(store.purge()).unwrap_err().kind(), ErrorKind::Poisoned);
        reopened(&store, &path, &session, &["message 1"], Some("in doubt"));
    }
}

/// It grows for the rows of a commit, or for what the engine adds at the end.
#[test]
fn a_sync_that_fails_while_the_file_grows_leaves_the_outcome_open() {
    for size in [400, 800, 1_600, 3_200, 6_400, 12_800, 2_000_000] {
        let (_folder, path) = fresh();
        let disk = Disk::default();
        let store = disk.open(&path);
        let session = session_of(&store, "s", 0);
        let mut grown = false;
        disk.fails(move |call| {
            let fails = grown && call == Call::Sync;
            grown = call == Call::SetLen;
            fails.then_some(io::ErrorKind::Other)
        });
        let words = "w".repeat(size);
        let answers = (0..2_000).map(|_| say(&store, &session, &words));
        let answers: Vec<_> = answers
            .scan(true, |goes_on, answer| std::mem::replace(goes_on, answer.is_ok()).then_some(answer))
            .collect();
        assert_eq!(answers.last(), Some(&Err(ErrorKind::CommitUnknown)), "messages of {size} bytes");
        disk.works();
        assert_eq!(say(&store, &session, "refused"), Err(ErrorKind::Poisoned));
        reopened(&store, &path, &session, &vec![words.as_str(); answers.len() - 1], None);
    }
}

/// The file grows by its length at first, for which there is room; only what is written into it there is none for.
#[test]
fn a_file_that_grows_beyond_the_room_there_is_is_full_and_nothing_is_in_doubt() {
    for cache in [64 * 1024 * 1024, 0] {
        let (_folder, path) = fresh();
        let disk = Disk::default();
        let store = disk.under(RedbOptions::new(&path).cache_bytes(cache)).open_blocking().unwrap();
        let session = session_of(&store, "s", 0);
        let words = "words ".repeat(500);
        let (mut said, mut full) = (0, 0);
        while said < 300 && full < 6 {
            let mut grown = false;
            disk.fails(move |call| {
                grown |= call == Call::SetLen;
                (grown && is_write(call)).then_some(io::ErrorKind::StorageFull)
            });
            let answer = say(&store, &session, &words);
            disk.works();
            if answer.is_err() {
                assert_eq!(answer, Err(ErrorKind::Full));
                assert_eq!(say(&store, &session, &words), Ok(()), "there is room again");
                full += 1;
            }
            said += 1;
        }
        assert!(full > 0, "the file never grew");
        reopened(&store, &path, &session, &vec![words.as_str(); said], None);
    }
}

/// Without quick repair a commit has one phase: the file may show it although it was never synced.
#[test]
fn a_commit_in_one_phase_that_fails_leaves_its_outcome_open() {
    let (_folder, path) = fresh();
    let disk = Disk::default();
    let store = disk.under(RedbOptions::new(&path).quick_repair(false)).open_blocking().unwrap();
    let session = session_of(&store, "s", 1);
    disk.fails_once(0, is_write, io::ErrorKind::StorageFull);
    assert_eq!(say(&store, &session, "in doubt"), Err(ErrorKind::CommitUnknown));
    disk.works();
    assert_eq!(say(&store, &session, "refused"), Err(ErrorKind::Poisoned));
    reopened(&store, &path, &session, &["message 1"], Some("in doubt"));
}

/// The engine does nothing more after an error of the file; who reads must not notice.
#[test]
fn a_commit_that_fails_while_it_reads_changes_nothing_and_readers_go_on() {
    for (failure, kind) in FAILURES {
        let (_folder, path) = fresh();
        let disk = Disk::default();
        let store = without_cache(&path, &disk);
        let session = session_of(&store, "s", 1);
        disk.fails_once(0, |call| call == Call::Read, failure);
        assert_eq!(say(&store, &session, "refused"), Err(kind));
        disk.works();
        assert_eq!(read(&store, &session), Ok(1));
        assert_eq!(say(&store, &session, "said"), Ok(()));
        reopened(&store, &path, &session, &["message 1", "said"], None);
    }
}

#[test]
fn a_read_that_fails_does_not_end_writing_and_the_next_commit_lets_readers_go_on() {
    let (_folder, path) = fresh();
    let disk = Disk::default();
    let store = without_cache(&path, &disk);
    let session = session_of(&store, "s", 1);
    disk.fails_once(0, |call| call == Call::Read, io::ErrorKind::Other);
    assert_eq!(read(&store, &session), Err(ErrorKind::Io));
    assert_eq!(say(&store, &session, "said"), Ok(()));
    assert_eq!(read(&store, &session), Ok(2));
    reopened(&store, &path, &session, &["message 1", "said"], None);
}

#[test]
fn an_engine_that_does_not_open_anew_is_tried_again_by_the_next_use() {
    let (_folder, path) = fresh();
    let disk = Disk::default();
    let store = without_cache(&path, &disk);
    let session = session_of(&store, "s", 1);
    disk.fails(|call| (call == Call::Read).then_some(io::ErrorKind::Other));
    assert_eq!(say(&store, &session, "refused"), Err(ErrorKind::Io));
    assert_eq!(read(&store, &session), Err(ErrorKind::Io), "why it does not open");
    assert_eq!(say(&store, &session, "refused"), Err(ErrorKind::Io), "why it does not open");
    disk.works();
    assert_eq!(read(&store, &session), Ok(1));
    assert_eq!(say(&store, &session, "said"), Ok(()));
    reopened(&store, &path, &session, &["message 1", "said"], None);
}

/// What the engine wrote while it opened may be lost with the power, so nothing may be built on it.
#[test]
fn a_sync_that_fails_while_the_engine_opens_anew_ends_writing() {
    let (_folder, path) = fresh();
    let disk = Disk::default();
    let store = disk.open(&path);
    let session = session_of(&store, "s", 1);
    let mut written = false;
    disk.fails(move |call| match call {
        Call::Write(_) if !written => {
            written = true;
            Some(io::ErrorKind::StorageFull)
        }
        Call::Sync => Some(io::ErrorKind::Other),
        _ => None,
    });
    assert_eq!(say(&store, &session, "refused"), Err(ErrorKind::Full));
    disk.works();
    for _ in 0..2 {
        assert_eq!(say(&store, &session, "refused"), Err(ErrorKind::Poisoned));
        assert_eq!(read(&store, &session), Err(ErrorKind::Poisoned));
    }
    reopened(&store, &path, &session, &["message 1"], None);
}

/// From the end of the next commit on, calls of a kind fail. The chores that follow it are the first to meet that.
fn fails_after_a_commit(disk: &Disk, fails: impl Fn(Call) -> Option<io::ErrorKind> + Send + 'static) {
    // A commit writes the head of the file twice, each time with a sync; one for a file that grew may come before.
    let (mut left, mut head) = (2, false);
    disk.fails(move |call| {
        if left == 0 {
            return fails(call);
        }
        if call == Call::Sync && std::mem::take(&mut head) {
            left -= 1;
        }
        head |= call == Call::Write(0);
        None
    });
}

#[test]
fn a_purge_without_room_is_refused_and_nothing_is_in_doubt() {
    let (_folder, path) = fresh();
    let disk = Disk::default();
    let store = disk.open(&path);
    let (kept, session) = (session_of(&store, "kept", 0), session_of(&store, "s", 50));
    fails_after_a_commit(&disk, |call| is_write(call).then_some(io::ErrorKind::StorageFull));
    commit(&store, [Op::DeleteSession { session, force: false }]);
    for _ in 0..2 {
        assert_eq!(block_on(store.purge()).unwrap_err().kind(), ErrorKind::Full);
        assert_eq!(say(&store, &kept, "refused"), Err(ErrorKind::Full));
    }
    disk.works();
    block_on(store.purge()).unwrap();
    assert_eq!(block_on(store.stats()).unwrap().purges, 0);
    reopened(&store, &path, &kept, &[], None);
}

#[test]
fn a_purge_whose_sync_fails_ends_writing() {
    let (_folder, path) = fresh();
    let disk = Disk::default();
    let store = disk.open(&path);
    let (kept, session) = (session_of(&store, "kept", 0), session_of(&store, "s", 50));
    fails_after_a_commit(&disk, |call| (call == Call::Sync).then_some(io::ErrorKind::StorageFull));
    commit(&store, [Op::DeleteSession { session, force: false }]);
    // Whether it comes by itself or is asked for.
    assert_eq!(block_on(store.purge()).unwrap_err().kind(), ErrorKind::Poisoned);
    disk.works();
    assert_eq!(say(&store, &kept, "refused"), Err(ErrorKind::Poisoned));
    reopened(&store, &path, &kept, &[], None);
}

#[test]
fn a_purge_with_nothing_to_do_costs_no_sync() {
    let (_folder, path) = fresh();
    let disk = Disk::default();
    let store = disk.open(&path);
    let session = session_of(&store, "s", 50);
    commit(&store, [Op::DeleteSession { session, force: false }]);
    block_on(store.purge()).unwrap();
    let syncs = disk.syncs();
    for _ in 0..3 {
        assert_eq!(block_on(store.purge()).unwrap().rows, 0);
    }
    assert_eq!(disk.syncs(), syncs);
    close(&store);
}
