//! Claims of tool calls: one winner, a result for everybody, and no side effect twice by accident.

use turnkeep_core::commit::{Commit, LeaseGrant, Op, Takeover};
use turnkeep_core::model::{LeasePurpose, LeaseState, RunState};
use turnkeep_core::{ErrorKind, LeaseToken, Payload, SessionId};
use turnkeep_sessions::testing::{abandon, abandon_lease};
use turnkeep_sessions::{
    Claim, ClaimState, Claiming, Effect, Lease, Message, Run, RunError, Session, Workspace, session_lease,
};

use crate::runs::{call, json};
use crate::site::{Site, on_each};

on_each!(
    a_claim_has_one_winner_and_the_others_read_its_result,
    of_many_who_claim_a_key_at_once_one_wins,
    a_completed_claim_is_never_changed,
    a_side_effect_that_was_interrupted_waits_for_a_person,
    a_tool_that_only_looks_is_claimed_again_at_once,
    a_claim_that_was_given_up_is_never_executed,
    a_failed_claim_is_final_and_says_why,
    a_claim_is_fenced_by_the_lease_of_its_run,
    a_claim_needs_a_lease,
    the_end_of_a_run_interrupts_what_it_left_running,
    a_claim_that_names_no_run_ends_with_the_lease_that_protects_it,
    a_lease_that_is_given_back_interrupts_what_was_claimed_under_it,
    recovery_interrupts_the_claims_of_the_dead,
    recovery_finds_claims_that_were_made_outside_of_a_run,
    a_claim_of_an_earlier_holder_is_interrupted_even_before_recovery,
    a_person_decides_on_claims_whose_holder_is_gone_before_any_recovery,
    a_won_claim_is_the_record_that_is_stored,
    claims_are_listed_by_state_and_given_up_by_turn,
    arguments_and_results_keep_their_bytes,
    a_claim_dies_with_its_session,
);

async fn begin(session: &Session) -> Run {
    session.begin_run(Message::user("pay the invoice")).await.unwrap()
}

async fn won(run: &Run, key: &str) -> Claim {
    match run.claim(key).await.unwrap() {
        Claiming::Won(claim) => claim,
        Claiming::Lost(record) => panic!("lost: {record:?}"),
    }
}

async fn state(session: &Session, key: &str) -> ClaimState {
    session.claims().get(key).await.unwrap().unwrap().state
}

/// Answers the state in which the claim was lost.
fn lost(claiming: Claiming) -> ClaimState {
    match claiming {
        Claiming::Won(claim) => panic!("won: {claim:?}"),
        Claiming::Lost(record) => record.state,
    }
}

async fn a_claim_has_one_winner_and_the_others_read_its_result(site: Site) {
    let session = site.session().await;
    let run = begin(&session).await;
    let claim = won(&run, "invoice/17").await;
    assert_eq!(lost(run.claim("invoice/17").await.unwrap()), ClaimState::Running, "not even the same run");
    // Another agent, in another session and through another handle.
    let other = site.session().await;
    let theirs = begin(&other).await;
    assert_eq!(lost(theirs.claim("invoice/17").await.unwrap()), ClaimState::Running);
    claim.complete(json(r#"{"receipt":4711}"#)).await.unwrap();
    for claiming in [theirs.claim("invoice/17").await.unwrap(), run.claim("invoice/17").await.unwrap()] {
        let Claiming::Lost(record) = claiming else { panic!("it was executed twice") };
        assert_eq!((record.state, record.attempts), (ClaimState::Completed, 1));
        assert_eq!(record.result.unwrap().as_str(), r#"{"receipt":4711}"#);
        assert_eq!((record.session, record.run.as_ref()), (session.session_ref().clone(), Some(run.id())));
    }
    assert!(theirs.claim("invoice/18").await.unwrap().won().is_some(), "another key is another claim");
}

async fn of_many_who_claim_a_key_at_once_one_wins(site: Site) {
    let mut agents = Vec::new();
    for _ in 0..6 {
        agents.push(begin(&site.session().await).await);
    }
    let mut racing = tokio::task::JoinSet::new();
    for (at, run) in agents.into_iter().enumerate() {
        racing.spawn(async move {
            let mut won = Vec::new();
            for round in 0..8 {
                let key = format!("job/{}", (round + at) % 8);
                if let Some(claim) = run.claim(&key).await.unwrap().won() {
                    tokio::task::yield_now().await;
                    claim.complete(json(&at.to_string())).await.unwrap();
                    won.push(key);
                }
            }
            (run, won)
        });
    }
    let mut winners: Vec<(String, String)> = Vec::new();
    let mut runs = Vec::new();
    while let Some(done) = racing.join_next().await {
        let (run, won) = done.unwrap();
        winners.extend(won.into_iter().map(|key| (key, run.session().id().to_string())));
        runs.push(run);
    }
    winners.sort();
    assert_eq!(winners.len(), 8, "each key has one winner: {winners:?}");
    for (key, session) in winners {
        let record = runs[0].session().claims().get(&key).await.unwrap().unwrap();
        assert_eq!((record.state, record.session.id.to_string()), (ClaimState::Completed, session));
    }
}

async fn a_completed_claim_is_never_changed(site: Site) {
    let session = site.session().await;
    let run = begin(&session).await;
    let claim = won(&run, "k").await;
    claim.complete(json("1")).await.unwrap();
    let before = session.claims().get("k").await.unwrap().unwrap();
    for refused in [
        claim.complete(json("2")).await,
        claim.fail(RunError::tool("late")).await,
        claim.interrupt().await,
        session.claims().request_retry("k").await,
        session.claims().abandon("k").await,
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::VersionConflict);
    }
    run.fail(RunError::host("stopped")).await.unwrap();
    site.workspace().await.recover().await.unwrap();
    assert_eq!(session.claims().abandon_interrupted(None).await.unwrap(), 0);
    assert_eq!(session.claims().get("k").await.unwrap().unwrap(), before);
}

async fn a_side_effect_that_was_interrupted_waits_for_a_person(site: Site) {
    let session = site.session().await;
    let run = begin(&session).await;
    let claim = won(&run, "k").await;
    assert_eq!(claim.record().effect, Effect::SideEffect, "the safe one by default");
    claim.interrupt().await.unwrap();
    for _ in 0..2 {
        assert_eq!(lost(run.claim("k").await.unwrap()), ClaimState::Interrupted);
        assert_eq!(lost(run.claim("k").read_only().await.unwrap()), ClaimState::Interrupted, "no way around");
    }
    session.claims().request_retry("k").await.unwrap();
    assert_eq!(session.claims().request_retry("k").await.unwrap_err().kind(), ErrorKind::VersionConflict);
    assert_eq!(state(&session, "k").await, ClaimState::RetryRequested);
    let again = won(&run, "k").await;
    assert_eq!(again.record().attempts, 2);
    again.complete(json("1")).await.unwrap();
    assert_eq!(lost(run.claim("k").await.unwrap()), ClaimState::Completed);
}

async fn a_tool_that_only_looks_is_claimed_again_at_once(site: Site) {
    let session = site.session().await;
    let run = begin(&session).await;
    let claim = run.claim("look").read_only().await.unwrap().won().unwrap();
    assert_eq!(lost(run.claim("look").await.unwrap()), ClaimState::Running);
    claim.interrupt().await.unwrap();
    let again = won(&run, "look").await;
    assert_eq!((again.record().effect, again.record().attempts), (Effect::ReadOnly, 2));
    // The first attempt's handle is spent.
    assert_eq!(claim.complete(json("1")).await.unwrap_err().kind(), ErrorKind::VersionConflict);
    again.complete(json("2")).await.unwrap();
}

async fn a_claim_that_was_given_up_is_never_executed(site: Site) {
    let session = site.session().await;
    let run = begin(&session).await;
    assert_eq!(session.claims().abandon("k").await.unwrap_err().kind(), ErrorKind::NotFound);
    let claim = won(&run, "k").await;
    assert_eq!(session.claims().abandon("k").await.unwrap_err().kind(), ErrorKind::VersionConflict);
    claim.interrupt().await.unwrap();
    session.claims().abandon("k").await.unwrap();
    assert_eq!(lost(run.claim("k").await.unwrap()), ClaimState::Abandoned);
    assert_eq!(session.claims().request_retry("k").await.unwrap_err().kind(), ErrorKind::VersionConflict);
    let other = site.session().await;
    let refused = other.claims().request_retry("k").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "another session's claim is not theirs to decide on");
}

async fn a_failed_claim_is_final_and_says_why(site: Site) {
    let session = site.session().await;
    let run = begin(&session).await;
    won(&run, "k").await.fail(RunError::tool("no_such_invoice")).await.unwrap();
    let Claiming::Lost(record) = run.claim("k").await.unwrap() else { panic!("tried again") };
    assert_eq!(record.state, ClaimState::Failed);
    assert_eq!(record.error.unwrap().code, "no_such_invoice");
    assert!(record.state.is_final());
}

/// Takes the session's lease away, as an operator would.
async fn force(ws: &Workspace, session: &Session) {
    let grant = LeaseGrant {
        name: session_lease(session.session_ref()),
        owner: ws.store().info().owner,
        token: LeaseToken::from_bytes([9; 16]),
        purpose: LeasePurpose::Mutation,
        ttl_ms: 60_000,
        takeover: Takeover::Force,
    };
    ws.store().commit(Commit::new(ws.id().clone()).op(Op::AcquireLease(grant))).await.unwrap();
}

async fn a_claim_is_fenced_by_the_lease_of_its_run(site: Site) {
    let session = site.session().await;
    let run = begin(&session).await;
    let claim = won(&run, "k").await;
    let other = site.workspace().await;
    force(&other, &session).await;
    assert_eq!(claim.complete(json("1")).await.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert_eq!(run.claim("k2").await.unwrap_err().kind(), ErrorKind::LeaseLost);
    let record = session.claims().get("k").await.unwrap().unwrap();
    assert_eq!((record.state, record.result), (ClaimState::Running, None), "nothing of the late writer");
    assert!(session.claims().get("k2").await.unwrap().is_none());
}

async fn a_claim_needs_a_lease(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    assert_eq!(session.claims().claim("k").await.unwrap_err().kind(), ErrorKind::Invalid);
    let name = session_lease(session.session_ref());
    let lease = ws.leases().try_acquire([name], LeasePurpose::Mutation).await.unwrap();
    session.write_under(&lease).unwrap();
    let claim = session.claims().claim("k").tool("rotate").await.unwrap().won().unwrap();
    assert_eq!((claim.record().tool.as_deref(), claim.record().run.as_ref()), (Some("rotate"), None));
    claim.complete(json("1")).await.unwrap();
    lease.release().await.unwrap();
    let run = begin(&session).await;
    run.cancel().await.unwrap();
    assert_eq!(run.claim("k3").await.unwrap_err().kind(), ErrorKind::RunState);
    assert_eq!(session.claims().claim("").await.unwrap_err().kind(), ErrorKind::Invalid);
}

async fn the_end_of_a_run_interrupts_what_it_left_running(site: Site) {
    let session = site.session().await;
    for (at, end) in ["failed", "completed", "dropped", "waiting"].into_iter().enumerate() {
        let run = begin(&session).await;
        run.append([Message::assistant("I pay")]).await.unwrap();
        let (left, done) = (format!("left {at}"), format!("done {at}"));
        let _claim = won(&run, &left).await;
        won(&run, &done).await.complete(json("1")).await.unwrap();
        let before = session.info().await.unwrap().revision;
        match end {
            "failed" => run.fail(RunError::host("stopped")).await.unwrap(),
            "completed" => run.complete([Message::assistant("done, I think")]).await.unwrap(),
            "waiting" => {
                run.wait_for(turnkeep_sessions::WaitingFor::Approval).await.unwrap();
                run.cancel().await.unwrap();
            }
            _ => {
                drop(run);
                session.workspace().settle().await;
            }
        }
        assert_eq!(state(&session, &left).await, ClaimState::Interrupted, "{end}");
        assert_eq!(state(&session, &done).await, ClaimState::Completed, "{end}");
        let commits = if end == "waiting" { 2 } else { 1 };
        assert_eq!(session.info().await.unwrap().revision, before + commits, "{end}: in the same commit");
    }
}

async fn a_claim_that_names_no_run_ends_with_the_lease_that_protects_it(site: Site) {
    let session = site.session().await;
    let run = begin(&session).await;
    session.claims().claim("k").await.unwrap().won().unwrap();
    run.complete([Message::assistant("done")]).await.unwrap();
    assert_eq!(state(&session, "k").await, ClaimState::Interrupted);
}

async fn recovery_interrupts_the_claims_of_the_dead(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    let run = begin(&session).await;
    let _left = run.claim("left").call(&call("c1")).await.unwrap();
    won(&run, "done").await.complete(json("1")).await.unwrap();
    let before = session.info().await.unwrap().revision;
    abandon(run);
    ws.close().await.unwrap();
    let ws = site.workspace().await;
    let report = ws.recovered();
    assert_eq!(report.interrupted.len(), 1);
    let claims: Vec<_> =
        report.claims.iter().map(|claim| (claim.key.as_str(), claim.call.as_deref())).collect();
    assert_eq!(claims, [("left", Some("c1"))], "whom to ask a person about");
    let session = ws.sessions().open(session.id()).await.unwrap();
    assert_eq!(session.info().await.unwrap().revision, before + 1, "run and claims: one commit");
    assert_eq!(state(&session, "left").await, ClaimState::Interrupted);
    assert_eq!(state(&session, "done").await, ClaimState::Completed);
    assert!(ws.recover().await.unwrap().is_empty());
    let run = begin(&session).await;
    assert_eq!(lost(run.claim("left").await.unwrap()), ClaimState::Interrupted);
}

async fn recovery_finds_claims_that_were_made_outside_of_a_run(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().id(SessionId::new("s").unwrap()).await.unwrap();
    let lease = ws
        .leases()
        .try_acquire([session_lease(session.session_ref())], LeasePurpose::Mutation)
        .await
        .unwrap();
    session.write_under(&lease).unwrap();
    session.claims().claim("k").await.unwrap().won().unwrap();
    let other = site.workspace().await;
    assert!(other.recovered().claims.is_empty(), "its holder lives");
    drop(session);
    abandon_lease(lease).close().await.unwrap();
    drop(ws);
    let report = other.recover().await.unwrap();
    assert_eq!(report.claims.len(), 1);
    assert!(!report.is_empty());
    let session = other.sessions().open(&SessionId::new("s").unwrap()).await.unwrap();
    assert_eq!(state(&session, "k").await, ClaimState::Interrupted);
    assert!(other.recover().await.unwrap().is_empty());
    session.append([Message::user("the lease was given back")]).await.unwrap();
}

async fn a_lease_that_is_given_back_interrupts_what_was_claimed_under_it(site: Site) {
    let ws = site.workspace().await;
    for way in ["released", "dropped"] {
        let sessions = [ws.sessions().create().await.unwrap(), ws.sessions().create().await.unwrap()];
        let names = sessions.iter().map(|session| session_lease(session.session_ref()));
        let lease = ws.leases().try_acquire(names, LeasePurpose::Mutation).await.unwrap();
        let mut left = Vec::new();
        for session in &sessions {
            session.write_under(&lease).unwrap();
            let done = session.claims().claim(format!("{way} done {}", session.id())).await.unwrap();
            done.won().unwrap().complete(json("1")).await.unwrap();
            // More than one commit changes.
            for at in 0..40 {
                let key = format!("{way} {at} {}", session.id());
                left.push(session.claims().claim(key).await.unwrap().won().unwrap());
            }
        }
        match way {
            "released" => lease.release().await.unwrap(),
            _ => {
                drop(lease);
                ws.settle().await;
            }
        }
        for session in &sessions {
            for (state, count) in
                [(ClaimState::Running, 0), (ClaimState::Interrupted, 40), (ClaimState::Completed, 1)]
            {
                let found = session.claims().list().state(state).await.unwrap().items.len();
                assert_eq!(found, count, "{way}: {}", state.as_str());
            }
            let view = ws.leases().view(session_lease(session.session_ref())).await.unwrap().unwrap();
            assert_eq!(view.state, LeaseState::Released, "{way}");
            session.append([Message::user("anybody may write")]).await.unwrap();
        }
        let late = left[0].complete(json("1")).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::LeaseLost, "{way}");
        assert_eq!(sessions[1].claims().abandon_interrupted(None).await.unwrap(), 40, "{way}");
    }
}

/// Lets the holder of a lease die, and answers the session to somebody who was there before and recovered nothing.
async fn held_by_the_dead(site: &Site, ws: Workspace, session: Session, lease: Lease) -> Session {
    let other = site.workspace().await;
    let id = session.id().clone();
    drop(session);
    abandon_lease(lease).close().await.unwrap();
    drop(ws);
    other.sessions().open(&id).await.unwrap()
}

async fn a_claim_of_an_earlier_holder_is_interrupted_even_before_recovery(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    let name = session_lease(session.session_ref());
    let lease = ws.leases().try_acquire([name], LeasePurpose::Mutation).await.unwrap();
    session.write_under(&lease).unwrap();
    session.claims().claim("write").await.unwrap().won().unwrap();
    session.claims().claim("look").read_only().await.unwrap().won().unwrap();
    let session = held_by_the_dead(&site, ws, session, lease).await;
    for key in ["write", "look"] {
        assert_eq!(state(&session, key).await, ClaimState::Running, "nobody has looked yet");
    }
    let run = begin(&session).await;
    assert_eq!(lost(run.claim("write").await.unwrap()), ClaimState::Interrupted);
    assert_eq!(won(&run, "look").await.record().attempts, 2);
}

async fn a_person_decides_on_claims_whose_holder_is_gone_before_any_recovery(site: Site) {
    let ws = site.workspace().await;
    let session = ws.sessions().create().await.unwrap();
    let name = session_lease(session.session_ref());
    let lease = ws.leases().try_acquire([name], LeasePurpose::Mutation).await.unwrap();
    session.write_under(&lease).unwrap();
    for key in ["again", "never", "open"] {
        session.claims().claim(key).await.unwrap().won().unwrap();
        let at_work = session.claims().request_retry(key).await.unwrap_err();
        assert_eq!(at_work.kind(), ErrorKind::VersionConflict, "its holder lives");
    }
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    assert_eq!(other.claims().abandon("never").await.unwrap_err().kind(), ErrorKind::LeaseHeld);
    assert_eq!(other.claims().abandon_interrupted(None).await.unwrap_err().kind(), ErrorKind::LeaseHeld);
    drop(other);
    let session = held_by_the_dead(&site, ws, session, lease).await;
    session.claims().request_retry("again").await.unwrap();
    session.claims().abandon("never").await.unwrap();
    assert_eq!(state(&session, "open").await, ClaimState::Running, "nobody has looked yet");
    let run = begin(&session).await;
    assert_eq!(won(&run, "again").await.record().attempts, 2);
    assert_eq!(lost(run.claim("never").await.unwrap()), ClaimState::Abandoned);
    assert_eq!(session.claims().abandon_interrupted(None).await.unwrap(), 1, "not what this run executes");
    assert_eq!(state(&session, "open").await, ClaimState::Abandoned);
    assert_eq!(state(&session, "again").await, ClaimState::Running);
}

async fn a_won_claim_is_the_record_that_is_stored(site: Site) {
    let (site, clock) = site.with_clock();
    let session = site.session().await;
    let run = begin(&session).await;
    for attempt in 1..3 {
        clock.advance_ms(1_000);
        let claim = run.claim("k").call(&call("c1")).read_only().meta(json("[1]")).await.unwrap();
        let claim = claim.won().unwrap();
        assert_eq!(claim.record().attempts, attempt);
        assert_eq!(*claim.record(), session.claims().get("k").await.unwrap().unwrap());
        clock.advance_ms(1_000);
        claim.interrupt().await.unwrap();
    }
}

async fn claims_are_listed_by_state_and_given_up_by_turn(site: Site) {
    let session = site.session().await;
    assert!(session.claims().list().await.unwrap().items.is_empty());
    let mut turns = Vec::new();
    for round in 0..2 {
        let run = begin(&session).await;
        turns.push(run.turn().clone());
        for at in 0..3 {
            let claim = won(&run, &format!("{round}/{at}")).await;
            if at == 0 {
                claim.complete(json("1")).await.unwrap();
            }
        }
        run.cancel().await.unwrap();
        assert_eq!(run.info().await.unwrap().state, RunState::Cancelled);
    }
    let keys = async |state: ClaimState| -> Vec<String> {
        let page = session.claims().list().state(state).await.unwrap();
        page.items.iter().map(|claim| claim.key.to_string()).collect()
    };
    assert_eq!(keys(ClaimState::Interrupted).await, ["0/1", "0/2", "1/1", "1/2"]);
    assert_eq!(session.claims().abandon_interrupted(Some(&turns[1])).await.unwrap(), 2);
    assert_eq!(keys(ClaimState::Interrupted).await, ["0/1", "0/2"]);
    assert_eq!(session.claims().abandon_interrupted(None).await.unwrap(), 2);
    assert_eq!(keys(ClaimState::Abandoned).await.len(), 4);
    assert_eq!(keys(ClaimState::Completed).await, ["0/0", "1/0"]);
    let first = session.claims().list().limit(4).await.unwrap();
    let rest = session.claims().list().limit(4).cursor(first.next.unwrap()).await.unwrap();
    assert_eq!((first.items.len(), rest.items.len()), (4, 2));
}

async fn arguments_and_results_keep_their_bytes(site: Site) {
    let session = site.session().await;
    let run = begin(&session).await;
    let odd = Payload::new("{\"b\": 1.50,\n \"a\":\"\\u0000\", \"b\":2}").unwrap();
    let mut asked = call("c1");
    asked.arguments = odd.clone();
    let claim = run.claim("k").call(&asked).meta(odd.clone()).await.unwrap().won().unwrap();
    claim.complete(odd.clone()).await.unwrap();
    let record = session.claims().get("k").await.unwrap().unwrap();
    assert_eq!(
        (record.arguments, record.meta, record.result),
        (Some(odd.clone()), Some(odd.clone()), Some(odd))
    );
    assert_eq!((record.tool.as_deref(), record.call.as_deref()), (Some("read"), Some("c1")));
    assert_eq!(record.turn.as_ref(), Some(run.turn()));
}

async fn a_claim_dies_with_its_session(site: Site) {
    let session = site.session().await;
    let run = begin(&session).await;
    won(&run, "k").await.complete(json("1")).await.unwrap();
    run.complete([Message::assistant("paid")]).await.unwrap();
    session.workspace().sessions().delete(session.id().clone()).await.unwrap();
    let other = site.session().await;
    assert!(other.claims().get("k").await.unwrap().is_none());
    let run = begin(&other).await;
    assert_eq!(won(&run, "k").await.record().attempts, 1);
}
