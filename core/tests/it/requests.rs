//! Repeats of commits, and versions instead of clocks.

use turnkeep_core::commit::{Guard, Op, Request, RequestId, RunPatch};
use turnkeep_core::limits::{RECEIPT_BYTES, REQUEST_MS};
use turnkeep_core::model::SessionState;
use turnkeep_core::rules::{Stamp, validate};
use turnkeep_core::{Commit, ErrorKind, SessionRef};

use crate::kit::{
    acquire, append, at, commit, create, fence, lease_of, message, name, no, run_id, session, stamp, start,
};
use crate::naive::Naive;

fn with_session() -> (Naive, SessionRef) {
    let (mut store, s) = (Naive::default(), session("s", 1));
    store.commit(&commit().op(create(&s, SessionState::Active)), &stamp(1)).unwrap();
    (store, s)
}

fn host(id: &str) -> RequestId {
    RequestId::host(id).unwrap()
}

fn say(s: &SessionRef, text: &str, request: Request) -> Commit {
    commit().request(request).op(append(s, vec![message(text)]))
}

#[test]
fn case_16_the_same_request_twice_is_one_entry_with_the_same_number() {
    let (mut store, s) = with_session();
    let request = || Request::in_session(host("job 7"), s.clone());
    let first = store.commit(&say(&s, "hello", request()), &stamp(2)).unwrap();
    let before = store.clone();
    let again = store.commit(&say(&s, "hello", request()), &stamp(3)).unwrap();
    assert_eq!(store, before, "a repeat writes nothing");
    assert!(again.replayed && !first.replayed);
    assert_eq!(again.entries(0).collect::<Vec<_>>(), [no(1)]);
    assert_eq!(again.sessions, first.sessions);
}

#[test]
fn a_repeat_is_known_before_any_fence_or_guard_is_looked_at() {
    let (mut store, s) = with_session();
    store.commit(&commit().op(acquire(lease_of(&s), 1)), &stamp(2)).unwrap();
    let request = Request::in_session(host("q"), s.clone());
    let once = say(&s, "hello", request)
        .fence(fence(lease_of(&s), 1, 1))
        .guard(Guard::Leaf { session: s.clone(), leaf: None });
    store.commit(&once, &stamp(3)).unwrap();
    let release = Op::ReleaseLease { fence: fence(lease_of(&s), 1, 1) };
    store.commit(&commit().op(release).op(acquire(lease_of(&s), 2)), &stamp(4)).unwrap();
    assert!(
        store.commit(&once, &stamp(5)).unwrap().replayed,
        "lease lost, leaf moved, and still it is known"
    );
}

#[test]
fn the_same_request_for_something_else_is_a_conflict() {
    let (mut store, s) = with_session();
    let request = || Request::in_session(host("q"), s.clone());
    store.commit(&say(&s, "hello", request()), &stamp(2)).unwrap();
    let before = store.clone();
    let error = store.commit(&say(&s, "other", request()), &stamp(3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestConflict);
    assert_eq!(store, before);
}

#[test]
fn requests_are_scoped_to_the_workspace_or_to_one_life_of_a_session() {
    let (mut store, s) = with_session();
    let other = session("other", 2);
    store.commit(&commit().op(create(&other, SessionState::Active)), &stamp(2)).unwrap();
    for session in [&s, &other] {
        let receipt =
            store.commit(&say(session, "x", Request::in_session(host("q"), session.clone())), &stamp(3));
        assert!(!receipt.unwrap().replayed);
    }
    let anywhere = || Request::in_workspace(host("q"));
    assert!(!store.commit(&say(&s, "y", anywhere()), &stamp(4)).unwrap().replayed);
    let error = store.commit(&say(&other, "y", anywhere()), &stamp(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestConflict, "one workspace, one request");
}

#[test]
fn a_receipt_dies_with_its_session_and_a_new_life_knows_nothing_of_it() {
    let (mut store, s) = with_session();
    let begin = |s: &SessionRef| {
        let request = Request::in_workspace(host("begin")).owned_by(s.clone());
        commit().request(request).op(create(s, SessionState::Active))
    };
    store.commit(&say(&s, "x", Request::in_session(host("q"), s.clone())), &stamp(2)).unwrap();
    let child = session("child", 3);
    store.commit(&begin(&child), &stamp(3)).unwrap();
    for (session, force) in [(&s, true), (&child, false)] {
        store.commit(&commit().op(Op::DeleteSession { session: session.clone(), force }), &stamp(4)).unwrap();
    }
    assert!(store.requests.is_empty());
    assert!(!store.commit(&begin(&session("child", 4)), &stamp(5)).unwrap().replayed);
    // A request of the old life finds nothing, and leaves nothing behind.
    let before = store.clone();
    let old = commit().request(Request::in_session(host("r"), s.clone()));
    assert_eq!(store.commit(&old, &stamp(6)).unwrap_err().kind(), ErrorKind::NotFound);
    let owned = commit().request(Request::in_workspace(host("r")).owned_by(s));
    assert_eq!(store.commit(&owned, &stamp(6)).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(store, before);
}

#[test]
fn a_generated_request_can_be_repeated_for_seven_days_and_a_host_s_for_ever() {
    let (mut store, s) = with_session();
    let drawn = say(&s, "x", Request::in_workspace(RequestId::generated(at(0), [1; 10])));
    let given = say(&s, "y", Request::in_workspace(host("q")));
    store.commit(&drawn, &stamp(2)).unwrap();
    store.commit(&given, &stamp(3)).unwrap();
    let later = |ms| Stamp { now: at(ms), ..stamp(9) };
    assert!(store.commit(&drawn, &later(REQUEST_MS)).unwrap().replayed);
    let error = store.commit(&drawn, &later(REQUEST_MS + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestExpired);
    assert!(store.commit(&given, &later(100 * REQUEST_MS)).unwrap().replayed);
    let new = say(&s, "z", Request::in_workspace(RequestId::generated(at(0), [2; 10])));
    let error = store.commit(&new, &later(REQUEST_MS + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestExpired, "also when it never landed: nobody can say");
}

#[test]
fn a_request_that_could_not_tell_of_its_own_end_is_refused() {
    let s = session("s", 1);
    let delete = || Op::DeleteSession { session: s.clone(), force: true };
    let wrapped = |op: Op| Op::WhenKey { session: s.clone(), key: name("k"), then: Box::new(op) };
    let refused = |commit: Commit| validate(&commit, &Default::default()).unwrap_err().kind();
    for op in [delete(), wrapped(delete())] {
        let scoped = commit().request(Request::in_session(host("q"), s.clone())).op(op.clone());
        assert_eq!(refused(scoped), ErrorKind::Invalid);
        let owned = commit().request(Request::in_workspace(host("q")).owned_by(s.clone())).op(op.clone());
        assert_eq!(refused(owned), ErrorKind::Invalid);
        let free = commit().request(Request::in_workspace(host("q"))).op(op);
        assert!(validate(&free, &Default::default()).is_ok());
    }
    for op in [create(&s, SessionState::Active), wrapped(create(&s, SessionState::Active))] {
        let scoped = commit().request(Request::in_session(host("q"), s.clone())).op(op);
        assert_eq!(refused(scoped), ErrorKind::Invalid, "a repeat would draw another incarnation");
    }
}

#[test]
fn a_receipt_that_would_not_fit_is_refused_whole() {
    let (mut store, s) = with_session();
    let ops = |count: usize| {
        let op = Op::PatchRun { session: s.clone(), run: run_id("r"), patch: RunPatch::default() };
        Commit { ops: vec![op; count], ..commit() }
    };
    store.commit(&commit().op(start(&s, "r")), &stamp(2)).unwrap();
    store.commit(&ops(RECEIPT_BYTES), &stamp(3)).expect("without a request nothing is kept");
    let before = store.clone();
    let kept = ops(RECEIPT_BYTES).request(Request::in_session(host("q"), s.clone()));
    assert_eq!(store.commit(&kept, &stamp(4)).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(store, before);
}

#[test]
fn case_06_near_equal_and_backward_times_pass_and_only_integer_versions_conflict() {
    let (mut store, s) = with_session();
    let guarded = |text: &str, revision: u64| {
        commit().guard(Guard::Revision { session: s.clone(), revision }).op(append(&s, vec![message(text)]))
    };
    // Two appends in one millisecond, then one with a clock that went back an hour.
    for (round, now) in [(1, at(0)), (2, at(0)), (3, at(-3_600_000))] {
        let stamp = Stamp { now, ..stamp(round + 1) };
        store.commit(&guarded("x", round), &stamp).unwrap();
    }
    let row = store.row(&s).unwrap();
    assert_eq!(
        (row.revision, row.updated_at, row.head),
        (4, at(0), Some(no(3))),
        "time never goes backwards"
    );
    let stale = Stamp { now: at(3_600_000), ..stamp(9) };
    assert_eq!(store.commit(&guarded("y", 3), &stale).unwrap_err().kind(), ErrorKind::StaleLeaf);
}

#[test]
fn case_02_entries_of_one_instant_keep_the_order_of_the_append() {
    let (mut store, s) = with_session();
    let texts: Vec<String> = (0..10).map(|place| format!("item {}", 9 - place)).collect();
    let entries = texts.iter().map(|text| message(text)).collect();
    let receipt = store.commit(&commit().op(append(&s, entries)), &stamp(2)).unwrap();
    assert!(receipt.entries(0).eq((1..=10).map(no)));
    let stored = store.life(&s).entries.iter().map(|entry| entry.text.clone().unwrap());
    assert!(stored.eq(texts));
}

#[test]
fn case_33_a_second_writer_learns_that_the_session_is_in_use_or_moved() {
    let (mut store, s) = with_session();
    let leaf = |leaf| Guard::Leaf { session: s.clone(), leaf };
    let turn = |leaf: Guard| commit().guard(leaf).op(append(&s, vec![message("a"), message("b")]));
    store.commit(&turn(leaf(None)), &stamp(2)).unwrap();
    assert_eq!(store.commit(&turn(leaf(None)), &stamp(3)).unwrap_err().kind(), ErrorKind::StaleLeaf);
    store.commit(&commit().op(acquire(lease_of(&s), 1)), &stamp(4)).unwrap();
    let error = store.commit(&turn(leaf(Some(no(2)))), &stamp(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LeaseHeld);
    let holder = turn(leaf(Some(no(2)))).fence(fence(lease_of(&s), 1, 1));
    store.commit(&holder, &stamp(6)).unwrap();
    assert_eq!(store.row(&s).unwrap().head, Some(no(4)), "no mixed turn");
}
