//! Records, leases, marks, runs and events.

use turnkeep_core::commit::{Commit, Op, Request, RequestId};
use turnkeep_core::id::{IntentId, Status};
use turnkeep_core::model::{
    LeaseKey, LeaseName, LeaseState, Liveness, Record, Run, RunState, RunStates, SessionState,
};
use turnkeep_core::query::{EventQuery, Mark, Order, OwnerFilter, Page, RecordQuery, RunQuery, Scope};
use turnkeep_core::{ErrorKind, Expect, RunId, SessionId, Store};

use crate::support::{
    Bench, collection, creation, event, flatten, grant, kind, life, new_run, put, record_key, run, session,
    stream, user, walk, ws,
};

fn records(bench: &Bench, query: &RecordQuery) -> Page<Record> {
    run(bench.store.records(query)).unwrap()
}

fn keys(page: &Page<Record>) -> Vec<String> {
    page.items.iter().map(|record| record.key.as_str().to_owned()).collect()
}

fn all(name: &str) -> RecordQuery {
    RecordQuery::new(ws(), collection(name))
}

#[test]
fn records_are_listed_by_ordinal_then_key() {
    let bench = Bench::new();
    let (a, b) = (bench.create("a"), bench.create("b"));
    for (key, owner) in [("z", Some(&a)), ("y", Some(&b)), ("x", Some(&a)), ("w", None)] {
        bench.op(Op::PutRecord(put("c", key, owner)));
    }
    bench.op(Op::PutRecord(put("other", "v", None)));
    assert_eq!(keys(&records(&bench, &all("c"))), ["w", "y", "z", "x"]);
    let of = |owner| RecordQuery { owner, ..all("c") };
    assert_eq!(keys(&records(&bench, &of(OwnerFilter::Session(a.clone())))), ["z", "x"]);
    assert_eq!(keys(&records(&bench, &of(OwnerFilter::Unowned))), ["w"]);
    let one = RecordQuery { key: Some(record_key("y")), ..of(OwnerFilter::Session(b.clone())) };
    assert_eq!(keys(&records(&bench, &one)), ["y"]);
    let not_his = RecordQuery { owner: OwnerFilter::Session(a.clone()), ..one };
    assert_eq!(keys(&records(&bench, &not_his)), Vec::<String>::new());
    bench.op(Op::PutRecord(put("c", "z", Some(&b))));
    assert_eq!(keys(&records(&bench, &of(OwnerFilter::Session(b)))), ["y", "z"], "it moved to the end");
    assert_eq!(keys(&records(&bench, &of(OwnerFilter::Session(a)))), ["x"]);
    bench.assert_sound();
}

#[test]
fn record_pages_add_up_in_every_order_and_survive_deletes() {
    let bench = Bench::new();
    for n in 0..7 {
        bench.op(Op::PutRecord(put("c", &format!("k{n}"), None)));
    }
    for order in [Order::Ascending, Order::Descending, Order::Latest] {
        let whole = keys(&records(&bench, &RecordQuery { order, ..all("c") }));
        for limit in [1, 3, 7, 8] {
            let pages = walk(limit, |limit, cursor| {
                records(&bench, &RecordQuery { order, limit, cursor, ..all("c") })
            });
            let walked: Vec<_> =
                flatten(order, pages).iter().map(|record| record.key.as_str().to_owned()).collect();
            assert_eq!(walked, whole, "{order:?} by {limit}");
        }
    }
    let first = records(&bench, &RecordQuery { limit: 3, ..all("c") });
    let (collection, key) = (collection("c"), record_key("k2"));
    bench.op(Op::DeleteRecord { collection, key, owner: None, expect: Expect::Any });
    let rest = records(&bench, &RecordQuery { cursor: first.next, ..all("c") });
    assert_eq!(keys(&rest), ["k3", "k4", "k5", "k6"]);
}

#[test]
fn records_are_filtered_by_status_and_read_as_absent_with_their_owner() {
    let bench = Bench::new();
    let a = bench.create("a");
    let mut waiting = put("c", "w", Some(&a));
    waiting.status = Some(Status::new("waiting").unwrap());
    bench.op(Op::PutRecord(waiting));
    bench.op(Op::PutRecord(put("c", "n", None)));
    let by = |status: &str| RecordQuery { status: Some(Status::new(status).unwrap()), ..all("c") };
    assert_eq!(keys(&records(&bench, &by("waiting"))), ["w"]);
    assert_eq!(keys(&records(&bench, &by("done"))), Vec::<String>::new());
    bench.op(Op::DeleteSession { session: a.clone(), force: false });
    assert_eq!(keys(&records(&bench, &all("c"))), ["n"]);
    let query = RecordQuery { owner: OwnerFilter::Session(a), ..all("c") };
    assert_eq!(kind(run(bench.store.records(&query))), ErrorKind::NotFound);
    let taken = bench.op(Op::PutRecord(put("c", "w", None)));
    assert_eq!(taken.outcomes.len(), 1, "a record of a deleted owner may be overwritten");
    assert_eq!(keys(&records(&bench, &all("c"))), ["n", "w"]);
    bench.assert_sound();
}

#[test]
fn a_lease_shows_its_holder_and_stays_as_a_tombstone() {
    let bench = Bench::new();
    let s = bench.create("s");
    let name = LeaseName::Session(s.clone());
    let key = LeaseKey { workspace: ws(), name: name.clone() };
    assert_eq!(run(bench.store.lease(&key)).unwrap(), None);
    let (grant, fence) = grant(&bench.store, name, 1);
    bench.op(Op::AcquireLease(grant));
    let held = run(bench.store.lease(&key)).unwrap().unwrap();
    assert_eq!((held.state, held.epoch, held.liveness), (LeaseState::Held, 1, Liveness::Alive));
    assert!(!held.expired);
    bench.clock.advance_ms(30_000);
    assert!(run(bench.store.lease(&key)).unwrap().unwrap().expired, "it expires at the moment it names");
    bench.op(Op::ReleaseLease { fence });
    let released = run(bench.store.lease(&key)).unwrap().unwrap();
    assert_eq!((released.state, released.epoch), (LeaseState::Released, 1));
    bench.op(Op::DeleteSession { session: s, force: false });
    assert_eq!(run(bench.store.lease(&key)).unwrap(), None, "it is gone with its session, purged or not");
}

#[test]
fn a_mark_moves_with_everything_but_leases_and_stored_receipts() {
    let bench = Bench::new();
    let mark = |scope: &Scope| run(bench.store.changes(scope, Mark::START)).unwrap();
    let everything = Scope::Workspace(ws());
    assert_eq!(mark(&everything), Mark::START);
    let (taken, fence) = grant(&bench.store, LeaseName::Named("n".parse().unwrap()), 1);
    bench.op(Op::AcquireLease(taken));
    assert_eq!(mark(&everything), Mark::START, "a lease is nothing to see");
    let s = bench.create("s");
    let one = Scope::Session { workspace: ws(), session: s.clone() };
    let mut seen = (mark(&everything), mark(&one));
    assert!(seen.0 != Mark::START && seen.1 != Mark::START);
    let (on_session, _) = grant(&bench.store, LeaseName::Session(s.clone()), 2);
    let release = Op::ReleaseLease { fence };
    for still in [Op::AcquireLease(on_session), release] {
        bench.op(still);
        assert_eq!((mark(&everything), mark(&one)), seen);
    }
    let request = Request::in_workspace(RequestId::host("r").unwrap());
    bench.commit(Commit::new(ws()).request(request)).unwrap();
    assert_eq!((mark(&everything), mark(&one)), seen);
    let moving = [
        Op::PutRecord(put("c", "k", Some(&s))),
        Op::AppendEvents {
            session: s.clone(),
            stream: stream("x"),
            expect_next: None,
            events: vec![event("e")],
        },
    ];
    for op in moving {
        bench.op(op);
        let now = (mark(&everything), mark(&one));
        assert!(now.0 != seen.0 && now.1 != seen.1);
        seen = now;
    }
    bench.op(Op::PutRecord(put("c", "nobody's", None)));
    assert_ne!(mark(&everything), seen.0);
    assert_eq!(mark(&one), seen.1);
    let before = mark(&everything);
    bench.op(Op::DeleteSession { session: s.clone(), force: true });
    assert_ne!(mark(&everything), before, "a delete is a change too");
    assert_eq!(kind(run(bench.store.changes(&one, Mark::START))), ErrorKind::NotFound);
    bench.op(creation(&life("s", 2), SessionState::Active, Default::default()));
    let again = Scope::Session { workspace: ws(), session: life("s", 2) };
    assert_ne!(mark(&again), seen.1, "another life has other marks");
}

fn run_ids(page: &Page<Run>) -> Vec<(String, String)> {
    let name = |run: &Run| (run.session.id.as_str().to_owned(), run.id.as_str().to_owned());
    page.items.iter().map(name).collect()
}

fn start(bench: &Bench, session: &turnkeep_core::SessionRef, id: &str, intent: Option<&str>) {
    let mut new = new_run(id);
    new.intent = intent.map(|intent| IntentId::new(intent).unwrap());
    bench.op(Op::StartRun { session: session.clone(), run: new });
}

fn finish(bench: &Bench, session: &turnkeep_core::SessionRef, id: &str) {
    bench.op(Op::TransitionRun {
        session: session.clone(),
        run: RunId::new(id).unwrap(),
        from: RunStates::ACTIVE,
        to: RunState::Completed,
        error: None,
    });
}

#[test]
fn runs_are_listed_by_session_then_number_in_pages_of_any_size() {
    let bench = Bench::new();
    let (b, a) = (bench.create("b"), bench.create("a"));
    for (session, id) in [(&b, "z"), (&a, "y"), (&b, "x"), (&a, "w"), (&a, "v")] {
        start(&bench, session, id, None);
        finish(&bench, session, id);
    }
    start(&bench, &b, "u", Some("i"));
    let whole = [("a", "y"), ("a", "w"), ("a", "v"), ("b", "z"), ("b", "x"), ("b", "u")]
        .map(|(session, run)| (session.to_owned(), run.to_owned()));
    for order in [Order::Ascending, Order::Descending, Order::Latest] {
        for limit in [1, 2, 4, 6, 7] {
            let pages = walk(limit, |limit, cursor| {
                run(bench.store.runs(&RunQuery { order, limit, cursor, ..RunQuery::new(ws()) })).unwrap()
            });
            let items = flatten(order, pages);
            let mut walked = run_ids(&Page { items, next: None, total: None });
            if order == Order::Descending {
                walked.reverse();
            }
            assert_eq!(walked, whole, "{order:?} by {limit}");
        }
    }
    let narrowed = |query: RunQuery| run_ids(&run(bench.store.runs(&query)).unwrap());
    let base = || RunQuery::new(ws());
    assert_eq!(narrowed(RunQuery { session: Some(b.clone()), ..base() }), whole[3..]);
    assert_eq!(narrowed(RunQuery { states: RunStates::ACTIVE, ..base() }), whole[5..]);
    assert_eq!(narrowed(RunQuery { intent: IntentId::new("i").ok(), ..base() }), whole[5..]);
    assert_eq!(narrowed(RunQuery { id: RunId::new("w").ok(), ..base() }), whole[1..2]);
    let gone = RunQuery { session: Some(session("c")), ..base() };
    assert_eq!(kind(run(bench.store.runs(&gone))), ErrorKind::NotFound);
    bench.assert_sound();
}

#[test]
fn a_retry_names_the_newest_attempt() {
    let bench = Bench::new();
    let s = bench.create("s");
    let mut after = None;
    for (attempt, id) in (1..).zip(["r1", "r2", "r3"]) {
        let mut new = new_run(id);
        (new.intent, new.after) = (IntentId::new("i").ok(), after);
        let receipt = bench.op(Op::StartRun { session: s.clone(), run: new });
        assert_eq!(receipt.outcomes, [turnkeep_core::Outcome::Run { number: attempt, attempt }]);
        finish(&bench, &s, id);
        after = RunId::new(id).ok();
    }
    let mut stale = new_run("r4");
    (stale.intent, stale.after) = (IntentId::new("i").ok(), RunId::new("r2").ok());
    let stale = Op::StartRun { session: s, run: stale };
    assert_eq!(kind(bench.try_op(stale)), ErrorKind::VersionConflict);
}

#[test]
fn events_are_numbered_per_stream_and_keep_their_numbers_when_dropped() {
    let bench = Bench::new();
    let s = bench.create("s");
    let append = |name: &str, count: usize| Op::AppendEvents {
        session: s.clone(),
        stream: stream(name),
        expect_next: None,
        events: (0..count).map(|n| event(&format!("{n}"))).collect(),
    };
    bench.op(append("x", 5));
    bench.op(append("y", 1));
    bench.op(append("x", 2));
    let query = EventQuery::new(ws(), s.clone(), stream("x"));
    let read = |query: EventQuery| -> Vec<u64> {
        run(bench.store.events(&query)).unwrap().items.iter().map(|event| event.number).collect()
    };
    assert_eq!(read(query.clone()), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(read(EventQuery { after: Some(2), before: Some(5), ..query.clone() }), [3, 4]);
    assert_eq!(read(EventQuery { before: Some(0), ..query.clone() }), Vec::<u64>::new());
    assert_eq!(read(EventQuery { after: Some(u64::MAX), ..query.clone() }), Vec::<u64>::new());
    for order in [Order::Ascending, Order::Descending, Order::Latest] {
        let whole = read(EventQuery { order, ..query.clone() });
        for limit in [1, 3, 7] {
            let pages = walk(limit, |limit, cursor| {
                run(bench.store.events(&EventQuery { order, limit, cursor, ..query.clone() })).unwrap()
            });
            let walked: Vec<u64> = flatten(order, pages).iter().map(|event| event.number).collect();
            assert_eq!(walked, whole, "{order:?} by {limit}");
        }
    }
    bench.op(Op::DropEvents { session: s.clone(), stream: stream("x"), through: Some(4), close: false });
    bench.op(append("x", 1));
    assert_eq!(read(query.clone()), [5, 6, 7, 8]);
    bench.op(Op::DropEvents { session: s.clone(), stream: stream("x"), through: None, close: true });
    assert_eq!(read(query), Vec::<u64>::new());
    assert_eq!(kind(bench.try_op(append("x", 1))), ErrorKind::TurnNotOpen);
    assert_eq!(read(EventQuery::new(ws(), s.clone(), stream("unheard"))), Vec::<u64>::new());
    let gone = EventQuery::new(ws(), session("t"), stream("x"));
    assert_eq!(kind(run(bench.store.events(&gone))), ErrorKind::NotFound);
    bench.assert_sound();
}

#[test]
fn a_repeated_request_answers_with_the_first_receipt_and_does_nothing() {
    let bench = Bench::new();
    let s = bench.create("s");
    let request = Request::in_session(RequestId::host("r").unwrap(), s.clone());
    let commit = |text: &str| {
        Commit::new(ws())
            .request(request.clone())
            .op(Op::Append { session: s.clone(), entries: vec![user(text)] })
    };
    let first = bench.commit(commit("once")).unwrap();
    let mut again = bench.commit(commit("once")).unwrap();
    assert!(again.replayed);
    again.replayed = false;
    assert_eq!(again, first);
    assert_eq!(bench.row("s").unwrap().head, first.entries(0).next());
    assert_eq!(kind(bench.commit(commit("other"))), ErrorKind::RequestConflict);
    let elsewhere = bench.create("t");
    let other_scope = Commit::new(ws())
        .request(Request::in_session(RequestId::host("r").unwrap(), elsewhere.clone()))
        .op(Op::Append { session: elsewhere, entries: vec![user("once")] });
    assert!(!bench.commit(other_scope).unwrap().replayed, "a request is unique in its scope only");
}

#[test]
fn a_refused_commit_changes_nothing() {
    let bench = Bench::new();
    let s = bench.create("s");
    bench.append(&s, vec![user("1")]);
    let before = (bench.row("s"), run(bench.store.changes(&Scope::Workspace(ws()), Mark::START)).unwrap());
    let commit = Commit::new(ws())
        .op(Op::Append { session: s.clone(), entries: vec![user("2")] })
        .op(Op::PutRecord(put("c", "k", Some(&s))))
        .op(Op::StartRun { session: s.clone(), run: new_run("r") })
        .op(Op::MoveLeaf { session: s.clone(), to: Some(crate::support::no(9)) });
    assert_eq!(kind(bench.commit(commit)), ErrorKind::NotFound);
    let after = (bench.row("s"), run(bench.store.changes(&Scope::Workspace(ws()), Mark::START)).unwrap());
    assert_eq!(after, before);
    assert!(records(&bench, &all("c")).items.is_empty());
    assert!(run(bench.store.runs(&RunQuery::new(ws()))).unwrap().items.is_empty());
    bench.assert_sound();
}

#[test]
fn workspaces_are_those_that_have_something_to_see() {
    let bench = Bench::new();
    let list = || -> Vec<String> {
        let all = run(bench.store.maintenance().unwrap().workspaces()).unwrap();
        all.iter().map(|id| id.as_str().to_owned()).collect()
    };
    assert_eq!(list(), Vec::<String>::new());
    let s = bench.create("s");
    let other = "a".parse().unwrap();
    let record = Commit::new(other).op(Op::PutRecord(put("c", "k", None)));
    bench.commit(record).unwrap();
    assert_eq!(list(), ["a", "w"]);
    bench.op(Op::DeleteSession { session: s, force: false });
    assert_eq!(list(), ["a"]);
    assert!(SessionId::new("s").is_ok());
}
