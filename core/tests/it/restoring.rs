//! Sessions that are being built: hidden, their builder's alone, and sealed only if all arrived.

use turnkeep_core::commit::{Expect, Guard, Op, Put, SessionPatch};
use turnkeep_core::model::{
    Entry, Event, Record, Row, Run, RunState, SessionImage, SessionState, StreamRow, Usage, Version,
    Visibility,
};
use turnkeep_core::rules::{fold_row, validate};
use turnkeep_core::{Commit, EntryNo, ErrorKind, ForkReason, SessionRef};

use crate::kit::{
    acquire, append, at, commit, create, fence, json, lease_of, message, name, no, run_id, session, stamp,
    start,
};
use crate::naive::Naive;

fn building() -> (Naive, SessionRef) {
    let (mut store, s) = (Naive::default(), session("s", 1));
    let begin = commit().op(create(&s, SessionState::Restoring)).op(acquire(lease_of(&s), 1));
    store.commit(&begin, &stamp(1)).unwrap();
    (store, s)
}

fn as_builder(s: &SessionRef) -> Commit {
    commit().fence(fence(lease_of(s), 1, 1))
}

fn rows(s: &SessionRef, rows: Vec<Row>) -> Op {
    Op::Restore { session: s.clone(), rows }
}

fn refused(store: &mut Naive, commit: &Commit) -> ErrorKind {
    let before = store.clone();
    let error = store.commit(commit, &stamp(50)).unwrap_err();
    assert_eq!(*store, before);
    error.kind()
}

fn entry(number: u32, parent: Option<u32>) -> Entry {
    Entry {
        number: no(number),
        parent: parent.map(no),
        on_path: true,
        kind: name("message"),
        role: Some(name("user")),
        run: None,
        turn: None,
        key: None,
        visibility: Visibility::Conversation,
        at: at(0),
        refs: Vec::new(),
        text: Some("text".to_owned()),
        payload: json("{}"),
    }
}

fn run(id: &str, number: u32, state: RunState) -> Run {
    Run {
        session: session("elsewhere", 9),
        id: run_id(id),
        number,
        state,
        intent: None,
        attempt: 1,
        retry_of: None,
        source: None,
        model: None,
        mode: None,
        work_dir: None,
        created_at: at(1),
        updated_at: at(2),
        finished_at: state.is_terminal().then_some(at(2)),
        error: None,
        progress: None,
        context_usage: None,
        usage: Usage { requests: u64::MAX, ..Usage::default() },
    }
}

fn stream(floor: u64, head: u64) -> Row {
    let (batch_first, batch_digest) = (0, [0; 32]);
    Row::Stream(StreamRow { name: name("notes"), head, floor, closed: false, batch_first, batch_digest })
}

fn event(number: u64) -> Row {
    let event = Event { number, kind: name("e"), run: None, at: at(0), payload: json("1") };
    Row::Event { stream: name("notes"), event }
}

fn record(key: &str, ordinal: u64) -> Record {
    Record {
        collection: name("bindings"),
        key: name(key),
        owner: Some(session("elsewhere", 9)),
        status: None,
        ordinal,
        version: Version { birth: 5, count: 7 },
        created_at: at(1),
        updated_at: at(2),
        payload: json("1"),
    }
}

#[test]
fn what_is_being_built_answers_not_found_to_all_but_its_builder() {
    let (mut store, s) = building();
    let put = Put {
        collection: name("bindings"),
        key: name("k"),
        owner: Some(s.clone()),
        status: None,
        expect: Expect::Any,
        payload: json("1"),
    };
    for op in [
        append(&s, vec![message("x")]),
        Op::MoveLeaf { session: s.clone(), to: None },
        Op::PatchSession { session: s.clone(), patch: SessionPatch::default() },
        start(&s, "r"),
        Op::PutRecord(put),
        Op::DropEvents { session: s.clone(), stream: name("notes"), through: None, close: true },
        Op::AddUsage { session: s.clone(), run: None, usage: Usage::default() },
    ] {
        assert_eq!(refused(&mut store, &as_builder(&s).op(op.clone())), ErrorKind::NotFound, "{op:?}");
    }
    for guard in [
        Guard::Leaf { session: s.clone(), leaf: None },
        Guard::Head { session: s.clone(), head: None },
        Guard::Revision { session: s.clone(), revision: 1 },
        Guard::NoActiveRun { session: s.clone() },
        Guard::KeyAbsent { session: s.clone(), key: name("k") },
    ] {
        assert_eq!(refused(&mut store, &commit().guard(guard)), ErrorKind::NotFound);
    }
    // It holds its id all the same.
    let again = commit().op(create(&session("s", 2), SessionState::Active));
    assert_eq!(refused(&mut store, &again), ErrorKind::AlreadyExists);
    let absent = commit().guard(Guard::SessionAbsent { id: s.id.clone() });
    assert_eq!(refused(&mut store, &absent), ErrorKind::AlreadyExists);
}

#[test]
fn only_the_holder_of_its_lease_builds_seals_or_gives_it_up() {
    let (mut store, s) = building();
    let source = session("source", 2);
    let other = commit().op(create(&source, SessionState::Active)).op(append(&source, vec![message("x")]));
    store.commit(&other, &stamp(2)).unwrap();
    for op in [
        rows(&s, vec![]),
        Op::CopyEntries { from: source.clone(), to: s.clone(), after: None, through: no(1) },
        Op::SealSession { session: s.clone(), leaf: None, rows: 0, digest: [0; 32] },
        Op::DeleteSession { session: s.clone(), force: false },
    ] {
        assert_eq!(refused(&mut store, &commit().op(op.clone())), ErrorKind::LeaseLost, "{op:?}");
        // Neither does an expired lease help: a builder takes it first.
        let late = turnkeep_core::rules::Stamp { now: at(100_000), ..stamp(51) };
        assert_eq!(store.commit(&commit().op(op.clone()), &late).unwrap_err().kind(), ErrorKind::LeaseLost);
        let taken_over = commit().op(acquire(lease_of(&s), 2)).op(op.clone());
        store.clone().commit(&taken_over, &late).unwrap();
        store.clone().commit(&as_builder(&s).op(op), &stamp(52)).unwrap();
    }
    let forced = commit().op(Op::DeleteSession { session: s.clone(), force: true });
    store.clone().commit(&forced, &stamp(53)).unwrap();
    // What is in use takes no exact rows.
    let active = commit().op(acquire(lease_of(&source), 1)).op(rows(&source, vec![]));
    assert_eq!(refused(&mut store, &active), ErrorKind::Invalid);
    let seal = Op::SealSession { session: source.clone(), leaf: None, rows: 0, digest: [0; 32] };
    let active = commit().op(acquire(lease_of(&source), 1)).op(seal);
    assert_eq!(refused(&mut store, &active), ErrorKind::Invalid);
}

#[test]
fn a_seal_needs_the_count_the_digest_and_a_leaf_that_is_there() {
    let (mut store, s) = building();
    let sent = vec![Row::Entry(entry(1, None)), Row::Entry(Entry { on_path: false, ..entry(2, Some(1)) })];
    store.commit(&as_builder(&s).op(rows(&s, sent.clone())), &stamp(2)).unwrap();
    let digest = sent.iter().fold([0; 32], |digest, row| fold_row(&digest, row));
    let reordered = sent.iter().rev().fold([0; 32], |digest, row| fold_row(&digest, row));
    let seal = |leaf: Option<EntryNo>, rows, digest| {
        as_builder(&s).op(Op::SealSession { session: s.clone(), leaf, rows, digest })
    };
    assert_eq!(refused(&mut store, &seal(Some(no(1)), 1, digest)), ErrorKind::Corrupt);
    assert_eq!(refused(&mut store, &seal(Some(no(1)), 2, [0; 32])), ErrorKind::Corrupt);
    assert_eq!(refused(&mut store, &seal(Some(no(1)), 2, reordered)), ErrorKind::Corrupt);
    assert_eq!(refused(&mut store, &seal(Some(no(3)), 2, digest)), ErrorKind::NotFound);
    assert_eq!(refused(&mut store, &seal(Some(no(2)), 2, digest)), ErrorKind::Invalid, "beside the path");
    store.commit(&seal(Some(no(1)), 2, digest), &stamp(3)).unwrap();
    let row = store.row(&s).unwrap();
    assert_eq!((row.state, row.restore, row.path.leaf), (SessionState::Active, None, Some(no(1))));
    assert_eq!(refused(&mut store, &seal(Some(no(1)), 2, digest)), ErrorKind::Invalid, "once");
}

#[test]
fn rows_arrive_in_order_and_without_gaps() {
    let (store, s) = building();
    let keyed = |number, parent| Row::Entry(Entry { key: Some(name("key")), ..entry(number, parent) });
    let pointing = |number: u32, target| {
        let reference = turnkeep_core::model::Reference { relation: name("label_target"), entry: no(target) };
        Row::Entry(Entry { refs: vec![reference], ..entry(number, None) })
    };
    let mut taken = record("k", 1);
    taken.payload = json("2");
    let cases: Vec<(&str, Vec<Row>, ErrorKind)> = vec![
        ("a gap", vec![Row::Entry(entry(2, None))], ErrorKind::Invalid),
        ("twice", vec![Row::Entry(entry(1, None)), Row::Entry(entry(1, None))], ErrorKind::Invalid),
        ("its own parent", vec![Row::Entry(entry(1, Some(1)))], ErrorKind::NotFound),
        (
            "a later parent",
            vec![Row::Entry(entry(1, Some(2))), Row::Entry(entry(2, None))],
            ErrorKind::NotFound,
        ),
        ("a key twice", vec![keyed(1, None), keyed(2, Some(1))], ErrorKind::AlreadyExists),
        ("a reference to itself", vec![pointing(1, 1)], ErrorKind::NotFound),
        (
            "runs out of order",
            vec![Row::Run(run("b", 2, RunState::Completed)), Row::Run(run("a", 1, RunState::Completed))],
            ErrorKind::Invalid,
        ),
        ("a run without a number", vec![Row::Run(run("a", 0, RunState::Completed))], ErrorKind::Invalid),
        (
            "a run twice",
            vec![Row::Run(run("a", 1, RunState::Completed)), Row::Run(run("a", 2, RunState::Completed))],
            ErrorKind::AlreadyExists,
        ),
        ("events without a stream", vec![event(1)], ErrorKind::Invalid),
        ("events with a gap", vec![stream(0, 2), event(2)], ErrorKind::Invalid),
        ("events below the floor", vec![stream(3, 5), event(3)], ErrorKind::Invalid),
        ("a stream twice", vec![stream(0, 0), stream(0, 0)], ErrorKind::AlreadyExists),
        ("a record twice", vec![Row::Record(record("k", 1)), Row::Record(taken)], ErrorKind::AlreadyExists),
    ];
    for (what, rows_, kind) in cases {
        let mut store = store.clone();
        assert_eq!(refused(&mut store, &as_builder(&s).op(rows(&s, rows_))), kind, "{what}");
    }
}

#[test]
fn exact_rows_keep_what_they_are_and_lose_what_belongs_to_their_old_store() {
    let (mut store, s) = building();
    let image = SessionImage {
        created_at: at(-9),
        updated_at: at(-8),
        activity: 3,
        leaf: Some(no(1)),
        usage: Usage { requests: u64::MAX, ..Usage::default() },
        profile: Default::default(),
    };
    let sent = vec![
        Row::Session(image),
        Row::Entry(entry(1, None)),
        Row::Run(run("done", 2, RunState::Completed)),
        Row::Run(run("at work", 5, RunState::Running)),
        stream(3, 5),
        event(4),
        event(5),
        Row::Record(record("k", 8)),
    ];
    let digest = sent.iter().fold([0; 32], |digest, row| fold_row(&digest, row));
    let whole = as_builder(&s).op(rows(&s, sent)).op(Op::SealSession {
        session: s.clone(),
        leaf: Some(no(1)),
        rows: 8,
        digest,
    });
    store.commit(&whole, &stamp(9)).unwrap();
    let (row, life) = (store.row(&s).unwrap(), store.life(&s));
    assert_eq!((row.created_at, row.updated_at, row.activity), (at(-9), at(-8), 3));
    assert_eq!((row.runs, row.active_run.as_ref(), row.messages), (5, None, 1));
    assert_eq!(row.usage.requests, i64::MAX as u64);
    let active = &life.runs[1];
    assert_eq!((active.state, active.finished_at), (RunState::Interrupted, Some(at(2))));
    assert_eq!((&active.session, active.number), (&s, 5));
    assert_eq!(active.usage.requests, i64::MAX as u64, "what fits in no database is cut");
    assert_eq!(life.runs[0].state, RunState::Completed);
    let (stream, events) = &life.streams[&name("notes")];
    assert_eq!((stream.head, stream.floor, events.len()), (5, 3, 2));
    let record = store.records.values().next().unwrap();
    assert_eq!((record.owner.as_ref(), record.ordinal), (Some(&s), 8));
    assert_ne!(record.version, Version { birth: 5, count: 7 }, "an old version does not match it");
    assert_eq!((record.created_at, record.updated_at), (at(1), at(2)));
    let mut next = record.clone();
    next.key = name("next");
    let put = Put {
        collection: next.collection,
        key: next.key,
        owner: Some(s.clone()),
        status: None,
        expect: Expect::Absent,
        payload: json("1"),
    };
    store.commit(&as_builder(&s).op(Op::PutRecord(put)).op(start(&s, "next")), &stamp(10)).unwrap();
    assert_eq!(store.records[&(name("bindings"), name("next"))].ordinal, 9);
    assert_eq!(store.life(&s).runs[2].number, 6);
}

#[test]
fn a_record_of_a_session_being_built_is_nobody_else_s() {
    let (mut store, s) = building();
    store.commit(&as_builder(&s).op(rows(&s, vec![Row::Record(record("k", 1))])), &stamp(2)).unwrap();
    let put = |expect| {
        Op::PutRecord(Put {
            collection: name("bindings"),
            key: name("k"),
            owner: None,
            status: None,
            expect,
            payload: json("1"),
        })
    };
    let delete =
        Op::DeleteRecord { collection: name("bindings"), key: name("k"), owner: None, expect: Expect::Any };
    for op in [put(Expect::Any), put(Expect::Absent), delete] {
        assert_eq!(refused(&mut store, &commit().op(op)), ErrorKind::VersionConflict);
    }
    let unowned = Record { owner: None, ..record("k", 1) };
    let restored = commit().op(Op::RestoreRecord { record: unowned });
    assert_eq!(refused(&mut store, &restored), ErrorKind::AlreadyExists);
    // Given up, it leaves the key free.
    let gone = as_builder(&s).op(Op::DeleteSession { session: s.clone(), force: false });
    store.commit(&gone.op(put(Expect::Absent)), &stamp(3)).unwrap();
}

#[test]
fn a_fork_is_refused_for_its_reason() {
    let (mut store, s) = building();
    let source = session("source", 2);
    let reason = |kind| ErrorKind::ForkRefused(kind);
    let copy = |from: &SessionRef, after: Option<u32>, through: u32| {
        let after = after.map(no);
        as_builder(&s).op(Op::CopyEntries { from: from.clone(), to: s.clone(), after, through: no(through) })
    };
    assert_eq!(refused(&mut store, &copy(&source, None, 1)), reason(ForkReason::SourceNotFound));
    store.commit(&commit().op(create(&source, SessionState::Active)), &stamp(2)).unwrap();
    assert_eq!(refused(&mut store, &copy(&source, None, 1)), reason(ForkReason::Unavailable));
    let entries = vec![message("1"), message("2")];
    store.commit(&commit().op(append(&source, entries)).op(start(&source, "r")), &stamp(3)).unwrap();
    assert_eq!(refused(&mut store, &copy(&source, None, 1)), reason(ForkReason::SourceActive));
    let over = Op::TransitionRun {
        session: source.clone(),
        run: run_id("r"),
        from: turnkeep_core::model::RunStates::ACTIVE,
        to: RunState::Completed,
        error: None,
    };
    store.commit(&commit().op(over), &stamp(4)).unwrap();
    assert_eq!(refused(&mut store, &copy(&source, None, 3)), reason(ForkReason::Unavailable));
    assert_eq!(refused(&mut store, &copy(&source, Some(1), 2)), ErrorKind::StaleLeaf, "the child is empty");
    store.commit(&copy(&source, None, 1), &stamp(5)).unwrap();
    assert_eq!(refused(&mut store, &copy(&source, None, 1)), ErrorKind::StaleLeaf);
    // A run that begins later does not stop a fork that has begun.
    store.commit(&commit().op(start(&source, "later")), &stamp(6)).unwrap();
    store.commit(&copy(&source, Some(1), 2), &stamp(7)).unwrap();
    let hidden = session("hidden", 3);
    let begin = commit().op(create(&hidden, SessionState::Restoring)).op(acquire(lease_of(&hidden), 1));
    store.commit(&begin, &stamp(8)).unwrap();
    assert_eq!(refused(&mut store, &copy(&hidden, Some(2), 3)), reason(ForkReason::SourceNotFound));
}

#[test]
fn a_child_has_one_source_and_nothing_before_it() {
    let (mut store, s) = building();
    for (source, life) in [("a", 2), ("b", 3)] {
        let source = session(source, life);
        let entries = vec![message("1"), message("2"), message("3")];
        let begin = commit().op(create(&source, SessionState::Active)).op(append(&source, entries));
        store.commit(&begin, &stamp(2)).unwrap();
    }
    let copy = |from: &str, life, after: Option<u32>, through: u32| Op::CopyEntries {
        from: session(from, life),
        to: s.clone(),
        after: after.map(no),
        through: no(through),
    };
    let mut mixed = store.clone();
    mixed.commit(&as_builder(&s).op(rows(&s, vec![Row::Entry(entry(1, None))])), &stamp(3)).unwrap();
    assert_eq!(refused(&mut mixed, &as_builder(&s).op(copy("a", 2, Some(1), 2))), ErrorKind::Invalid);
    store.commit(&as_builder(&s).op(copy("a", 2, None, 1)), &stamp(3)).unwrap();
    assert_eq!(refused(&mut store, &as_builder(&s).op(copy("b", 3, Some(1), 2))), ErrorKind::Invalid);
    store
        .commit(&as_builder(&s).op(copy("a", 2, Some(1), 2)).op(copy("a", 2, Some(2), 3)), &stamp(4))
        .unwrap();
    assert_eq!(store.row(&s).unwrap().head, Some(no(3)));
}

#[test]
fn restored_numbers_out_of_range_are_refused_before_anything_is_looked_up() {
    let check = |row: Row| {
        let commit = commit().op(rows(&session("s", 1), vec![row]));
        validate(&commit, &Default::default()).map_err(|error| error.kind())
    };
    let most = i64::MAX as u64;
    assert_eq!(check(stream(0, most)), Ok(()));
    assert_eq!(check(stream(0, most + 1)), Err(ErrorKind::Invalid));
    assert_eq!(check(stream(3, 2)), Err(ErrorKind::Invalid));
    assert_eq!(check(event(most)), Ok(()));
    assert_eq!(check(event(most + 1)), Err(ErrorKind::Invalid));
    assert_eq!(check(Row::Record(record("k", u64::MAX))), Err(ErrorKind::Invalid));
    let image = |activity| {
        Row::Session(SessionImage {
            created_at: at(0),
            updated_at: at(0),
            activity,
            leaf: None,
            usage: Usage::default(),
            profile: Default::default(),
        })
    };
    assert_eq!(check(image(turnkeep_core::rules::MAX_ACTIVITY)), Ok(()));
    assert_eq!(check(image(turnkeep_core::rules::MAX_ACTIVITY + 1)), Err(ErrorKind::Invalid));
    let owned = commit().op(Op::RestoreRecord { record: record("k", 1) });
    assert_eq!(validate(&owned, &Default::default()).unwrap_err().kind(), ErrorKind::Invalid);
}
