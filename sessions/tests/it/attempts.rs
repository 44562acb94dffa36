//! Requests and what is tried for them: attempts, waiting, going on, repeats, turns.

use std::os::unix::ffi::OsStrExt as _;

use turnkeep_core::id::{IntentId, TurnId};
use turnkeep_core::model::{LeaseState, RunState};
use turnkeep_core::{ErrorKind, RunId};
use turnkeep_sessions::{Admission, Message, RunError, TurnEnd, TurnStatus, WaitingFor, session_lease};

use crate::runs::{call, events, failed, json, kinds, lease_state, no, replayed, turn_end};
use crate::site::{Site, on_each};

on_each!(
    a_retry_is_the_next_attempt_at_the_same_request,
    a_retry_of_an_older_attempt_is_refused,
    a_beginning_with_a_request_id_lands_once,
    a_directory_that_no_text_can_name_is_refused_and_not_changed,
    a_waiting_run_holds_no_lease_and_is_resumed_elsewhere,
    a_waiting_run_is_resumed_through_its_own_handle,
    a_failed_run_is_reopened_explicitly_as_a_new_turn,
    a_job_that_makes_its_session_lazily_is_repeated_once,
    a_dead_owners_lease_without_a_run_is_no_obstacle,
    a_waiting_run_can_be_given_up_as_it_is,
    the_request_behind_a_run_is_kept_byte_for_byte,
    the_request_behind_a_run_is_found_from_a_fork,
    turns_are_listed_in_the_order_of_the_transcript,
    a_turn_outside_of_a_run_is_ended_once,
    a_closing_run_tolerates_a_turn_that_was_ended_before,
);

async fn a_retry_is_the_next_attempt_at_the_same_request(site: Site) {
    let session = site.session().await;
    let first = failed(&session, "q").await;
    let second = session.retry_run(first.id().clone()).model("m").await.unwrap();
    assert_eq!(replayed(&session).await, ["q"], "the input is replayed once, of the attempt that runs");
    second.complete([Message::assistant("a")]).await.unwrap();
    let (first, second) = (first.info().await.unwrap(), second.info().await.unwrap());
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_eq!(second.retry_of.as_ref(), Some(&first.id));
    assert_eq!(first.intent, second.intent);
    let latest = session.runs().latest_attempt(first.intent.as_ref().unwrap()).await.unwrap().unwrap();
    assert_eq!(latest.id, second.id);
    let attempts = session.runs().list().intent(first.intent.unwrap()).await.unwrap().items;
    assert_eq!(attempts.len(), 2);
}

async fn a_retry_of_an_older_attempt_is_refused(site: Site) {
    let session = site.session().await;
    let first = failed(&session, "q").await;
    let second = session.retry_run(first.id().clone()).await.unwrap();
    second.fail(RunError::provider("timeout")).await.unwrap();
    let refused = session.retry_run(first.id().clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::VersionConflict);
    let third = session.retry_run(second.id().clone()).await.unwrap();
    assert_eq!(third.info().await.unwrap().attempt, 3);
    third.cancel().await.unwrap();
    let fourth = session.retry_run(third.id().clone()).await.unwrap();
    fourth.reject(RunError::host("guardrail")).await.unwrap();
    let fifth = session.retry_run(fourth.id().clone()).await.unwrap();
    fifth.complete([Message::assistant("a")]).await.unwrap();
    let refused = session.retry_run(fifth.id().clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::RunState, "it has its answer");
    let unknown = session.retry_run(RunId::new("none").unwrap()).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

async fn a_beginning_with_a_request_id_lands_once(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).request_id("job-9").await.unwrap();
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let again = other.begin_run(Message::user("q")).request_id("job-9").admit().await.unwrap();
    let Admission::Repeated { run: known, entries } = again else { panic!("a second run was begun") };
    assert_eq!((&known.id, known.state), (run.id(), RunState::Pending));
    assert_eq!(entries, [no(2)]);
    let refused = other.begin_run(Message::user("q")).request_id("job-9").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert!(refused.context().any(|(name, value)| name == "run" && value == run.id().as_str()));
    let conflict = other.begin_run(Message::user("else")).request_id("job-9").await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::RequestConflict);
    run.append([Message::assistant("a")]).request_id("step-1").await.unwrap();
    let repeated = run.append([Message::assistant("a")]).request_id("step-1").await.unwrap();
    assert!(repeated.repeated);
    run.complete([Message::assistant("b")]).await.unwrap();
    assert_eq!(session.info().await.unwrap().messages, 3);
}

async fn a_directory_that_no_text_can_name_is_refused_and_not_changed(site: Site) {
    let session = site.session().await;
    let odd = std::ffi::OsStr::from_bytes(b"/tmp/\xff");
    let refused = session.begin_run(Message::user("q")).work_dir(odd).request_id("r").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(session.runs().list().await.unwrap().items.len(), 0, "nothing was begun");
}

async fn a_waiting_run_holds_no_lease_and_is_resumed_elsewhere(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("may I?")).await.unwrap();
    run.append([Message::assistant_with_calls("", [call("c1")])]).await.unwrap();
    run.wait_for(WaitingFor::Approval).await.unwrap();
    assert_eq!(lease_state(&session).await, Some(LeaseState::Released));
    assert_eq!(run.append([Message::user("no")]).await.unwrap_err().kind(), ErrorKind::RunState);
    let id = run.id().clone();
    drop(run);
    session.workspace().settle().await;
    let ws = site.workspace().await;
    assert!(ws.recovered().is_empty(), "a run that waits for a person is no orphan");
    let other = ws.sessions().open(session.id()).await.unwrap();
    assert_eq!(other.runs().active().await.unwrap().unwrap().state, RunState::WaitingApproval);
    let refused = other.begin_run(Message::user("me too")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ActiveRun);
    let resumed = other.resume_run(id.clone()).await.unwrap();
    assert_eq!(replayed(&other).await.first().map(String::as_str), Some("may I?"));
    resumed.complete([Message::assistant("done")]).await.unwrap();
    assert_eq!(events(&other).await, ["run_started", "run_waiting_approval", "run_resumed", "run_completed"]);
    assert_eq!(other.resume_run(id).await.unwrap_err().kind(), ErrorKind::RunState);
}

async fn a_waiting_run_is_resumed_through_its_own_handle(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("which?")).await.unwrap();
    run.append([Message::assistant("this or that?")]).await.unwrap();
    run.wait_for(WaitingFor::Input).await.unwrap();
    assert_eq!(run.wait_for(WaitingFor::Input).await.unwrap_err().kind(), ErrorKind::RunState);
    session.append([Message::user("that")]).await.unwrap();
    run.resume().await.unwrap();
    assert_eq!(lease_state(&session).await, Some(LeaseState::Held));
    run.complete([Message::assistant("that it is")]).await.unwrap();
    assert_eq!(replayed(&session).await, ["which?", "this or that?", "that", "that it is"]);
}

async fn a_failed_run_is_reopened_explicitly_as_a_new_turn(site: Site) {
    let session = site.session().await;
    let run = failed(&session, "q").await;
    let again = session.reopen_run(run.id().clone()).await.unwrap();
    assert_ne!(again.turn(), run.turn());
    assert_eq!(again.info().await.unwrap().state, RunState::Running);
    assert_eq!(replayed(&session).await, ["q"]);
    again.complete([Message::assistant("a")]).await.unwrap();
    assert_eq!(
        kinds(&session).await,
        ["turn_start", "message", "turn_end", "turn_start", "message", "turn_end"]
    );
    assert_eq!(session.runs().list().await.unwrap().items.len(), 1);
    let refused = session.reopen_run(run.id().clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::RunState, "a completed run is not reopened");
}

async fn a_job_that_makes_its_session_lazily_is_repeated_once(site: Site) {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let ws = site.workspace().await;
        let session = ws.sessions().create().title("job").lazy().await.unwrap();
        match session.begin_run(Message::user("q")).request_id("job-1").admit().await.unwrap() {
            Admission::Begun(run) => {
                run.complete([Message::assistant("a")]).await.unwrap();
                seen.push((run.session().session_ref().clone(), run.id().clone()));
            }
            Admission::Repeated { run, entries } => {
                assert_eq!((run.state, entries), (RunState::Completed, vec![no(2)]));
                assert!(!session.is_stored());
                seen.push((run.session.clone(), run.id.clone()));
            }
        }
        let session = ws.sessions().create().title("notes").lazy().await.unwrap();
        let made = session.append([Message::user("note")]).request_id("job-2").await.unwrap();
        seen.push((made.session, RunId::new(format!("{:?}", made.numbers)).unwrap()));
    }
    assert_eq!(seen[0], seen[2]);
    assert_eq!(seen[1], seen[3]);
    assert_eq!(site.workspace().await.sessions().list().count().await.unwrap(), 2);
}

async fn a_dead_owners_lease_without_a_run_is_no_obstacle(site: Site) {
    use turnkeep_core::model::LeasePurpose;
    let session = site.session().await;
    let waiting = session.begin_run(Message::user("may I?")).await.unwrap();
    waiting.wait_for(WaitingFor::Approval).await.unwrap();
    let seize = |site| async move {
        let ws = Site::workspace(site).await;
        let name = session_lease(session.session_ref());
        let lease = ws.leases().try_acquire([name], LeasePurpose::Mutation).await.unwrap();
        drop(ws);
        turnkeep_sessions::testing::abandon_lease(lease).close().await.unwrap();
        session
    };
    let session = seize(&site).await;
    waiting.resume().await.unwrap();
    waiting.complete([Message::assistant("done")]).await.unwrap();
    let run = session.begin_run(Message::user("next")).await.unwrap();
    run.cancel().await.unwrap();
}

async fn a_waiting_run_can_be_given_up_as_it_is(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("may I?")).await.unwrap();
    run.stream("asking").await.unwrap();
    run.wait_for(WaitingFor::Approval).await.unwrap();
    let late = run.complete([Message::assistant("done anyway")]).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::RunState, "only a resumed run is completed");
    run.cancel().await.unwrap();
    assert_eq!(run.info().await.unwrap().state, RunState::Cancelled);
    assert_eq!(turn_end(&session).await.status, TurnStatus::Cancelled);
    assert!(session.history().await.unwrap().items[1].is_partial());
    session.begin_run(Message::user("next")).await.unwrap().cancel().await.unwrap();
}

async fn the_request_behind_a_run_is_kept_byte_for_byte(site: Site) {
    let session = site.session().await;
    let request = json(r#"{"zebra":1, "alpha":[1.0,1e2]}"#);
    let run = session
        .begin_run(Message::user("q"))
        .intent(IntentId::new("i1").unwrap())
        .turn(TurnId::new("t1").unwrap())
        .source("web")
        .model("m")
        .mode("plan")
        .work_dir("/src")
        .fingerprint("f")
        .request(request.clone())
        .policy(json(r#"{"allow":[]}"#))
        .await
        .unwrap();
    assert_eq!(run.turn().as_str(), "t1");
    run.complete([Message::assistant("a")]).await.unwrap();
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let row = other.runs().get(run.id()).await.unwrap();
    assert_eq!((row.mode.as_deref(), row.work_dir.as_deref()), (Some("plan"), Some("/src")));
    let intent = other.runs().intent(&row.intent.unwrap()).await.unwrap();
    assert_eq!(intent.request, Some(request));
    assert_eq!(intent.policy, Some(json(r#"{"allow":[]}"#)));
    assert_eq!((intent.source.as_deref(), intent.fingerprint.as_deref()), (Some("web"), Some("f")));
    let taken = session.begin_run(Message::user("q")).intent(intent.id).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists, "an accepted request never changes");
    assert!(taken.context().any(|(name, _)| name == "intent"), "{taken}");
    let missing = other.runs().intent(&IntentId::new("none").unwrap()).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

async fn the_request_behind_a_run_is_found_from_a_fork(site: Site) {
    let session = site.session().await;
    let asked = json(r#"{"ask":1}"#);
    let run = session.begin_run(Message::user("q")).request(asked.clone()).await.unwrap();
    run.fail(RunError::provider("timeout")).await.unwrap();
    let again = session.retry_run(run.id().clone()).await.unwrap();
    again.complete([Message::assistant("a")]).await.unwrap();
    let child = session.fork("f").await.unwrap().session;
    for run in child.runs().list().await.unwrap().items {
        let intent = child.runs().intent(&run.intent.unwrap()).await.unwrap();
        assert_eq!(intent.request.as_ref(), Some(&asked));
    }
    // No session reads what none of its runs asked for.
    let other = site.session().await;
    let intent = session.runs().list().await.unwrap().items.remove(0).intent.unwrap();
    assert_eq!(other.runs().intent(&intent).await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn turns_are_listed_in_the_order_of_the_transcript(site: Site) {
    let session = site.session().await;
    assert!(session.turns(10, None).await.unwrap().items.is_empty());
    let first = failed(&session, "one").await;
    let second = session.begin_run(Message::user("two")).await.unwrap();
    second.complete([Message::assistant("a")]).stop_reason("stop").await.unwrap();
    let third = session.begin_run(Message::user("three")).await.unwrap();
    let page = session.turns(2, None).await.unwrap();
    let rest = session.turns(2, page.next).await.unwrap();
    let turns: Vec<_> = page.items.into_iter().chain(rest.items).collect();
    let runs: Vec<_> = turns.iter().map(|turn| turn.run.clone().unwrap()).collect();
    assert_eq!(runs, [first.id().clone(), second.id().clone(), third.id().clone()]);
    let ends: Vec<_> = turns.iter().map(|turn| turn.end.as_ref().map(|end| end.status)).collect();
    assert_eq!(ends, [Some(TurnStatus::Failed), Some(TurnStatus::Completed), None]);
    let end = turns[1].end.as_ref().unwrap();
    assert_eq!((turns[1].start, end.entry, end.stop_reason.as_deref()), (no(4), no(7), Some("stop")));
    assert_eq!(session.turns(0, None).await.unwrap_err().kind(), ErrorKind::Invalid);
    third.cancel().await.unwrap();
}

async fn a_turn_outside_of_a_run_is_ended_once(site: Site) {
    let session = site.session().await;
    let turn = TurnId::new("t").unwrap();
    let end = || TurnEnd { status: TurnStatus::Incomplete, stop_reason: Some("length".into()) };
    assert_eq!(session.end_turn(&turn, end()).await.unwrap_err().kind(), ErrorKind::TurnNotOpen);
    let lazy = session.workspace().sessions().create().lazy().await.unwrap();
    assert_eq!(lazy.end_turn(&turn, end()).await.unwrap_err().kind(), ErrorKind::TurnNotOpen);
    session.start_turn(&turn).await.unwrap();
    let run = session.begin_run(Message::user("q")).turn(turn.clone()).await.unwrap_err();
    for taken in [session.start_turn(&turn).await.unwrap_err(), run] {
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        assert!(taken.to_string().starts_with("a turn with this id was begun before"), "{taken}");
    }
    session.append([Message::user("q")]).await.unwrap();
    assert_eq!(session.end_turn(&turn, end()).await.unwrap(), no(3));
    assert_eq!(session.end_turn(&turn, end()).await.unwrap_err().kind(), ErrorKind::TurnNotOpen);
    let turns = session.turns(10, None).await.unwrap().items;
    assert_eq!(turns[0].end.as_ref().unwrap().status, TurnStatus::Incomplete);
    session.workspace().sessions().delete(session.id().clone()).await.unwrap();
    assert_eq!(session.end_turn(&turn, end()).await.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn a_closing_run_tolerates_a_turn_that_was_ended_before(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    let end = TurnEnd { status: TurnStatus::Completed, stop_reason: None };
    let ended = session.end_turn(run.turn(), end).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
    let turns = session.turns(10, None).await.unwrap().items;
    assert_eq!(turns[0].end.as_ref().unwrap().entry, ended);
    assert_eq!(kinds(&session).await, ["turn_start", "message", "turn_end", "message"]);
}
