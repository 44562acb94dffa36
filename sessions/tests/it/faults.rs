//! Stores that fail, commits of unknown outcome, and futures that are dropped under way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use turnkeep_core::model::{
    Entry, Event, LeaseKey, LeaseName, LeasePurpose, LeaseState, LeaseView, Record, Row, Run, RunState,
    SessionRow, Usage,
};
use turnkeep_core::query::{
    EntryQuery, EventQuery, Mark, RecordQuery, RowQuery, RunQuery, Scope, SessionQuery,
};
use turnkeep_core::{
    Commit, Error, ErrorKind, Op, Page, Receipt, Result, SessionId, SessionKey, Store, StoreInfo, WorkspaceId,
};
use turnkeep_sessions::testing::abandon;
use turnkeep_sessions::{Message, RunError, Session, WaitingFor, Workspace, named_lease};

use crate::site::{Site, on_both};

/// What happens to one of the next commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing is applied; the caller is told that nobody knows.
    UnknownUnapplied,
    /// Applied; the caller is told that nobody knows.
    UnknownApplied,
    /// Nothing is applied, for a reason that passes.
    Busy,
    /// Nothing is applied, and the answer never comes.
    HangUnapplied,
    /// Applied, and the answer never comes.
    HangApplied,
}

/// A store that follows a script.
#[derive(Debug)]
struct Flaky {
    inner: Arc<dyn Store>,
    script: Mutex<VecDeque<Fault>>,
    commits: Mutex<Vec<Commit>>,
    /// Reads of the lease of this session fail.
    broken: Mutex<Option<SessionId>>,
}

impl Flaky {
    fn on(inner: Arc<dyn Store>) -> Arc<Self> {
        let (script, commits) = (Mutex::default(), Mutex::default());
        Arc::new(Self { inner, script, commits, broken: Mutex::default() })
    }

    fn next(&self, faults: &[Fault]) {
        self.script.lock().unwrap().extend(faults);
    }

    fn commits(&self) -> usize {
        self.commits.lock().unwrap().len()
    }
}

#[async_trait]
impl Store for Flaky {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let renewal = commit.ops.iter().all(|op| matches!(op, Op::RenewLease { .. }));
        let fault = if renewal { None } else { self.script.lock().unwrap().pop_front() };
        self.commits.lock().unwrap().push(commit.clone());
        let unknown = || Error::new(ErrorKind::CommitUnknown, "as the script says");
        match fault {
            None => self.inner.commit(commit).await,
            Some(Fault::UnknownUnapplied) => Err(unknown()),
            Some(Fault::UnknownApplied) => {
                self.inner.commit(commit).await?;
                Err(unknown())
            }
            Some(Fault::Busy) => Err(Error::new(ErrorKind::Busy, "as the script says")),
            Some(Fault::HangUnapplied) => std::future::pending().await,
            Some(Fault::HangApplied) => {
                self.inner.commit(commit).await?;
                std::future::pending().await
            }
        }
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        self.inner.session(key).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionRow>> {
        self.inner.sessions(query).await
    }

    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>> {
        self.inner.entries(query).await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Page<Run>> {
        self.inner.runs(query).await
    }

    async fn events(&self, query: &EventQuery) -> Result<Page<Event>> {
        self.inner.events(query).await
    }

    async fn records(&self, query: &RecordQuery) -> Result<Page<Record>> {
        self.inner.records(query).await
    }

    async fn lease(&self, key: &LeaseKey) -> Result<Option<LeaseView>> {
        if let (LeaseName::Session(session), Some(broken)) = (&key.name, &*self.broken.lock().unwrap())
            && session.id == *broken
        {
            return Err(Error::new(ErrorKind::Corrupt, "as the script says"));
        }
        self.inner.lease(key).await
    }

    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>> {
        self.inner.rows(query).await
    }

    async fn changes(&self, scope: &Scope, since: Mark) -> Result<Mark> {
        self.inner.changes(scope, since).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

async fn flaky(site: &Site) -> (Arc<Flaky>, Workspace) {
    let store = Flaky::on(site.store().await);
    let ws = site.options().open(store.clone(), WorkspaceId::new("w").unwrap()).await.unwrap();
    (store, ws)
}

async fn states(session: &Session) -> Vec<RunState> {
    session.runs().list().await.unwrap().items.iter().map(|run| run.state).collect()
}

on_both!(
    an_unknown_commit_is_repeated_and_lands_once,
    an_outcome_that_stays_unknown_is_told_with_its_request,
    a_first_write_of_unknown_outcome_makes_a_lazy_session_once,
    a_beginning_that_was_dropped_under_way_is_closed,
    a_completion_that_was_dropped_under_way_counts_if_it_landed,
    a_resumption_that_was_dropped_under_way_lets_the_run_wait_again,
    a_first_write_that_was_dropped_under_way_asks_for_a_reload,
    a_verdict_does_not_depend_on_the_leaf,
    a_lease_whose_taking_was_dropped_is_given_back,
    a_dropped_run_is_closed_though_the_store_was_busy,
    a_session_that_cannot_be_recovered_keeps_no_other_from_it,
    only_the_usual_commits_are_made,
);

async fn an_unknown_commit_is_repeated_and_lands_once(site: Site) {
    let (store, ws) = flaky(&site).await;
    for fault in [Fault::UnknownUnapplied, Fault::UnknownApplied] {
        store.next(&[fault]);
        let session = ws.sessions().create().await.unwrap();
        store.next(&[fault, fault]);
        session.append([Message::user("one")]).await.unwrap();
        store.next(&[fault]);
        let run = session.begin_run(Message::user("two")).await.unwrap();
        store.next(&[fault, Fault::UnknownApplied, Fault::UnknownApplied]);
        run.append([Message::assistant("three")]).await.unwrap();
        store.next(&[fault, Fault::UnknownApplied]);
        run.stream("fo").await.unwrap();
        store.next(&[fault]);
        run.complete([Message::assistant("four")]).await.unwrap();
        session.append([Message::user("five")]).await.unwrap();
        let texts: Vec<String> =
            session.messages().await.unwrap().items.iter().map(|stored| stored.message.text()).collect();
        assert_eq!(texts, ["one", "two", "three", "four", "five"]);
        assert_eq!(states(&session).await, [RunState::Completed]);
        assert_eq!(session.runs().latest_event().await.unwrap(), 2);
    }
    assert_eq!(ws.sessions().list().count().await.unwrap(), 2);
}

async fn an_outcome_that_stays_unknown_is_told_with_its_request(site: Site) {
    let (store, ws) = flaky(&site).await;
    let session = ws.sessions().create().await.unwrap();
    let before = store.commits();
    store.next(&[Fault::UnknownUnapplied; 4]);
    let unknown = session.append([Message::user("one")]).request_id("job").await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::CommitUnknown);
    assert!(unknown.context().any(|(name, value)| name == "request" && value == "h:job"), "{unknown}");
    assert_eq!(store.commits(), before + 4, "the repeats are bounded");
    let made = session.append([Message::user("one")]).request_id("job").await.unwrap();
    assert_eq!(made.numbers.len(), 1);
    assert_eq!(session.info().await.unwrap().messages, 1);
}

async fn a_first_write_of_unknown_outcome_makes_a_lazy_session_once(site: Site) {
    let (store, ws) = flaky(&site).await;
    let session = ws.sessions().create().lazy().await.unwrap();
    store.next(&[Fault::UnknownApplied]);
    let run = session.begin_run(Message::user("one")).await.unwrap();
    run.complete([Message::assistant("two")]).await.unwrap();
    assert_eq!(session.info().await.unwrap().messages, 2);
}

/// Drops a future that will never be done.
async fn give_up<F: Future>(future: impl IntoFuture<IntoFuture = F, Output = F::Output>) {
    let outcome = tokio::time::timeout(Duration::from_millis(50), future.into_future()).await;
    assert!(outcome.is_err(), "the future was meant to hang");
}

async fn a_beginning_that_was_dropped_under_way_is_closed(site: Site) {
    let (store, ws) = flaky(&site).await;
    for fault in [Fault::HangApplied, Fault::HangUnapplied] {
        let session = ws.sessions().create().await.unwrap();
        store.next(&[fault]);
        give_up(session.begin_run(Message::user("given up"))).await;
        let run = session.begin_run(Message::user("again")).await.unwrap();
        run.complete([Message::assistant("a")]).await.unwrap();
        assert_eq!(states(&session).await, [RunState::Completed, RunState::Interrupted], "{fault:?}");
        assert_eq!(session.replay().await.unwrap().messages.len(), 2);
    }
}

async fn a_resumption_that_was_dropped_under_way_lets_the_run_wait_again(site: Site) {
    let (store, ws) = flaky(&site).await;
    for fault in [Fault::HangApplied, Fault::HangUnapplied] {
        let session = ws.sessions().create().await.unwrap();
        let run = session.begin_run(Message::user("which?")).await.unwrap();
        run.wait_for(WaitingFor::Input).await.unwrap();
        store.next(&[fault]);
        give_up(Box::pin(run.resume())).await;
        ws.settle().await;
        assert_eq!(states(&session).await, [RunState::WaitingInput], "{fault:?}");
        run.resume().await.unwrap();
        run.complete([Message::assistant("that")]).await.unwrap();
    }
}

async fn a_completion_that_was_dropped_under_way_counts_if_it_landed(site: Site) {
    let (store, ws) = flaky(&site).await;
    for (fault, state) in
        [(Fault::HangApplied, RunState::Completed), (Fault::HangUnapplied, RunState::Interrupted)]
    {
        let session = ws.sessions().create().await.unwrap();
        let run = session.begin_run(Message::user("q")).await.unwrap();
        store.next(&[fault]);
        give_up(run.complete([Message::assistant("a")])).await;
        drop(run);
        ws.settle().await;
        assert_eq!(states(&session).await, [state]);
        session.reload().await.unwrap();
        session.begin_run(Message::user("on")).await.unwrap().cancel().await.unwrap();
    }
}

async fn a_first_write_that_was_dropped_under_way_asks_for_a_reload(site: Site) {
    let (store, ws) = flaky(&site).await;
    let session = ws.sessions().create().lazy().await.unwrap();
    store.next(&[Fault::HangApplied]);
    give_up(session.append([Message::user("one")])).await;
    let refused = session.append([Message::user("two")]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StaleLeaf, "it must see what it wrote");
    session.reload().await.unwrap();
    session.append([Message::user("two")]).await.unwrap();
    assert_eq!(session.info().await.unwrap().messages, 2);
}

async fn a_verdict_does_not_depend_on_the_leaf(site: Site) {
    let (store, ws) = flaky(&site).await;
    let session = ws.sessions().create().await.unwrap();
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.append([Message::assistant("one")]).await.unwrap();
    store.next(&[Fault::HangApplied]);
    give_up(run.append([Message::assistant("two")])).await;
    // The handle does not know the leaf any more: what continues the conversation is refused, all else goes on.
    let refused = run.append([Message::assistant("three")]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StaleLeaf);
    assert_eq!(run.complete([Message::assistant("three")]).await.unwrap_err().kind(), ErrorKind::StaleLeaf);
    run.stream("three").await.unwrap();
    run.add_usage(Usage { requests: 1, ..Usage::default() }).await.unwrap();
    run.fail(RunError::host("confused")).await.unwrap();
    assert_eq!(states(&session).await, [RunState::Failed]);
    assert_eq!(session.info().await.unwrap().messages, 3);
}

async fn a_lease_whose_taking_was_dropped_is_given_back(site: Site) {
    let (store, ws) = flaky(&site).await;
    let name = named_lease("a").unwrap();
    let leases = ws.leases();
    store.next(&[Fault::HangApplied]);
    give_up(Box::pin(leases.try_acquire([name.clone()], LeasePurpose::Mutation))).await;
    ws.settle().await;
    assert_eq!(leases.view(name.clone()).await.unwrap().unwrap().state, LeaseState::Released);
    leases.try_acquire([name], LeasePurpose::Mutation).await.unwrap();
}

async fn a_dropped_run_is_closed_though_the_store_was_busy(site: Site) {
    let (store, ws) = flaky(&site).await;
    let session = ws.sessions().create().await.unwrap();
    let run = session.begin_run(Message::user("q")).await.unwrap();
    store.next(&[Fault::Busy, Fault::Busy, Fault::UnknownApplied]);
    drop(run);
    session.append([Message::user("on")]).await.unwrap();
    assert_eq!(states(&session).await, [RunState::Interrupted]);
}

async fn a_session_that_cannot_be_recovered_keeps_no_other_from_it(site: Site) {
    let (broken, sound) = {
        let ws = site.workspace().await;
        let mut ids = Vec::new();
        for _ in 0..2 {
            let session = ws.sessions().create().await.unwrap();
            abandon(session.begin_run(Message::user("q")).await.unwrap());
            ids.push(session.id().clone());
        }
        ws.close().await.unwrap();
        (ids[0].clone(), ids[1].clone())
    };
    let store = Flaky::on(site.store().await);
    *store.broken.lock().unwrap() = Some(broken.clone());
    let ws = site.options().open(store.clone(), WorkspaceId::new("w").unwrap()).await.unwrap();
    let report = ws.recovered();
    assert_eq!(report.interrupted.len(), 1);
    assert_eq!(report.interrupted[0].session.id, sound);
    assert_eq!(report.failed.len(), 1);
    assert_eq!((&report.failed[0].0.id, report.failed[0].1.kind()), (&broken, ErrorKind::Corrupt));
    *store.broken.lock().unwrap() = None;
    assert_eq!(ws.recover().await.unwrap().interrupted.len(), 1, "what was left is done later");
}

async fn only_the_usual_commits_are_made(site: Site) {
    let (store, ws) = flaky(&site).await;
    let session = ws.sessions().create().await.unwrap();
    let before = store.commits();
    let run = session.begin_run(Message::user("q")).await.unwrap();
    assert_eq!(store.commits(), before + 1, "admission is one commit");
    run.append([Message::assistant("thinking")]).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
    assert_eq!(store.commits(), before + 3, "and so is closing");
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.stream("he").await.unwrap();
    run.stream("llo").await.unwrap();
    run.cancel().await.unwrap();
    for commit in store.commits.lock().unwrap().iter() {
        let streams = commit.ops.iter().all(|op| matches!(op, Op::AppendEvents { expect_next: Some(_), .. }));
        assert_eq!(
            commit.request.is_none(),
            streams,
            "each can be repeated, and streaming needs no ledger row"
        );
    }
}
