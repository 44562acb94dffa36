//! Files with turned bytes: every answer is a row or an error, never a panic, and the store can be closed.

use std::fs;

use turnkeep_core::query::{EntryQuery, RowQuery, SessionQuery};
use turnkeep_core::{Error, ErrorKind, Maintenance, Store};
use turnkeep_redb::{RedbOptions, RedbStore};

use crate::support::{block_on, close, fresh, open, session_of, workspace};

/// Bytes that are turned, one at a time.
const FLIPS: usize = 240;
const PAGE: usize = 4096;

/// Where to turn bytes: at different places of all pages that hold anything, the header among them.
fn places(bytes: &[u8]) -> Vec<usize> {
    let used: Vec<usize> = (0..bytes.len() / PAGE)
        .filter(|page| bytes[page * PAGE..][..PAGE].iter().any(|byte| *byte != 0))
        .collect();
    // What the engine reads first of a page lies at its beginning; the rest anywhere.
    let within = [0, 1, 2, 4, 5, 8, 12, 40, 200, 777, 2_000, 4_090];
    (0..FLIPS).map(|flip| used[flip * used.len() / FLIPS] * PAGE + within[flip % within.len()]).collect()
}

/// Asks a store everything that reads, and answers whether all of it could be read.
fn reads(store: &RedbStore, answers: &mut Vec<Error>) -> bool {
    let mut whole = true;
    let mut note = |error: Error| {
        whole = false;
        answers.push(error);
    };
    match block_on(store.verify()) {
        Ok(report) if !report.damage.is_empty() => {
            note(Error::new(ErrorKind::Corrupt, "named by the verification"));
        }
        Ok(_) => {}
        Err(error) => note(error),
    }
    let _ = block_on(store.workspaces()).map_err(&mut note);
    let _ = block_on(store.stats()).map_err(&mut note);
    match block_on(store.sessions(&SessionQuery::new(workspace()))) {
        Err(error) => note(error),
        Ok(page) => {
            for row in page.items {
                let session = row.session_ref();
                let entries = EntryQuery::new(workspace(), session.clone());
                let _ = block_on(store.entries(&entries)).map_err(&mut note);
                let _ = block_on(store.rows(&RowQuery::session(workspace(), session))).map_err(&mut note);
            }
        }
    }
    whole
}

/// What a turned byte may be taken for: damage, a file of somebody else or of another version, or, where all pages were
/// not looked at first, a row that is not there because its key is another now.
fn is_of_the_file(kind: ErrorKind, damaged: bool) -> bool {
    use ErrorKind::{Corrupt, Invalid, NewerFormat, NotFound, OlderFormat};
    matches!(kind, Corrupt | Invalid | NewerFormat | OlderFormat) || (damaged && kind == NotFound)
}

#[test]
fn turned_bytes_anywhere_in_a_file_are_answered_as_damage_and_never_by_a_panic() {
    let (_folder, path) = fresh();
    let store = open(&path);
    for id in ["a", "b", "c"] {
        session_of(&store, id, 60);
    }
    close(&store);
    drop(store);
    let bytes = fs::read(&path).unwrap();
    let (mut refused, mut hurt, mut unhurt) = (0, 0, 0);
    for at in places(&bytes) {
        let mut turned = bytes.clone();
        turned[at] ^= 0x55;
        for damaged in [false, true] {
            fs::write(&path, &turned).unwrap();
            let mut answers = Vec::new();
            match block_on(RedbOptions::new(&path).damaged(damaged).open()) {
                Err(error) => {
                    answers.push(error);
                    refused += 1;
                }
                Ok(store) => {
                    *(if reads(&store, &mut answers) { &mut unhurt } else { &mut hurt }) += 1;
                    if !damaged {
                        answers.extend(block_on(store.compact()).err());
                    }
                    answers.extend(block_on(store.close()).err());
                }
            }
            for error in answers {
                assert!(is_of_the_file(error.kind(), damaged), "at {at}, {damaged}: {error:?}");
            }
        }
    }
    assert!(refused > 0 && hurt > 0 && unhurt > 0, "{refused}, {hurt}, {unhurt}");
}
