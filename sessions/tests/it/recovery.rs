//! What a dead process left behind is closed by the next one, at once; the living are left alone.

use std::time::Duration;

use turnkeep_core::commit::{Commit, LeaseGrant, Op, Takeover};
use turnkeep_core::model::{LeasePurpose, LeaseState, Liveness, RunState, entry_kind};
use turnkeep_core::{ErrorKind, LeaseToken, RunId, SessionId, WorkspaceId};
use turnkeep_sessions::testing::abandon;
use turnkeep_sessions::{Message, RunError, TurnEnd, TurnStatus, WaitingFor, Workspace, session_lease};

use crate::site::{Site, on_each};

on_each!(
    a_dead_owners_run_is_closed_at_once_when_the_workspace_is_opened,
    recovery_is_safe_to_repeat_and_says_what_it_did,
    the_run_of_a_living_owner_is_left_alone,
    a_waiting_run_outlives_its_process,
    the_text_streamed_by_the_dead_is_kept_for_display,
    the_next_run_recovers_the_session_by_itself,
    a_dead_owners_session_can_be_deleted,
    a_run_without_a_lease_is_an_orphan,
    a_finished_run_is_not_touched_by_recovery,
    many_orphans_in_many_sessions_are_all_closed,
    only_one_of_two_recoveries_closes_a_run,
    an_abandoned_import_is_removed_after_a_day,
    recovery_can_be_left_out,
    a_sleeper_is_taken_over_from_when_its_lease_has_expired_and_told_so,
    a_run_at_work_is_taken_over_only_by_force,
);

/// Begins a run in a process that then dies. Answers session and run.
async fn die_in_a_run(site: &Site, streamed: Option<&str>) -> (SessionId, RunId) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    let run = session.begin_run(Message::user("q")).await.unwrap();
    if let Some(text) = streamed {
        run.stream(text).await.unwrap();
        run.append([Message::assistant("so far")]).await.unwrap();
    }
    let ids = (session.id().clone(), run.id().clone());
    abandon(run);
    // Only the end of the handle matters here; closing waits for it, dropping would not.
    ws.close().await.unwrap();
    ids
}

async fn events(ws: &Workspace, session: &SessionId) -> Vec<String> {
    let session = ws.sessions().open(session).await.unwrap();
    session.runs().events(None, 100).await.unwrap().items.iter().map(|event| event.kind.to_string()).collect()
}

async fn a_dead_owners_run_is_closed_at_once_when_the_workspace_is_opened(site: Site) {
    let (id, run) = die_in_a_run(&site, None).await;
    let ws = site.workspace().await;
    let report = ws.recovered();
    assert_eq!(report.interrupted.len(), 1);
    let recovered = &report.interrupted[0];
    assert_eq!((&recovered.session.id, &recovered.run, recovered.from), (&id, &run, RunState::Pending));
    let session = ws.sessions().open(&id).await.unwrap();
    let stored = session.runs().get(&run).await.unwrap();
    assert_eq!(stored.state, RunState::Interrupted);
    assert_eq!(RunError::from_run(&stored).unwrap().unwrap().code, "owner_gone");
    let end = TurnEnd::from_entry(&session.latest(entry_kind::TURN_END).await.unwrap().unwrap()).unwrap();
    assert_eq!(end.status, TurnStatus::Incomplete);
    assert_eq!(events(&ws, &id).await, ["run_started", "run_interrupted"]);
    let lease = ws.leases().view(session_lease(session.session_ref())).await.unwrap().unwrap();
    assert_eq!((lease.state, lease.epoch, lease.purpose), (LeaseState::Released, 2, LeasePurpose::Recovery));
    assert_eq!(session.history().await.unwrap().items.len(), 1, "the input is kept");
    let run = session.begin_run(Message::user("again")).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
}

async fn recovery_is_safe_to_repeat_and_says_what_it_did(site: Site) {
    let (id, _) = die_in_a_run(&site, None).await;
    let ws = site.workspace().await;
    assert!(!ws.recovered().is_empty());
    let before = ws.sessions().open(&id).await.unwrap().info().await.unwrap();
    for _ in 0..3 {
        assert!(ws.recover().await.unwrap().is_empty());
        assert!(site.workspace().await.recovered().is_empty());
    }
    assert_eq!(ws.sessions().open(&id).await.unwrap().info().await.unwrap(), before);
}

async fn the_run_of_a_living_owner_is_left_alone(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    let ws = site.workspace().await;
    assert!(ws.recovered().is_empty());
    let left = &ws.recovered().left_alone;
    assert_eq!(left.len(), 1);
    assert_eq!((&left[0].run, left[0].owner), (run.id(), Liveness::Alive));
    assert!(
        !session.workspace().recover().await.unwrap().left_alone.is_empty(),
        "nor does it recover itself"
    );
    run.complete([Message::assistant("a")]).await.unwrap();
}

async fn a_waiting_run_outlives_its_process(site: Site) {
    let (id, run) = {
        let session = site.session().await;
        let run = session.begin_run(Message::user("may I?")).await.unwrap();
        run.append([Message::assistant("?")]).await.unwrap();
        run.wait_for(WaitingFor::Approval).await.unwrap();
        let ids = (session.id().clone(), run.id().clone());
        abandon(run);
        session.workspace().clone().close().await.unwrap();
        ids
    };
    let ws = site.workspace().await;
    assert!(ws.recovered().is_empty());
    let session = ws.sessions().open(&id).await.unwrap();
    let run = session.resume_run(run).await.unwrap();
    run.complete([Message::assistant("done")]).await.unwrap();
}

async fn the_text_streamed_by_the_dead_is_kept_for_display(site: Site) {
    let (id, run) = die_in_a_run(&site, Some("half an answer")).await;
    let ws = site.workspace().await;
    assert!(ws.recovered().interrupted[0].kept_partial);
    assert_eq!(ws.recovered().interrupted[0].from, RunState::Running);
    let session = ws.sessions().open(&id).await.unwrap();
    let items = session.history().await.unwrap().items;
    let shown: Vec<_> =
        items.iter().map(|item| (item.message.as_ref().unwrap().text(), item.is_partial())).collect();
    assert_eq!(shown, [("q".into(), false), ("so far".into(), false), ("half an answer".to_string(), true)]);
    assert_eq!(items[2].entry.run.as_ref(), Some(&run));
    assert!(session.replay().await.unwrap().messages.is_empty());
    assert_eq!(
        site.workspace().await.sessions().open(&id).await.unwrap().history().await.unwrap().items.len(),
        3
    );
}

async fn the_next_run_recovers_the_session_by_itself(site: Site) {
    let living = site.workspace().await;
    let session = living.sessions().create().await.unwrap();
    {
        let ws = site.workspace().await;
        let other = ws.sessions().open(session.id()).await.unwrap();
        abandon(other.begin_run(Message::user("theirs")).await.unwrap());
        ws.close().await.unwrap();
    }
    // The living process was there all the time and opened nothing anew.
    let stale = session.begin_run(Message::user("mine")).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::StaleLeaf, "it has to see what was said meanwhile");
    session.reload().await.unwrap();
    let run = session.begin_run(Message::user("mine")).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
    let states: Vec<_> = session.runs().list().await.unwrap().items.iter().map(|run| run.state).collect();
    assert_eq!(states, [RunState::Completed, RunState::Interrupted]);
}

async fn a_dead_owners_session_can_be_deleted(site: Site) {
    let living = site.workspace().await;
    let (id, _) = die_in_a_run(&site, None).await;
    living.sessions().delete(id.clone()).await.unwrap();
    assert_eq!(living.sessions().open(&id).await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn a_run_without_a_lease_is_an_orphan(site: Site) {
    let session = site.session().await;
    // Written by another program on the same store: a run, and nobody's lease.
    let id = RunId::new("bare").unwrap();
    let run = turnkeep_core::commit::NewRun::new(id.clone(), RunState::Running);
    let commit = Commit::new(WorkspaceId::new("w").unwrap())
        .op(Op::StartRun { session: session.session_ref().clone(), run });
    session.workspace().store().commit(commit).await.unwrap();
    let report = session.workspace().recover().await.unwrap();
    assert_eq!(report.interrupted[0].run, id);
    assert_eq!(session.runs().get(&id).await.unwrap().state, RunState::Interrupted);
    assert!(
        session.entries(|_| {}).await.unwrap().items.is_empty(),
        "a turn that was never begun is not ended"
    );
}

async fn a_finished_run_is_not_touched_by_recovery(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
    let before = run.info().await.unwrap();
    assert!(site.workspace().await.recovered().is_empty());
    assert_eq!(run.info().await.unwrap(), before);
}

async fn many_orphans_in_many_sessions_are_all_closed(site: Site) {
    {
        let ws = site.workspace().await;
        for _ in 0..130 {
            let session = ws.sessions().create().await.unwrap();
            abandon(session.begin_run(Message::user("q")).await.unwrap());
        }
        ws.close().await.unwrap();
    }
    let ws = site.workspace().await;
    assert_eq!(ws.recovered().interrupted.len(), 130, "more than one page of them");
    assert!(ws.runs().active().await.unwrap().items.is_empty());
}

async fn only_one_of_two_recoveries_closes_a_run(site: Site) {
    let one = site.workspace().await;
    let two = site.workspace().await;
    for _ in 0..10 {
        let (id, _) = die_in_a_run(&site, None).await;
        let (first, second) = tokio::join!(one.recover(), two.recover());
        let closed = first.unwrap().interrupted.len() + second.unwrap().interrupted.len();
        assert_eq!(closed, 1);
        assert_eq!(events(&one, &id).await, ["run_started", "run_interrupted"]);
    }
}

async fn an_abandoned_import_is_removed_after_a_day(site: Site) {
    let (site, clock) = site.with_clock();
    let reference = {
        let store = site.store().await;
        let new = turnkeep_core::commit::NewSession {
            id: SessionId::new("half").unwrap(),
            incarnation: turnkeep_core::Incarnation::from_bytes([3; 16]),
            state: turnkeep_core::model::SessionState::Restoring,
            profile: turnkeep_core::model::Profile::default(),
        };
        let reference = turnkeep_core::SessionRef { id: new.id.clone(), incarnation: new.incarnation };
        let grant = LeaseGrant {
            name: session_lease(&reference),
            owner: store.info().owner,
            token: LeaseToken::from_bytes([4; 16]),
            purpose: LeasePurpose::Fork,
            ttl_ms: 1000,
            takeover: Takeover::IfExpired,
        };
        let commit = Commit::new(WorkspaceId::new("w").unwrap())
            .op(Op::CreateSession(new))
            .op(Op::AcquireLease(grant));
        store.commit(commit).await.unwrap();
        clock.advance_ms(25 * 60 * 60 * 1000);
        let ws = site.workspace().await;
        assert!(ws.recovered().removed.is_empty(), "its builder lives, though its lease expired");
        store.close().await.unwrap();
        reference
    };
    clock.advance_ms(-2 * 60 * 60 * 1000);
    assert!(site.workspace().await.recovered().removed.is_empty(), "not before a day");
    clock.advance_ms(2 * 60 * 60 * 1000);
    let ws = site.workspace().await;
    assert_eq!(ws.recovered().removed, [reference]);
    ws.sessions().create().id(SessionId::new("half").unwrap()).await.unwrap();
}

async fn recovery_can_be_left_out(site: Site) {
    let (_, run) = die_in_a_run(&site, None).await;
    let store = site.store().await;
    let ws = site.options().recover(false).open(store, WorkspaceId::new("w").unwrap()).await.unwrap();
    assert!(ws.recovered().is_empty());
    let active = ws.runs().active().await.unwrap().items;
    assert_eq!(active[0].id, run);
    // A patient owner may be merely slow: nothing here depends on waiting.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(ws.recover().await.unwrap().interrupted.len(), 1);
}

async fn a_sleeper_is_taken_over_from_when_its_lease_has_expired_and_told_so(site: Site) {
    let (site, clock) = site.with_clock();
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.stream("half").await.unwrap();
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    assert_eq!(other.take_over().await.unwrap_err().kind(), ErrorKind::LeaseHeld, "it has not expired");
    clock.advance_ms(61_000);
    assert_eq!(
        other.workspace().recover().await.unwrap().left_alone.len(),
        1,
        "it lives: recovery lets it be"
    );
    let recovered = other.take_over().await.unwrap().unwrap();
    assert_eq!((&recovered.run, recovered.kept_partial), (run.id(), true));
    assert!(other.take_over().await.unwrap().is_none(), "nobody is at work");
    let next = other.begin_run(Message::user("mine now")).await.unwrap();
    // The sleeper wakes.
    assert_eq!(run.complete([Message::assistant("late")]).await.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert!(run.is_lost());
    next.complete([Message::assistant("a")]).await.unwrap();
    let said: Vec<_> = other.replay().await.unwrap().messages.iter().map(|m| m.message.text()).collect();
    assert_eq!(said, ["mine now", "a"]);
    let stored = other.runs().get(run.id()).await.unwrap();
    assert_eq!(stored.state, RunState::Interrupted);
    assert_eq!(RunError::from_run(&stored).unwrap().unwrap().code, "taken_over");
}

async fn a_run_at_work_is_taken_over_only_by_force(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    assert_eq!(other.take_over().await.unwrap_err().kind(), ErrorKind::LeaseHeld);
    assert_eq!(other.take_over().force().await.unwrap().unwrap().run, *run.id());
    assert_eq!(run.append([Message::assistant("x")]).await.unwrap_err().kind(), ErrorKind::LeaseLost);
    // One that waits is nobody's work.
    let run = other.begin_run(Message::user("q")).await.unwrap();
    run.append([Message::assistant("?")]).await.unwrap();
    run.wait_for(WaitingFor::Input).await.unwrap();
    assert!(other.take_over().force().await.unwrap().is_none());
    assert_eq!(run.info().await.unwrap().state, RunState::WaitingInput);
}
