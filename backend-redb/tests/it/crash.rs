//! Stopped in the middle: killed, or without room.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::{Arc, Mutex};

use turnkeep_core::commit::Commit;
use turnkeep_core::{ErrorKind, Maintenance, Store};
use turnkeep_redb::RedbOptions;

use crate::disk::{Call, Disk};
use crate::support::{
    Other, again, append, block_on, close, commit, find, fresh, message, open, role, session_of, tell, texts,
    workspace,
};

/// Appends for ever, and tells of each append that was acknowledged.
fn write_until_killed(path: &Path, quick_repair: bool) {
    let store = RedbOptions::new(path).quick_repair(quick_repair).open_blocking().unwrap();
    let session = session_of(&store, "s", 0);
    for number in 1..100_000 {
        commit(&store, [append(&session, vec![message(&format!("{number}"))])]);
        tell(number);
    }
}

/// Lets another process write, kills it, and answers the last append that it was told of.
fn killed(test: &str, role: &str, path: &Path) -> usize {
    let mut other = Other(again(test, role, path).spawn().unwrap());
    let said = BufReader::new(other.0.stdout.take().unwrap());
    let numbers = said.lines().map_while(Result::ok).filter_map(|line| line.parse::<usize>().ok());
    let last = numbers.take_while(|number| *number < 150).last().unwrap();
    drop(other);
    last
}

fn holds_at_least(path: &Path, acknowledged: usize, options: RedbOptions) {
    let store = options.open_blocking().unwrap();
    let words = texts(&store, &find(&store, "s"));
    assert!(words.len() >= acknowledged, "{} of {acknowledged} acknowledged appends", words.len());
    assert!(words.iter().enumerate().all(|(at, words)| *words == (at + 1).to_string()), "{words:?}");
    assert_eq!(block_on(Maintenance::verify(&store)).unwrap().damage, []);
    close(&store);
    assert!(path.exists());
}

#[test]
fn case_53_reopening_after_a_kill_needs_no_repair() {
    if let Some((_, path)) = role() {
        return write_until_killed(&path, true);
    }
    let (_folder, path) = fresh();
    let acknowledged = killed("crash::case_53_reopening_after_a_kill_needs_no_repair", "write", &path);
    let options = RedbOptions::new(&path).on_repair(|_| panic!("a repair, which takes long on a large file"));
    holds_at_least(&path, acknowledged, options);
}

#[test]
fn case_53_a_repair_that_cannot_be_avoided_shows_its_progress() {
    if let Some((_, path)) = role() {
        return write_until_killed(&path, false);
    }
    let (_folder, path) = fresh();
    let test = "crash::case_53_a_repair_that_cannot_be_avoided_shows_its_progress";
    let acknowledged = killed(test, "write", &path);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&seen);
    holds_at_least(
        &path,
        acknowledged,
        RedbOptions::new(&path).on_repair(move |at| to.lock().unwrap().push(at)),
    );
    let seen = seen.lock().unwrap();
    assert!(
        seen.len() >= 2 && seen.is_sorted() && seen.iter().all(|at| (0.0..=1.0).contains(at)),
        "{seen:?}"
    );
}

#[test]
fn case_53_a_disk_that_fails_ends_in_typed_errors_and_loses_nothing_acknowledged() {
    for no_room in [true, false] {
        let (_folder, path) = fresh();
        let disk = Disk::default();
        let store = disk.open(&path);
        let session = session_of(&store, "s", 20);
        disk.fails(move |call| match call {
            // What the file system has a place for already, such as the head of the file, it can still overwrite.
            Call::Write(at) if no_room && at > 0 => Some(io::ErrorKind::StorageFull),
            Call::Sync if !no_room => Some(io::ErrorKind::Other),
            _ => None,
        });
        let lost = || Commit::new(workspace()).op(append(&session, vec![message("lost?")]));
        let kinds = || block_on(store.commit(lost())).map_err(|error| error.kind()).map(drop);
        if no_room {
            assert_eq!([kinds(), kinds()], [Err(ErrorKind::Full), Err(ErrorKind::Full)]);
            assert_eq!(
                texts(&store, &session).len(),
                20,
                "what was there is readable while the disk is full"
            );
            disk.works();
            assert_eq!(kinds(), Ok(()), "there is room again");
        } else {
            assert_eq!([kinds(), kinds()], [Err(ErrorKind::CommitUnknown), Err(ErrorKind::Poisoned)]);
            disk.works();
            assert_eq!(kinds(), Err(ErrorKind::Poisoned), "what is poisoned stays so");
        }
        // The close may say what failed; the file is given back all the same.
        let _ = block_on(store.close());
        let store = open(&path);
        let words = texts(&store, &session);
        assert!(words.len() == 20 || words.len() == 21, "{}", words.len());
        assert_eq!(words.first().map(String::as_str), Some("message 1"));
        commit(&store, [append(&session, vec![message("goes on")])]);
        assert_eq!(block_on(Maintenance::verify(&store)).unwrap().damage, []);
        close(&store);
    }
}
