//! What is refused before the store is touched.

use turnkeep_core::commit::{Commit, LeaseGrant, NewEntry, Op, Parent, RefTarget, RunPatch, SessionPatch};
use turnkeep_core::limits::{COLUMN_BYTES, LEASE_MS, Limits, SLICE_ROWS};
use turnkeep_core::model::{Channel, Profile, Row, SessionState, Title, TitleSource};
use turnkeep_core::rules::validate;
use turnkeep_core::{ErrorKind, Payload};

use crate::kit::{
    acquire, append, at, commit, create, fence, json, lease_of, message, name, no, run_id, session, start,
};

fn check(op: Op) -> Result<(), ErrorKind> {
    validate(&commit().op(op), &Limits::default()).map_err(|error| error.kind())
}

fn entries(entries: Vec<NewEntry>) -> Result<(), ErrorKind> {
    check(append(&session("s", 1), entries))
}

#[test]
fn an_append_holds_something_and_looks_only_backwards() {
    let x = || message("x");
    assert_eq!(entries(vec![]), Err(ErrorKind::Invalid));
    let child = |place| NewEntry { parent: Parent::InCommit(place), ..x() };
    let pointing = |place| NewEntry { refs: vec![(name("r"), RefTarget::InCommit(place))], ..x() };
    assert_eq!(entries(vec![x(), child(0)]), Ok(()));
    assert_eq!(entries(vec![x(), child(1)]), Err(ErrorKind::Invalid));
    assert_eq!(entries(vec![child(0)]), Err(ErrorKind::Invalid));
    assert_eq!(entries(vec![x(), pointing(0)]), Ok(()));
    assert_eq!(entries(vec![x(), pointing(1)]), Err(ErrorKind::Invalid));
    assert_eq!(entries(vec![x(), pointing(2)]), Err(ErrorKind::Invalid));
    let refs = |count: usize| NewEntry { refs: vec![(name("r"), RefTarget::Number(no(1))); count], ..x() };
    assert_eq!(entries(vec![refs(64)]), Ok(()));
    assert_eq!(entries(vec![refs(65)]), Err(ErrorKind::TooLarge));
}

#[test]
fn a_refusal_names_the_op_and_the_place_in_it() {
    let bad = NewEntry { parent: Parent::InCommit(5), ..message("x") };
    let ops = commit().op(start(&session("s", 1), "r")).op(append(&session("s", 1), vec![message("x"), bad]));
    let error = validate(&ops, &Limits::default()).unwrap_err();
    let told: Vec<(&str, &str)> = error.context().collect();
    assert!(told.contains(&("op", "1")) && told.iter().any(|(_, value)| *value == "1"), "{told:?}");
}

#[test]
fn texts_hold_no_nul_and_fit_their_columns() {
    let text = |text: String| entries(vec![NewEntry { text: Some(text), ..message("x") }]);
    assert_eq!(text("a\0b".to_owned()), Err(ErrorKind::Invalid));
    assert_eq!(text("x".repeat(COLUMN_BYTES + 1)), Ok(()), "a text is as long as a payload");
    let columns: [fn(&mut Profile, String); 5] = [
        |profile, text| profile.title = Some(Title { text, source: TitleSource::Auto }),
        |profile, text| profile.cwd = Some(text),
        |profile, text| profile.project = Some(text),
        |profile, text| profile.channel = Some(Channel { kind: text, id: String::new() }),
        |profile, text| profile.channel = Some(Channel { kind: String::new(), id: text }),
    ];
    for set in columns {
        let profile = |text: String| {
            let Op::CreateSession(mut new) = create(&session("s", 1), SessionState::Active) else {
                unreachable!()
            };
            set(&mut new.profile, text);
            check(Op::CreateSession(new.clone())).and_then(|()| {
                let Profile { title, cwd, channel, project, .. } = new.profile;
                let patch = SessionPatch {
                    title: Some(title),
                    cwd: Some(cwd),
                    channel: Some(channel),
                    project: Some(project),
                    ..SessionPatch::default()
                };
                check(Op::PatchSession { session: session("s", 1), patch })
            })
        };
        assert_eq!(profile("x".repeat(COLUMN_BYTES)), Ok(()));
        assert_eq!(profile("x".repeat(COLUMN_BYTES + 1)), Err(ErrorKind::TooLarge));
        assert_eq!(profile("a\0".to_owned()), Err(ErrorKind::Invalid));
    }
    let model = |model: String| {
        let patch = RunPatch { model: Some(Some(model)), ..RunPatch::default() };
        check(Op::PatchRun { session: session("s", 1), run: run_id("r"), patch })
    };
    assert_eq!(model("x".repeat(COLUMN_BYTES)), Ok(()));
    assert_eq!(model("x".repeat(COLUMN_BYTES + 1)), Err(ErrorKind::TooLarge));
}

#[test]
fn a_commit_at_a_limit_passes_and_one_above_is_too_large() {
    let limits = Limits::default().with_payload_bytes(100).with_commit_bytes(250);
    let sized = |bytes: usize| NewEntry {
        text: None,
        payload: Payload::new(format!("\"{}\"", "x".repeat(bytes - 2))).unwrap(),
        ..message("x")
    };
    let check = |sizes: &[usize]| {
        let entries = sizes.iter().map(|bytes| sized(*bytes)).collect();
        let commit = commit().op(append(&session("s", 1), entries));
        validate(&commit, &limits).map_err(|error| error.kind())
    };
    assert_eq!(check(&[100]), Ok(()));
    assert_eq!(check(&[101]), Err(ErrorKind::TooLarge));
    assert_eq!(check(&[100, 100, 50]), Ok(()));
    assert_eq!(check(&[100, 100, 51]), Err(ErrorKind::TooLarge));
    let ops = |count: usize| {
        let ops = vec![start(&session("s", 1), "r"); count];
        validate(&Commit { ops, ..commit() }, &limits).map_err(|error| error.kind())
    };
    assert_eq!(ops(limits.commit_ops), Ok(()));
    assert_eq!(ops(limits.commit_ops + 1), Err(ErrorKind::TooLarge));
}

#[test]
fn a_lease_lasts_a_millisecond_to_a_day() {
    let lease = lease_of(&session("s", 1));
    for (ttl_ms, fine) in [(0, false), (1, true), (LEASE_MS, true), (LEASE_MS + 1, false), (u64::MAX, false)]
    {
        let Op::AcquireLease(grant) = acquire(lease.clone(), 1) else { unreachable!() };
        assert_eq!(check(Op::AcquireLease(LeaseGrant { ttl_ms, ..grant })).is_ok(), fine, "{ttl_ms}");
        let fence = fence(lease.clone(), 1, 1);
        assert_eq!(check(Op::RenewLease { fence, ttl_ms }).is_ok(), fine, "{ttl_ms}");
    }
}

#[test]
fn a_slice_of_a_copy_is_neither_empty_nor_huge_nor_of_itself() {
    let copy = |from: &str, after: Option<u32>, through: u32| {
        let (from, to) = (session(from, 1), session("child", 1));
        check(Op::CopyEntries { from, to, after: after.map(no), through: no(through) })
    };
    assert_eq!(copy("s", None, SLICE_ROWS), Ok(()));
    assert_eq!(copy("s", None, SLICE_ROWS + 1), Err(ErrorKind::TooLarge));
    assert_eq!(copy("s", Some(5), 6), Ok(()));
    assert_eq!(copy("s", Some(5), 5), Err(ErrorKind::Invalid));
    assert_eq!(copy("s", Some(5), 4), Err(ErrorKind::Invalid));
    assert_eq!(copy("child", None, 1), Err(ErrorKind::Invalid));
    let many = |count: u32| {
        let (stream, event) = (
            name("n"),
            turnkeep_core::model::Event {
                number: 1,
                kind: name("e"),
                run: None,
                at: at(0),
                payload: json("1"),
            },
        );
        let rows = vec![Row::Event { stream, event }; count as usize];
        check(Op::Restore { session: session("s", 1), rows })
    };
    assert_eq!(many(SLICE_ROWS), Ok(()));
    assert_eq!(many(SLICE_ROWS + 1), Err(ErrorKind::TooLarge));
}

#[test]
fn a_retry_names_what_it_retries_and_a_condition_holds_no_other() {
    let Op::StartRun { session: s, run } = start(&session("s", 1), "r") else { unreachable!() };
    let orphan = turnkeep_core::commit::NewRun { after: Some(run_id("before")), ..run };
    assert_eq!(check(Op::StartRun { session: s.clone(), run: orphan }), Err(ErrorKind::Invalid));
    let when = |then| Op::WhenKey { session: s.clone(), key: name("k"), then: Box::new(then) };
    assert_eq!(check(when(start(&s, "r"))), Ok(()));
    assert_eq!(check(when(when(start(&s, "r")))), Err(ErrorKind::Invalid));
    assert_eq!(check(when(append(&s, vec![]))), Err(ErrorKind::Invalid), "the op within is looked at too");
    let none = Op::AppendEvents { session: s, stream: name("n"), expect_next: None, events: vec![] };
    assert_eq!(check(none), Err(ErrorKind::Invalid));
}
