//! Deleting: gone at once, purged in slices, inherited by nobody.

use turnkeep_core::commit::{Commit, Op, Request, RequestId};
use turnkeep_core::model::{LeaseName, SessionState};
use turnkeep_core::query::{EventQuery, Mark};
use turnkeep_core::query::{RecordQuery, RowQuery, RunQuery, Scope, SessionQuery};
use turnkeep_core::{ErrorKind, SessionRef, Store};

use crate::support::{
    Bench, collection, creation, entry_query, event, grant, keyed, kind, life, new_run, put, run, stream,
    user, ws,
};

/// A session with rows in every table.
fn full(bench: &Bench, session: &SessionRef, entries: usize) {
    let mut batch = vec![keyed("first", "k")];
    batch.extend((1..entries).map(|n| user(&format!("{n}"))));
    let (lease, fence) = grant(&bench.store, LeaseName::Session(session.clone()), 1);
    let commit = Commit::new(ws())
        .request(Request::in_session(RequestId::host("r").unwrap(), session.clone()))
        .op(Op::AcquireLease(lease))
        .op(Op::StartRun { session: session.clone(), run: new_run("run") })
        .op(Op::Append { session: session.clone(), entries: batch })
        .op(Op::PutRecord(put("c", "k", Some(session))))
        .op(Op::AppendEvents {
            session: session.clone(),
            stream: stream("x"),
            expect_next: None,
            events: vec![event("e")],
        });
    bench.commit(commit).unwrap();
    let owned = Request::in_workspace(RequestId::host("made it").unwrap()).owned_by(session.clone());
    bench.commit(Commit::new(ws()).request(owned).fence(fence)).unwrap();
}

fn delete(bench: &Bench, session: &SessionRef) {
    bench.op(Op::DeleteSession { session: session.clone(), force: true });
}

#[test]
fn a_deleted_session_is_gone_from_every_read_at_once() {
    let bench = Bench::new();
    let s = bench.create("s");
    full(&bench, &s, 3);
    delete(&bench, &s);
    let store = &bench.store;
    assert_eq!(bench.row("s"), None);
    assert!(run(store.sessions(&SessionQuery::new(ws()))).unwrap().items.is_empty());
    let text = SessionQuery { text: Some("first".to_owned()), ..SessionQuery::new(ws()) };
    assert!(run(store.sessions(&text)).unwrap().items.is_empty());
    assert!(run(store.runs(&RunQuery::new(ws()))).unwrap().items.is_empty());
    assert!(run(store.records(&RecordQuery::new(ws(), collection("c")))).unwrap().items.is_empty());
    assert!(run(store.rows(&RowQuery::unowned(ws()))).unwrap().items.is_empty());
    assert_eq!(kind(run(store.entries(&entry_query(&s)))), ErrorKind::NotFound);
    assert_eq!(kind(run(store.events(&EventQuery::new(ws(), s.clone(), stream("x"))))), ErrorKind::NotFound);
    assert_eq!(kind(run(store.rows(&RowQuery::session(ws(), s.clone())))), ErrorKind::NotFound);
    let scope = Scope::Session { workspace: ws(), session: s.clone() };
    assert_eq!(kind(run(store.changes(&scope, Mark::START))), ErrorKind::NotFound);
    let late = Op::Append { session: s, entries: vec![user("late")] };
    assert_eq!(kind(bench.try_op(late)), ErrorKind::NotFound);
}

#[test]
fn a_purge_leaves_no_residue_and_what_others_own_alone() {
    let bench = Bench::new();
    let (s, t) = (bench.create("s"), bench.create("t"));
    full(&bench, &s, 2_500);
    bench.op(Op::PutRecord(put("c", "t's", Some(&t))));
    bench.op(Op::PutRecord(put("c", "nobody's", None)));
    bench.append(&t, vec![keyed("kept", "k")]);
    assert_eq!(bench.store.residue().unwrap(), vec![]);
    delete(&bench, &s);
    let waiting = bench.store.residue().unwrap();
    for table in ["entries", "keys", "segments", "runs", "streams", "events", "records", "ordinals", "leases"]
    {
        assert!(waiting.iter().any(|(name, count)| *name == table && *count > 0), "{table}: {waiting:?}");
    }
    assert!(waiting.contains(&("requests", 2)), "{waiting:?}");
    let maintenance = bench.store.maintenance().unwrap();
    assert_eq!(run(maintenance.stats()).unwrap().purges, 1);
    let report = run(maintenance.purge()).unwrap();
    assert_eq!(report.sessions, 1);
    assert!(report.rows > 2_500, "{report:?}");
    assert_eq!(run(maintenance.stats()).unwrap().purges, 0);
    assert_eq!(bench.store.residue().unwrap(), vec![]);
    assert_eq!(run(maintenance.purge()).unwrap(), Default::default());
    assert_eq!(bench.row("t").unwrap().messages, 1);
    let left = run(bench.store.records(&RecordQuery::new(ws(), collection("c")))).unwrap();
    assert_eq!(left.items.len(), 2);
    bench.assert_sound();
}

#[test]
fn later_commits_purge_in_slices_of_a_thousand_rows() {
    let bench = Bench::new();
    let s = bench.create("s");
    bench.append(&s, (0..2_500).map(|n| user(&format!("{n}"))).collect());
    delete(&bench, &s);
    let entries = || run(bench.store.maintenance().unwrap().stats()).unwrap().entries;
    let mut left = vec![entries()];
    for n in 0..3 {
        bench.create(&format!("t{n}"));
        left.push(entries());
    }
    assert_eq!(left, [2_500, 1_500, 500, 0]);
    assert_eq!(bench.store.residue().unwrap(), vec![]);
}

#[test]
fn a_purge_lets_other_tasks_of_its_thread_commit_between_slices() {
    let bench = Bench::new();
    let s = bench.create("s");
    bench.append(&s, (0..9_000).map(|n| user(&format!("{n}"))).collect());
    delete(&bench, &s);
    let commit = Commit::new(ws()).op(creation(&life("t", 1), SessionState::Active, Default::default()));
    let (left, report) = run(async {
        let maintenance = bench.store.maintenance().unwrap();
        let other = async {
            bench.store.commit(commit).await.unwrap();
            maintenance.stats().await.unwrap().entries
        };
        let (report, left) = tokio::join!(maintenance.purge(), other);
        (left, report.unwrap())
    });
    assert!(left > 0, "the other task ran before the purge ended");
    assert_eq!(report.sessions, 1);
    assert_eq!(bench.store.residue().unwrap(), vec![]);
}

#[test]
fn a_session_made_again_inherits_nothing() {
    for purge_first in [false, true] {
        let bench = Bench::new();
        let old = bench.create("s");
        full(&bench, &old, 3);
        delete(&bench, &old);
        if purge_first {
            run(bench.store.maintenance().unwrap().purge()).unwrap();
        }
        let new = life("s", 2);
        bench.op(creation(&new, SessionState::Active, Default::default()));
        let row = bench.row("s").unwrap();
        assert_eq!((row.head, row.messages, row.runs, row.revision), (None, 0, 0, 1));
        assert!(bench.entries(&entry_query(&new)).items.is_empty());
        let events = EventQuery::new(ws(), new.clone(), stream("x"));
        assert!(run(bench.store.events(&events)).unwrap().items.is_empty());
        let again = Request::in_session(RequestId::host("r").unwrap(), new.clone());
        let receipt = bench.commit(Commit::new(ws()).request(again)).unwrap();
        assert!(!receipt.replayed);
        let made = Request::in_workspace(RequestId::host("made it").unwrap()).owned_by(new.clone());
        let receipt = bench.commit(Commit::new(ws()).request(made)).unwrap();
        assert!(!receipt.replayed, "a receipt died with the session that owned it");
        bench.append(&new, vec![keyed("fresh", "k")]);
        assert_eq!(bench.entries(&entry_query(&new)).items.len(), 1);
        let (_, stale) = grant(&bench.store, LeaseName::Session(old.clone()), 1);
        assert_eq!(kind(bench.commit(Commit::new(ws()).fence(stale))), ErrorKind::LeaseLost);
        run(bench.store.maintenance().unwrap().purge()).unwrap();
        assert_eq!(bench.store.residue().unwrap(), vec![]);
        let again = Request::in_session(RequestId::host("r").unwrap(), new);
        assert!(
            bench.commit(Commit::new(ws()).request(again)).unwrap().replayed,
            "the purge took its own only"
        );
        bench.assert_sound();
    }
}

#[test]
fn one_incarnation_drawn_twice_still_inherits_nothing() {
    let bench = Bench::new();
    let s = bench.create("s");
    full(&bench, &s, 1_500);
    delete(&bench, &s);
    bench.create("s");
    assert!(bench.entries(&entry_query(&s)).items.is_empty());
    assert!(run(bench.store.records(&RecordQuery::new(ws(), collection("c")))).unwrap().items.is_empty());
    full(&bench, &s, 2);
    run(bench.store.maintenance().unwrap().purge()).unwrap();
    assert_eq!(bench.entries(&entry_query(&s)).items.len(), 2);
    bench.assert_sound();
}

#[test]
fn receipts_of_generated_requests_are_removed_when_they_have_expired() {
    let bench = Bench::new();
    let now = turnkeep_core::Clock::now(&bench.clock);
    let request = Request::in_workspace(RequestId::generated(now, [1; 10]));
    let commit = Commit::new(ws()).request(request).op(Op::PutRecord(put("c", "k", None)));
    bench.commit(commit.clone()).unwrap();
    assert!(bench.commit(commit.clone()).unwrap().replayed);
    bench.clock.advance_ms(turnkeep_core::limits::REQUEST_MS);
    assert!(bench.commit(commit.clone()).unwrap().replayed, "seven days are not over yet");
    bench.clock.advance_ms(1);
    assert_eq!(kind(bench.commit(commit)), ErrorKind::RequestExpired);
    bench.assert_sound();
}

#[test]
fn a_refused_commit_touches_no_row_of_any_table() {
    let bench = Bench::new();
    let (s, t) = (bench.create("s"), bench.create("t"));
    full(&bench, &s, 3);
    full(&bench, &t, 3);
    delete(&bench, &t);
    let before = bench.store.table_rows().unwrap();
    let commit = Commit::new(ws())
        .request(Request::in_workspace(RequestId::host("other").unwrap()))
        .op(Op::PutRecord(put("c", "k2", None)))
        .op(creation(&life("new", 1), SessionState::Active, Default::default()))
        .op(creation(&life("s", 2), SessionState::Active, Default::default()));
    assert_eq!(kind(bench.commit(commit)), ErrorKind::AlreadyExists);
    assert_eq!(bench.store.table_rows().unwrap(), before);
}
