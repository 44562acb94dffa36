//! Each fault of the store that fails as told.

use std::sync::Arc;
use std::time::Duration;

use turnkeep_core::commit::{NewEntry, NewSession, Request, RequestId};
use turnkeep_core::model::{LeaseKey, LeaseName, Profile, SessionState};
use turnkeep_core::query::{
    EntryQuery, EventQuery, Mark, RecordQuery, RowQuery, RunQuery, Scope, SearchQuery, SessionQuery,
};
use turnkeep_core::{
    Commit, ErrorKind, Incarnation, Op, Payload, SessionKey, SessionRef, Store, Timestamp, WorkspaceId,
};
use turnkeep_sessions::testing::{Call, Fault, FaultStore};

use crate::site::{Site, on_each};

on_each!(
    nothing_is_done_before_a_failure,
    what_is_done_before_a_failure_is_there_and_a_repeat_lands_once,
    a_commit_dropped_at_a_poll_is_whole_or_absent_and_the_log_says_what_is_known,
    an_answer_that_never_comes_leaves_the_choice_to_the_caller,
    every_read_can_fail_and_heals,
    one_seed_fails_the_same_way_every_time,
    a_store_without_faults_is_the_store,
);

fn session() -> SessionRef {
    SessionRef { id: "s".parse().unwrap(), incarnation: Incarnation::from_bytes([7; 16]) }
}

fn commit() -> Commit {
    Commit::new(WorkspaceId::new("w").unwrap())
}

fn append(text: &str, request: Option<&str>) -> Commit {
    let payload = Payload::from_value(&text).unwrap();
    let mut entry = NewEntry::new("message".parse().unwrap(), Timestamp::from_millis(0), payload);
    entry.text = Some(text.to_owned());
    let commit = commit().op(Op::Append { session: session(), entries: vec![entry] });
    match request {
        Some(id) => commit.request(Request::in_session(RequestId::host(id).unwrap(), session())),
        None => commit,
    }
}

async fn faulty(site: &Site) -> Arc<FaultStore> {
    let store = Arc::new(FaultStore::new(site.store().await));
    let (id, incarnation) = (session().id, session().incarnation);
    let new = NewSession { id, incarnation, state: SessionState::Active, profile: Profile::default() };
    store.commit(commit().op(Op::CreateSession(new))).await.unwrap();
    store
}

async fn texts(store: &FaultStore) -> Vec<String> {
    let query = EntryQuery::new(WorkspaceId::new("w").unwrap(), session());
    let page = store.entries(&query).await.unwrap();
    page.items.into_iter().map(|entry| entry.text.unwrap_or_default()).collect()
}

fn last(store: &FaultStore) -> (Fault, Option<bool>) {
    let log = store.log();
    let noted = log.last().unwrap();
    (noted.fault, noted.done)
}

async fn nothing_is_done_before_a_failure(site: Site) {
    let store = faulty(&site).await;
    for kind in [ErrorKind::Io, ErrorKind::Busy, ErrorKind::Full, ErrorKind::CommitUnknown] {
        store.next([Fault::Before(kind)]);
        assert_eq!(store.commit(append("no", None)).await.unwrap_err().kind(), kind);
        assert_eq!(last(&store), (Fault::Before(kind), Some(false)));
    }
    assert!(texts(&store).await.is_empty());
}

async fn what_is_done_before_a_failure_is_there_and_a_repeat_lands_once(site: Site) {
    let store = faulty(&site).await;
    for (request, kind) in [("one", ErrorKind::CommitUnknown), ("two", ErrorKind::Io)] {
        store.next([Fault::After(kind)]);
        assert_eq!(store.commit(append(request, Some(request))).await.unwrap_err().kind(), kind);
        assert_eq!(last(&store), (Fault::After(kind), Some(true)));
        let again = store.commit(append(request, Some(request))).await.unwrap();
        assert!(again.replayed, "the repeat is answered with the first receipt");
    }
    assert_eq!(texts(&store).await, ["one", "two"]);
    // What the store refuses is no fault: it is answered as it is.
    store.next([Fault::After(ErrorKind::CommitUnknown)]);
    let conflict = store.commit(append("other", Some("one"))).await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::RequestConflict);
    assert_eq!(last(&store).1, Some(false));
}

async fn a_commit_dropped_at_a_poll_is_whole_or_absent_and_the_log_says_what_is_known(site: Site) {
    let store = faulty(&site).await;
    let mut expected = Vec::new();
    for polls in 0..6 {
        let (text, fault) = (format!("dropped at {polls}"), Fault::Drop { polls });
        store.next([fault]);
        let answer = store.commit(append(&text, Some(&text))).await;
        let (seen, done) = last(&store);
        assert_eq!(seen, fault);
        match answer {
            Ok(_) => assert_eq!(done, Some(true)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::CommitUnknown);
                assert_eq!(done, if polls == 0 { Some(false) } else { None });
            }
        }
        store.commit(append(&text, Some(&text))).await.unwrap();
        expected.push(text);
        assert_eq!(texts(&store).await, expected, "once, whatever became of the first try");
    }
}

async fn an_answer_that_never_comes_leaves_the_choice_to_the_caller(site: Site) {
    let store = faulty(&site).await;
    for done in [true, false] {
        store.next([Fault::Silence { done }]);
        let waited =
            tokio::time::timeout(Duration::from_millis(30), store.commit(append("silent", None))).await;
        assert!(waited.is_err());
        assert_eq!(last(&store), (Fault::Silence { done }, Some(done)));
    }
    assert_eq!(texts(&store).await, ["silent"]);
}

async fn every_read_can_fail_and_heals(site: Site) {
    let store = faulty(&site).await;
    let w = WorkspaceId::new("w").unwrap();
    store.when(|call| match call {
        Call::Commit(_) => Fault::Pass,
        Call::Lease(_) => Fault::After(ErrorKind::Corrupt),
        Call::Search(_) => Fault::Drop { polls: 0 },
        _ => Fault::Before(ErrorKind::Corrupt),
    });
    let key = SessionKey { workspace: w.clone(), id: session().id };
    let lease = LeaseKey { workspace: w.clone(), name: LeaseName::Session(session()) };
    let scope = Scope::Workspace(w.clone());
    let kinds = [
        store.session(&key).await.map(drop).unwrap_err().kind(),
        store.sessions(&SessionQuery::new(w.clone())).await.map(drop).unwrap_err().kind(),
        store.entries(&EntryQuery::new(w.clone(), session())).await.map(drop).unwrap_err().kind(),
        store.runs(&RunQuery::new(w.clone())).await.map(drop).unwrap_err().kind(),
        store
            .events(&EventQuery::new(w.clone(), session(), "e".parse().unwrap()))
            .await
            .map(drop)
            .unwrap_err()
            .kind(),
        store.records(&RecordQuery::new(w.clone(), "c".parse().unwrap())).await.map(drop).unwrap_err().kind(),
        store.lease(&lease).await.map(drop).unwrap_err().kind(),
        store.rows(&RowQuery::session(w.clone(), session())).await.map(drop).unwrap_err().kind(),
        store.changes(&scope, Mark::START).await.map(drop).unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Corrupt; 9]);
    let search = store.search(&SearchQuery::new(w, "x")).await.map(drop);
    assert_eq!(search.unwrap_err().kind(), ErrorKind::Io);
    store.heal();
    assert!(store.session(&key).await.unwrap().is_some());
    assert!(store.lease(&lease).await.unwrap().is_none());
}

async fn one_seed_fails_the_same_way_every_time(site: Site) {
    let store = faulty(&site).await;
    let mut faults = Vec::new();
    for _ in 0..2 {
        let before = store.log().len();
        store.seeded(42, 60);
        for at in 0..40 {
            // The host's rule: what nobody knows and what passes is tried again, with the same id.
            let id = format!("{before} {at}");
            let mut tries = 0;
            while let Err(error) = store.commit(append(&id, Some(&id))).await {
                assert!(matches!(error.kind(), ErrorKind::Busy | ErrorKind::CommitUnknown), "{error}");
                tries += 1;
                assert!(tries < 100);
            }
        }
        faults.push(store.log().into_iter().skip(before).map(|noted| noted.fault).collect::<Vec<_>>());
    }
    let shorter = faults[0].len().min(faults[1].len());
    assert_eq!(faults[0][..shorter], faults[1][..shorter]);
    for kind in [Fault::Before(ErrorKind::Busy), Fault::After(ErrorKind::CommitUnknown), Fault::Pass] {
        assert!(faults[0].contains(&kind), "{kind:?} in {:?}", faults[0]);
    }
    let mut seen = texts(&store).await;
    assert_eq!(seen.len(), 80);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 80, "each landed once");
}

async fn a_store_without_faults_is_the_store(site: Site) {
    let inner = site.store().await;
    let store = FaultStore::new(Arc::clone(&inner));
    assert_eq!(store.info(), inner.info());
    assert_eq!(store.maintenance().is_some(), inner.maintenance().is_some());
    store.close().await.unwrap();
    let key = SessionKey { workspace: WorkspaceId::new("w").unwrap(), id: session().id };
    assert_eq!(inner.session(&key).await.unwrap_err().kind(), ErrorKind::Closed);
}

/// Time stands still in this test: it passes as soon as everybody waits.
#[tokio::test(start_paused = true)]
async fn a_delay_is_as_long_as_the_clock_of_the_test_says() {
    let site = Site::memory();
    let store = faulty(&site).await;
    let hour = Duration::from_secs(3_600);
    store.next([Fault::Delay(hour)]);
    let began = tokio::time::Instant::now();
    store.commit(append("late", None)).await.unwrap();
    assert!(began.elapsed() >= hour);
    store.next([Fault::Delay(hour)]);
    let hasty = tokio::time::timeout(hour / 2, store.commit(append("never", None))).await;
    assert!(hasty.is_err(), "the caller gives up first");
    assert_eq!(last(&store), (Fault::Delay(hour), None));
    assert_eq!(texts(&store).await, ["late"]);
}
