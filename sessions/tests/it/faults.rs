//! Stores that fail, commits of unknown outcome, and futures that are dropped under way.

use std::sync::Arc;
use std::time::Duration;

use turnkeep_core::model::{LeaseKey, LeaseName, LeasePurpose, LeaseState, RunState, Usage};
use turnkeep_core::{ErrorKind, Op, WorkspaceId};
use turnkeep_sessions::testing::{Call, Fault, FaultStore, abandon};
use turnkeep_sessions::{Message, RunError, Session, WaitingFor, Workspace, named_lease};

use crate::site::{Site, on_each};

/// Nothing is applied; the caller is told that nobody knows.
const UNAPPLIED: Fault = Fault::Before(ErrorKind::CommitUnknown);
/// Applied; the caller is told that nobody knows.
const APPLIED: Fault = Fault::After(ErrorKind::CommitUnknown);
/// Nothing is applied, for a reason that passes.
const BUSY: Fault = Fault::Before(ErrorKind::Busy);
/// Applied or not, the answer never comes.
const HANG_UNAPPLIED: Fault = Fault::Silence { done: false };
const HANG_APPLIED: Fault = Fault::Silence { done: true };

async fn flaky(site: &Site) -> (Arc<FaultStore>, Workspace) {
    let store = Arc::new(FaultStore::new(site.store().await));
    let ws = site.options().open(store.clone(), WorkspaceId::new("w").unwrap()).await.unwrap();
    (store, ws)
}

async fn states(session: &Session) -> Vec<RunState> {
    session.runs().list().await.unwrap().items.iter().map(|run| run.state).collect()
}

on_each!(
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
    for fault in [UNAPPLIED, APPLIED] {
        store.next([fault]);
        let session = ws.sessions().create().await.unwrap();
        store.next([fault, fault]);
        session.append([Message::user("one")]).await.unwrap();
        store.next([fault]);
        let run = session.begin_run(Message::user("two")).await.unwrap();
        store.next([fault, APPLIED, APPLIED]);
        run.append([Message::assistant("three")]).await.unwrap();
        store.next([fault, APPLIED]);
        run.stream("fo").await.unwrap();
        store.next([fault]);
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
    let before = store.log().len();
    store.next([UNAPPLIED; 4]);
    let unknown = session.append([Message::user("one")]).request_id("job").await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::CommitUnknown);
    assert!(unknown.context().any(|(name, value)| name == "request" && value == "h:job"), "{unknown}");
    assert_eq!(store.log().len(), before + 4, "the repeats are bounded");
    let made = session.append([Message::user("one")]).request_id("job").await.unwrap();
    assert_eq!(made.numbers.len(), 1);
    assert_eq!(session.info().await.unwrap().messages, 1);
}

async fn a_first_write_of_unknown_outcome_makes_a_lazy_session_once(site: Site) {
    let (store, ws) = flaky(&site).await;
    let session = ws.sessions().create().lazy().await.unwrap();
    store.next([APPLIED]);
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
    for fault in [HANG_APPLIED, HANG_UNAPPLIED] {
        let session = ws.sessions().create().await.unwrap();
        store.next([fault]);
        give_up(session.begin_run(Message::user("given up"))).await;
        let run = session.begin_run(Message::user("again")).await.unwrap();
        run.complete([Message::assistant("a")]).await.unwrap();
        assert_eq!(states(&session).await, [RunState::Completed, RunState::Interrupted], "{fault:?}");
        assert_eq!(session.replay().await.unwrap().messages.len(), 2);
    }
}

async fn a_resumption_that_was_dropped_under_way_lets_the_run_wait_again(site: Site) {
    let (store, ws) = flaky(&site).await;
    for fault in [HANG_APPLIED, HANG_UNAPPLIED] {
        let session = ws.sessions().create().await.unwrap();
        let run = session.begin_run(Message::user("which?")).await.unwrap();
        run.wait_for(WaitingFor::Input).await.unwrap();
        store.next([fault]);
        give_up(Box::pin(run.resume())).await;
        ws.settle().await;
        assert_eq!(states(&session).await, [RunState::WaitingInput], "{fault:?}");
        run.resume().await.unwrap();
        run.complete([Message::assistant("that")]).await.unwrap();
    }
}

async fn a_completion_that_was_dropped_under_way_counts_if_it_landed(site: Site) {
    let (store, ws) = flaky(&site).await;
    for (fault, state) in [(HANG_APPLIED, RunState::Completed), (HANG_UNAPPLIED, RunState::Interrupted)] {
        let session = ws.sessions().create().await.unwrap();
        let run = session.begin_run(Message::user("q")).await.unwrap();
        store.next([fault]);
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
    store.next([HANG_APPLIED]);
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
    store.next([HANG_APPLIED]);
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
    store.next([HANG_APPLIED]);
    give_up(Box::pin(leases.try_acquire([name.clone()], LeasePurpose::Mutation))).await;
    ws.settle().await;
    assert_eq!(leases.view(name.clone()).await.unwrap().unwrap().state, LeaseState::Released);
    leases.try_acquire([name], LeasePurpose::Mutation).await.unwrap();
}

async fn a_dropped_run_is_closed_though_the_store_was_busy(site: Site) {
    let (store, ws) = flaky(&site).await;
    let session = ws.sessions().create().await.unwrap();
    let run = session.begin_run(Message::user("q")).await.unwrap();
    store.next([BUSY, BUSY, APPLIED]);
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
    let store = Arc::new(FaultStore::new(site.store().await));
    let unreadable = broken.clone();
    store.when(move |call| match call {
        Call::Lease(LeaseKey { name: LeaseName::Session(session), .. }) if session.id == unreadable => {
            Fault::Before(ErrorKind::Corrupt)
        }
        _ => Fault::Pass,
    });
    let ws = site.options().open(store.clone(), WorkspaceId::new("w").unwrap()).await.unwrap();
    let report = ws.recovered();
    assert_eq!(report.interrupted.len(), 1);
    assert_eq!(report.interrupted[0].session.id, sound);
    assert_eq!(report.failed.len(), 1);
    assert_eq!((&report.failed[0].0.id, report.failed[0].1.kind()), (&broken, ErrorKind::Corrupt));
    store.heal();
    assert_eq!(ws.recover().await.unwrap().interrupted.len(), 1, "what was left is done later");
}

async fn only_the_usual_commits_are_made(site: Site) {
    let (store, ws) = flaky(&site).await;
    let session = ws.sessions().create().await.unwrap();
    let before = store.log().len();
    let run = session.begin_run(Message::user("q")).await.unwrap();
    assert_eq!(store.log().len(), before + 1, "admission is one commit");
    run.append([Message::assistant("thinking")]).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
    assert_eq!(store.log().len(), before + 3, "and so is closing");
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.stream("he").await.unwrap();
    run.stream("llo").await.unwrap();
    run.cancel().await.unwrap();
    for noted in store.log() {
        let commit = noted.commit;
        let streams = commit.ops.iter().all(|op| matches!(op, Op::AppendEvents { expect_next: Some(_), .. }));
        assert_eq!(
            commit.request.is_none(),
            streams,
            "each can be repeated, and streaming needs no ledger row"
        );
    }
}
