//! Room on the disk is used again.

use std::fs;

use turnkeep_core::commit::{Commit, NewRun, Op, Put, Request, RequestId};
use turnkeep_core::id::{Collection, EntryKind, RecordKey};
use turnkeep_core::model::{RunState, RunStates};
use turnkeep_core::query::EntryQuery;
use turnkeep_core::{Expect, Maintenance, Payload, RunId, SessionRef, Store};
use turnkeep_redb::RedbStore;

use crate::support::{append, block_on, close, commit, fresh, message, open, session_of, workspace};

fn overwrite(store: &RedbStore, rounds: usize) {
    let filler = "x".repeat(8_000);
    for round in 0..rounds {
        let put = Put {
            collection: Collection::new("c").unwrap(),
            key: RecordKey::new("k").unwrap(),
            owner: None,
            status: None,
            expect: Expect::Any,
            payload: Payload::from_value(&format!("{round} {filler}")).unwrap(),
        };
        block_on(store.commit(Commit::new(workspace()).op(Op::PutRecord(put)))).unwrap();
    }
}

#[test]
fn case_51_what_a_half_read_walk_and_a_dropped_backup_held_is_used_again() {
    let (folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 500);
    overwrite(&store, 100);
    let size = || fs::metadata(&path).unwrap().len();
    let before = size();
    let mut query = EntryQuery::new(workspace(), session);
    query.limit = 10;
    let first = block_on(store.entries(&query)).unwrap();
    // A backup that nobody waits for holds its snapshot until it is done.
    block_on(async {
        let copy = folder.path().join("copy.redb");
        let mut backup = store.backup(&copy);
        let waker = std::task::Context::from_waker(std::task::Waker::noop());
        let mut context = waker;
        let _ = backup.as_mut().poll(&mut context);
    });
    overwrite(&store, 1_000);
    // 1,000 rounds write 8 MB anew; only the backup can have kept some of it.
    let held = size();
    query.cursor = first.next;
    assert_eq!(block_on(store.entries(&query)).unwrap().items.len(), 10, "the walk goes on");
    drop(query);
    overwrite(&store, 1_000);
    let after = size();
    assert!(after <= held.max(before + 4 * 1024 * 1024), "before {before}, held {held}, after {after}");
    close(&store);
}

#[test]
fn compaction_gives_back_what_a_purge_left() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 3_000);
    let kept = session_of(&store, "kept", 10);
    commit(&store, [Op::DeleteSession { session, force: false }]);
    let report = block_on(store.purge()).unwrap();
    let again = block_on(store.purge()).unwrap();
    assert_eq!(again.rows, 0, "after {report:?}");
    let before = fs::metadata(&path).unwrap().len();
    block_on(store.compact()).unwrap();
    let after = fs::metadata(&path).unwrap().len();
    assert!(after < before, "{before} bytes before, {after} after");
    assert_eq!(crate::support::texts(&store, &kept).len(), 10);
    assert_eq!(block_on(Maintenance::verify(&store)).unwrap().damage, []);
    close(&store);
    // A store that was compacted and closed in order needs no repair.
    let store =
        turnkeep_redb::RedbOptions::new(&path).on_repair(|_| panic!("a repair")).open_blocking().unwrap();
    close(&store);
}

#[test]
fn indexes_of_what_is_rare_have_no_rows_of_the_rest() {
    let (_folder, path) = fresh();
    let store = open(&path);
    let session = session_of(&store, "s", 20);
    let rows = || {
        let rows = block_on(store.table_rows()).unwrap();
        let rows = |table| rows.iter().find(|(name, _)| *name == table).unwrap().1;
        [rows("entry_kinds"), rows("runs_active"), rows("requests_by_owner")]
    };
    let asked = |id: &str, owned_by: Option<&SessionRef>| {
        let mut request = Request::in_workspace(RequestId::host(id).unwrap());
        request.owner = owned_by.cloned();
        let say = append(&session, vec![message(id)]);
        block_on(store.commit(Commit::new(workspace()).op(say).request(request))).unwrap();
    };
    asked("of nobody", None);
    assert_eq!(rows(), [0, 0, 0]);
    let mut note = message("a note");
    note.kind = EntryKind::new("note").unwrap();
    commit(&store, [append(&session, vec![note])]);
    let (run, state) = (RunId::new("r").unwrap(), RunState::Running);
    commit(&store, [Op::StartRun { session: session.clone(), run: NewRun::new(run.clone(), state) }]);
    asked("of the session", Some(&session));
    assert_eq!(rows(), [1, 1, 1]);
    let (session, from, to) = (session.clone(), RunStates::ACTIVE, RunState::Completed);
    commit(&store, [Op::TransitionRun { session, run, from, to, error: None }]);
    assert_eq!(rows(), [1, 0, 1]);
    close(&store);
}
