//! Building a session: from another's entries, or from exact rows.

use turnkeep_core::commit::{Commit, Fence, NewEntry, Op};
use turnkeep_core::id::Role;
use turnkeep_core::model::{LeaseKey, LeaseName, Row, RunState, RunStates, SessionState};
use turnkeep_core::query::{EntryQuery, PathTo, RecordQuery, RowQuery, RunQuery};
use turnkeep_core::rules::{copied, fold_row};
use turnkeep_core::{EntryNo, ErrorKind, Payload, RunId, SessionRef, Store};

use crate::support::{
    Bench, after, beside, collection, entry_query, event, keyed, kind, new_run, no, numbers, put, run,
    session, stream, user, ws,
};

fn fenced(fence: &Fence, op: Op) -> Commit {
    Commit::new(ws()).fence(fence.clone()).op(op)
}

/// Copies in slices and seals.
fn fork(bench: &Bench, from: &SessionRef, id: &str, slices: &[u32], leaf: Option<EntryNo>) -> SessionRef {
    let (child, fence) = bench.build(id);
    let (mut digest, mut last) = ([0; 32], None);
    for through in slices {
        let (after, through) = (last, no(*through));
        let op = Op::CopyEntries { from: from.clone(), to: child.clone(), after, through };
        bench.commit(fenced(&fence, op)).unwrap();
        digest = copied(from, through);
        last = Some(through);
    }
    let rows = last.map_or(0, |last| u64::from(last.get()));
    let seal = Op::SealSession { session: child.clone(), leaf, rows, digest };
    bench.commit(fenced(&fence, seal).op(Op::ReleaseLease { fence: fence.clone() })).unwrap();
    child
}

fn by_run(id: &str, entry: NewEntry) -> NewEntry {
    NewEntry { run: RunId::new(id).ok(), ..entry }
}

fn assistant(text: &str) -> NewEntry {
    NewEntry { role: Some(Role::new("assistant").unwrap()), ..user(text) }
}

/// Two branches, a label, keys and two runs; the leaf is 6.
fn parent(bench: &Bench) -> SessionRef {
    let s = bench.create("parent");
    for (id, entries) in [
        ("r1", vec![keyed("the question", "k1"), assistant("2"), assistant("3")]),
        ("r2", vec![after(1, keyed("4", "k4")), beside(4, user("5")), assistant("6")]),
    ] {
        bench.op(Op::StartRun { session: s.clone(), run: new_run(id) });
        bench.append(&s, entries.into_iter().map(|entry| by_run(id, entry)).collect());
        bench.op(Op::TransitionRun {
            session: s.clone(),
            run: RunId::new(id).unwrap(),
            from: RunStates::ACTIVE,
            to: RunState::Completed,
            error: None,
        });
    }
    s
}

#[test]
fn a_fork_has_the_entries_paths_keys_and_runs_of_its_parent_and_nothing_later() {
    for slices in [vec![5], vec![1, 2, 3, 4, 5], vec![3, 5]] {
        let bench = Bench::new();
        let parent = parent(&bench);
        let child = fork(&bench, &parent, "child", &slices, Some(no(4)));
        let of = |session: &SessionRef| {
            let query = EntryQuery { before: Some(no(6)), ..entry_query(session) };
            bench.entries(&query).items
        };
        assert_eq!(of(&child), of(&parent));
        assert_eq!(bench.path(&child), [1, 4]);
        let branch = EntryQuery { path: Some(PathTo::Entry(no(3))), ..entry_query(&child) };
        assert_eq!(numbers(&bench.entries(&branch)), [1, 2, 3], "the other branch came along");
        let row = bench.row("child").unwrap();
        assert_eq!((row.head, row.messages, row.runs), (Some(no(5)), 5, 2));
        assert_eq!(row.preview.as_deref(), Some("the question"));
        let runs = run(bench.store.runs(&RunQuery { session: Some(child.clone()), ..RunQuery::new(ws()) }));
        let runs = runs.unwrap().items;
        assert!(runs.iter().all(|run| run.session == child && run.state == RunState::Completed));
        assert_eq!(runs.iter().map(|run| run.number).collect::<Vec<_>>(), [1, 2]);
        bench.assert_sound();

        let taken = Op::Append { session: child.clone(), entries: vec![keyed("x", "k4")] };
        assert_eq!(kind(bench.try_op(taken)), ErrorKind::AlreadyExists);
        bench.append(&child, vec![user("only here")]);
        bench.append(&parent, vec![user("only there")]);
        assert_eq!(bench.path(&child), [1, 4, 6]);
        assert_eq!(bench.path(&parent), [1, 4, 6, 7]);
        bench.op(Op::StartRun { session: child, run: new_run("r9") });
        bench.assert_sound();
    }
}

#[test]
fn a_fork_outlives_its_parent() {
    let bench = Bench::new();
    let parent = parent(&bench);
    let child = fork(&bench, &parent, "child", &[6], Some(no(6)));
    bench.op(Op::DeleteSession { session: parent, force: false });
    run(bench.store.maintenance().unwrap().purge()).unwrap();
    assert_eq!(bench.path(&child), [1, 4, 6]);
    assert_eq!(bench.store.residue().unwrap(), vec![]);
    bench.assert_sound();
}

#[test]
fn an_active_run_arrives_interrupted() {
    let bench = Bench::new();
    let s = bench.create("s");
    bench.op(Op::StartRun { session: s.clone(), run: new_run("done") });
    bench.append(&s, vec![by_run("done", user("1"))]);
    bench.op(Op::TransitionRun {
        session: s.clone(),
        run: RunId::new("done").unwrap(),
        from: RunStates::ALL,
        to: RunState::Failed,
        error: Some(Payload::empty()),
    });
    let (child, fence) = bench.build("child");
    let first = Op::CopyEntries { from: s.clone(), to: child.clone(), after: None, through: no(1) };
    bench.commit(fenced(&fence, first)).unwrap();
    bench.op(Op::StartRun { session: s.clone(), run: new_run("late") });
    bench.clock.advance_ms(5);
    bench.append(&s, vec![by_run("late", user("2"))]);
    let second = Op::CopyEntries { from: s.clone(), to: child.clone(), after: Some(no(1)), through: no(2) };
    bench.commit(fenced(&fence, second)).unwrap();
    let digest = copied(&s, no(2));
    let seal = Op::SealSession { session: child.clone(), leaf: Some(no(2)), rows: 2, digest };
    bench.commit(fenced(&fence, seal)).unwrap();
    let query = RunQuery { session: Some(child), ..RunQuery::new(ws()) };
    let runs = run(bench.store.runs(&query)).unwrap().items;
    let states: Vec<_> = runs.iter().map(|run| (run.id.as_str(), run.state)).collect();
    assert_eq!(states, [("done", RunState::Failed), ("late", RunState::Interrupted)]);
    assert_eq!(runs[1].finished_at, Some(runs[1].updated_at));
    bench.assert_sound();
}

#[test]
fn what_is_being_built_is_hidden_from_its_builder_too() {
    let bench = Bench::new();
    let parent = parent(&bench);
    let (child, fence) = bench.build("child");
    let copy = Op::CopyEntries { from: parent, to: child.clone(), after: None, through: no(2) };
    bench.commit(fenced(&fence, copy)).unwrap();
    let mut record = put("c", "k", None);
    record.owner = Some(child.clone());
    assert_eq!(kind(bench.try_op(Op::PutRecord(record))), ErrorKind::NotFound);
    assert_eq!(kind(run(bench.store.entries(&entry_query(&child)))), ErrorKind::NotFound);
    let runs = RunQuery { session: Some(child.clone()), ..RunQuery::new(ws()) };
    assert_eq!(kind(run(bench.store.runs(&runs))), ErrorKind::NotFound);
    let everywhere = run(bench.store.runs(&RunQuery::new(ws()))).unwrap();
    assert!(everywhere.items.iter().all(|run| run.session != child));
    let key = LeaseKey { workspace: ws(), name: LeaseName::Session(child) };
    assert!(run(bench.store.lease(&key)).unwrap().is_some(), "but whether its builder lives can be asked");
}

#[test]
fn a_session_restored_from_its_rows_reads_the_same() {
    let bench = Bench::new();
    let source = parent(&bench);
    bench.op(Op::PutRecord(put("c", "k", Some(&source))));
    let events = vec![event("a"), event("b"), event("c")];
    bench.op(Op::AppendEvents { session: source.clone(), stream: stream("x"), expect_next: None, events });
    bench.op(Op::DropEvents { session: source.clone(), stream: stream("x"), through: Some(1), close: true });
    let rows = |session: &SessionRef| {
        let query = RowQuery { limit: 1_000, ..RowQuery::session(ws(), session.clone()) };
        run(bench.store.rows(&query)).unwrap().items
    };
    let sent = rows(&source);
    bench.op(Op::DeleteSession { session: source, force: false });
    let (child, fence) = bench.build("copy");
    for slice in sent.chunks(4) {
        let restore = Op::Restore { session: child.clone(), rows: slice.to_vec() };
        bench.commit(fenced(&fence, restore)).unwrap();
    }
    assert!(run(bench.store.records(&RecordQuery::new(ws(), collection("c")))).unwrap().items.is_empty());
    let digest = sent.iter().fold([0; 32], |digest, row| fold_row(&digest, row));
    let leaf = Some(no(6));
    let seal = |rows| Op::SealSession { session: child.clone(), leaf, rows, digest };
    assert_eq!(kind(bench.commit(fenced(&fence, seal(1)))), ErrorKind::Corrupt);
    bench.commit(fenced(&fence, seal(sent.len() as u64))).unwrap();
    let plain = |rows: Vec<Row>| -> Vec<Row> {
        rows.into_iter()
            .map(|row| match row {
                Row::Run(mut run) => {
                    run.session = child.clone();
                    Row::Run(run)
                }
                Row::Record(mut record) => {
                    record.owner = Some(child.clone());
                    record.version.birth = 0;
                    Row::Record(record)
                }
                Row::Session(mut image) => {
                    (image.updated_at, image.activity) = (image.created_at, 0);
                    Row::Session(image)
                }
                row => row,
            })
            .collect()
    };
    assert_eq!(plain(rows(&child)), plain(sent));
    assert_eq!(bench.path(&child), [1, 4, 6]);
    assert_eq!(bench.row("copy").unwrap().state, SessionState::Active);
    assert!(bench.row("parent").is_none());
    assert_eq!(session("copy"), child);
    bench.assert_sound();
}

#[test]
fn a_commit_that_copies_a_session_cannot_change_it_afterwards() {
    let bench = Bench::new();
    let parent = parent(&bench);
    let (child, fence) = bench.build("child");
    let copy = Op::CopyEntries { from: parent.clone(), to: child, after: None, through: no(2) };
    let afterwards = [
        Op::StartRun { session: parent.clone(), run: new_run("r3") },
        Op::ReopenRun { session: parent.clone(), run: RunId::new("r1").unwrap() },
        Op::Append { session: parent.clone(), entries: vec![user("late")] },
        Op::DeleteSession { session: parent.clone(), force: true },
    ];
    for op in afterwards {
        let commit = fenced(&fence, copy.clone()).op(op.clone());
        assert_eq!(kind(bench.commit(commit)), ErrorKind::Invalid, "{op:?}");
    }
    bench.commit(fenced(&fence, copy)).unwrap();
    bench.assert_sound();
}
