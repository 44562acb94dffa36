//! Leases: taken together, renewed in the background, lost with a signal.

use std::time::Duration;

use turnkeep_core::commit::{Commit, LeaseGrant, Op, Takeover};
use turnkeep_core::model::{LeaseName, LeasePurpose, LeaseState};
use turnkeep_core::{ErrorKind, LeaseToken, WorkspaceId};
use turnkeep_sessions::{Message, Session, Workspace, named_lease, session_lease};

use crate::site::{Site, on_each};

on_each!(
    a_lease_has_one_holder_and_the_busy_answer_says_who,
    several_leases_are_taken_together_or_not_at_all,
    overlapping_leases_in_any_order_never_stand_in_a_circle,
    waiting_ends_with_the_release,
    waiting_is_bounded,
    a_dropped_lease_is_given_back,
    a_lost_lease_fires_its_signal_and_refuses_writes,
    a_lease_is_renewed_in_the_background,
    a_heartbeat_notices_the_loss_by_itself,
    the_lease_of_a_dead_owner_is_taken_at_once,
    a_held_session_takes_no_writes_of_others_but_shared_ones,
    a_session_writes_under_a_lease_taken_with_others,
);

fn names(names: &[&str]) -> Vec<LeaseName> {
    names.iter().map(|name| named_lease(name).unwrap()).collect()
}

/// Takes a lease away, as an operator would.
async fn force(ws: &Workspace, name: LeaseName) {
    let store = ws.store();
    let grant = LeaseGrant {
        name,
        owner: store.info().owner,
        token: LeaseToken::from_bytes([9; 16]),
        purpose: LeasePurpose::Mutation,
        ttl_ms: 60_000,
        takeover: Takeover::Force,
    };
    store.commit(Commit::new(ws.id().clone()).op(Op::AcquireLease(grant))).await.unwrap();
}

async fn a_lease_has_one_holder_and_the_busy_answer_says_who(site: Site) {
    let ws = site.workspace().await;
    let held = ws.leases().try_acquire(names(&["room"]), LeasePurpose::Mutation).await.unwrap();
    for other in [ws.clone(), site.workspace().await] {
        let busy = other.leases().try_acquire(names(&["room"]), LeasePurpose::Fork).await.unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::LeaseHeld);
        assert!(busy.context().any(|(name, value)| name == "purpose" && value == "mutation"));
    }
    held.renew().await.unwrap();
    held.release().await.unwrap();
    let view = ws.leases().view(named_lease("room").unwrap()).await.unwrap().unwrap();
    assert_eq!((view.state, view.epoch), (LeaseState::Released, 1));
    let again =
        site.workspace().await.leases().try_acquire(names(&["room"]), LeasePurpose::Fork).await.unwrap();
    assert_eq!(again.fences()[0].epoch, 2);
    let none = ws.leases().try_acquire([], LeasePurpose::Fork).await.unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Invalid);
}

async fn several_leases_are_taken_together_or_not_at_all(site: Site) {
    let ws = site.workspace().await;
    let held = ws.leases().try_acquire(names(&["b"]), LeasePurpose::Mutation).await.unwrap();
    let busy = ws.leases().try_acquire(names(&["c", "a", "b"]), LeasePurpose::Mutation).await.unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::LeaseHeld);
    assert!(
        ws.leases().view(named_lease("a").unwrap()).await.unwrap().is_none(),
        "not one of them was taken"
    );
    held.release().await.unwrap();
    let all = ws.leases().try_acquire(names(&["c", "a", "b", "a"]), LeasePurpose::Mutation).await.unwrap();
    let order: Vec<_> = all.fences().iter().map(|fence| fence.name.clone()).collect();
    assert_eq!(order, names(&["a", "b", "c"]), "sorted, each once");
    all.release().await.unwrap();
    let many = |count: usize| (0..count).map(|number| named_lease(format!("{number}")).unwrap());
    let all = ws.leases().try_acquire(many(50), LeasePurpose::Mutation).await.unwrap();
    all.renew().await.unwrap();
    all.release().await.unwrap();
    let refused = ws.leases().try_acquire(many(51), LeasePurpose::Mutation).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
}

async fn waiting_ends_with_the_release(site: Site) {
    let ws = site.workspace().await;
    let held = ws.leases().try_acquire(names(&["a"]), LeasePurpose::Mutation).await.unwrap();
    let other = site.workspace().await;
    let waiter = tokio::spawn(async move {
        other.leases().acquire(names(&["a"]), LeasePurpose::Mutation, Duration::from_secs(60)).await
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    held.release().await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap().fences()[0].epoch, 2);
}

async fn waiting_is_bounded(site: Site) {
    let ws = site.workspace().await;
    let _held = ws.leases().try_acquire(names(&["a"]), LeasePurpose::Mutation).await.unwrap();
    let leases = ws.leases();
    let late = leases.acquire(names(&["a"]), LeasePurpose::Mutation, Duration::from_millis(30)).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::LeaseHeld);
}

async fn a_dropped_lease_is_given_back(site: Site) {
    let ws = site.workspace().await;
    drop(ws.leases().try_acquire(names(&["a"]), LeasePurpose::Mutation).await.unwrap());
    ws.settle().await;
    let view = ws.leases().view(named_lease("a").unwrap()).await.unwrap().unwrap();
    assert_eq!(view.state, LeaseState::Released);
}

async fn a_lost_lease_fires_its_signal_and_refuses_writes(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    let signal = run.signal();
    assert!(!signal.is_lost());
    let other = site.workspace().await;
    force(&other, session_lease(session.session_ref())).await;
    let refused = run.append([Message::assistant("late")]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LeaseLost);
    assert!(signal.is_lost() && run.is_lost());
    run.lost().await;
    signal.lost().await;
    // From now on nothing even reaches the store.
    assert_eq!(run.complete([Message::assistant("late")]).await.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert_eq!(session.append([Message::user("x")]).await.unwrap_err().kind(), ErrorKind::LeaseLost);
    let id = run.id().clone();
    drop(run);
    session.workspace().settle().await;
    let stored = session.runs().get(&id).await.unwrap();
    assert!(!stored.state.is_terminal(), "the verdict is the new holder's");
    assert_eq!(session.info().await.unwrap().messages, 1);
    session.reload().await.unwrap();
    assert_eq!(session.append([Message::user("x")]).await.unwrap_err().kind(), ErrorKind::LeaseHeld);
}

/// A workspace whose leases live for a short time, so that they are renewed often.
async fn hasty(site: &Site) -> Session {
    let store = site.store().await;
    let options = site.options().lease_ttl(Duration::from_millis(60));
    let ws = options.open(store, WorkspaceId::new("w").unwrap()).await.unwrap();
    ws.sessions().create().await.unwrap()
}

async fn a_lease_is_renewed_in_the_background(site: Site) {
    let session = hasty(&site).await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    let name = session_lease(session.session_ref());
    let first = session.workspace().leases().view(name.clone()).await.unwrap().unwrap().expires_at;
    for _ in 0..1000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let now = session.workspace().leases().view(name.clone()).await.unwrap().unwrap();
        assert_eq!(now.epoch, 1);
        if now.expires_at > first {
            run.complete([Message::assistant("a")]).await.unwrap();
            return;
        }
    }
    panic!("the lease was never renewed");
}

async fn a_heartbeat_notices_the_loss_by_itself(site: Site) {
    let session = hasty(&site).await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    force(&site.workspace().await, session_lease(session.session_ref())).await;
    tokio::time::timeout(Duration::from_secs(30), run.lost()).await.expect("the signal never fired");
    assert!(run.is_lost());
}

async fn the_lease_of_a_dead_owner_is_taken_at_once(site: Site) {
    let held = {
        let ws = site.workspace().await;
        ws.leases().try_acquire(names(&["a"]), LeasePurpose::Mutation).await.unwrap()
    };
    let other = site.workspace().await;
    let busy = other.leases().try_acquire(names(&["a"]), LeasePurpose::Mutation).await.unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::LeaseHeld, "the lease keeps its workspace alive");
    // What a kill does: nothing is given back, and the handle is gone.
    turnkeep_sessions::testing::abandon_lease(held).close().await.unwrap();
    let taken = other.leases().try_acquire(names(&["a"]), LeasePurpose::Mutation).await.unwrap();
    assert_eq!(taken.fences()[0].epoch, 2);
}

async fn a_held_session_takes_no_writes_of_others_but_shared_ones(site: Site) {
    let session = site.session().await;
    let other = site.workspace().await;
    let name = session_lease(session.session_ref());
    let lease = other.leases().try_acquire([name], LeasePurpose::Mutation).await.unwrap();
    assert_eq!(session.append([Message::user("x")]).await.unwrap_err().kind(), ErrorKind::LeaseHeld);
    session.rename("still allowed").await.unwrap();
    lease.release().await.unwrap();
    session.append([Message::user("x")]).await.unwrap();
}

async fn a_session_writes_under_a_lease_taken_with_others(site: Site) {
    let ws = site.workspace().await;
    let (one, two) = (ws.sessions().create().await.unwrap(), ws.sessions().create().await.unwrap());
    let names = [session_lease(one.session_ref()), session_lease(two.session_ref())];
    let lease = ws.leases().try_acquire(names, LeasePurpose::Mutation).await.unwrap();
    assert_eq!(one.append([Message::user("x")]).await.unwrap_err().kind(), ErrorKind::LeaseHeld);
    for session in [&one, &two] {
        session.write_under(&lease).unwrap();
        session.append([Message::user("x")]).await.unwrap();
    }
    let third = ws.sessions().create().await.unwrap();
    assert_eq!(third.write_under(&lease).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(one.begin_run(Message::user("q")).await.unwrap_err().kind(), ErrorKind::LeaseHeld);
    lease.release().await.unwrap();
    // Given back, it is neither needed nor used.
    one.append([Message::user("y")]).await.unwrap();
    let run = one.begin_run(Message::user("q")).await.unwrap();
    let again =
        ws.leases().try_acquire([session_lease(two.session_ref())], LeasePurpose::Mutation).await.unwrap();
    assert_eq!(one.write_under(&again).unwrap_err().kind(), ErrorKind::Invalid);
    two.write_under(&again).unwrap();
    force(&site.workspace().await, session_lease(two.session_ref())).await;
    assert_eq!(two.append([Message::user("z")]).await.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert!(again.is_lost());
    run.complete([Message::assistant("a")]).await.unwrap();
}

async fn overlapping_leases_in_any_order_never_stand_in_a_circle(site: Site) {
    let mut racing = tokio::task::JoinSet::new();
    for wanted in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"], ["c", "a", "b"]] {
        let ws = site.workspace().await;
        racing.spawn(async move {
            for _ in 0..8 {
                let leases = ws.leases();
                let held = leases.acquire(names(&wanted), LeasePurpose::Mutation, Duration::from_secs(60));
                let held = held.await.unwrap();
                assert_eq!(held.fences().len(), 3);
                tokio::task::yield_now().await;
                held.release().await.unwrap();
            }
        });
    }
    while let Some(done) = racing.join_next().await {
        done.unwrap();
    }
}
