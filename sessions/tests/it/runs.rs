//! Runs in the order that keeps everything: input and run before the model, answer and verdict in one commit.

use turnkeep_core::commit::RunPatch;
use turnkeep_core::id::{IntentId, TurnId};
use turnkeep_core::model::{LeaseState, RunState, TitleSource, Usage, entry_kind};
use turnkeep_core::{EntryNo, ErrorKind, Payload, RunId};
use turnkeep_sessions::message::{ToolCall, ToolResult};
use turnkeep_sessions::{
    Admission, Draft, Message, Run, RunError, Session, TurnEnd, TurnStatus, WaitingFor, session_lease,
};

use crate::site::{Site, on_both};

fn no(number: u32) -> EntryNo {
    EntryNo::new(number).unwrap()
}

fn json(text: &str) -> Payload {
    Payload::new(text).unwrap()
}

async fn kinds(session: &Session) -> Vec<String> {
    let entries = session.entries(|query| query.limit = 100).await.unwrap().items;
    entries.iter().map(|entry| entry.kind.to_string()).collect()
}

async fn events(session: &Session) -> Vec<String> {
    session.runs().events(None, 100).await.unwrap().items.iter().map(|event| event.kind.to_string()).collect()
}

async fn replayed(session: &Session) -> Vec<String> {
    session.replay().await.unwrap().messages.iter().map(|replayed| replayed.message.text()).collect()
}

async fn lease_state(session: &Session) -> Option<LeaseState> {
    let name = session_lease(session.session_ref());
    session.workspace().leases().view(name).await.unwrap().map(|lease| lease.state)
}

async fn turn_end(session: &Session) -> TurnEnd {
    TurnEnd::from_entry(&session.latest(entry_kind::TURN_END).await.unwrap().unwrap()).unwrap()
}

on_both!(
    input_and_pending_run_are_durable_before_the_model_is_called,
    completing_is_one_commit,
    a_failed_run_keeps_its_input_and_replays_nothing_of_it,
    a_cancelled_run_is_recorded_as_cancelled,
    tool_rounds_are_replayed_as_pairs_within_the_run_and_after,
    an_unanswered_call_of_a_running_run_is_repaired_in_the_copy,
    a_refused_completion_leaves_the_run_and_can_be_repeated,
    completing_twice_appends_nothing_twice,
    a_second_run_in_a_session_is_refused,
    a_run_id_is_never_taken_twice,
    the_request_behind_a_run_is_kept_byte_for_byte,
    a_retry_is_the_next_attempt_at_the_same_request,
    a_retry_of_an_older_attempt_is_refused,
    a_beginning_with_a_request_id_lands_once,
    a_waiting_run_holds_no_lease_and_is_resumed_elsewhere,
    a_waiting_run_is_resumed_through_its_own_handle,
    a_failed_run_is_reopened_explicitly_as_a_new_turn,
    a_dropped_run_is_closed_as_interrupted_and_the_session_goes_on,
    streamed_text_is_kept_for_display_unless_the_run_completes,
    progress_usage_and_model_move_on_their_own,
    a_branch_switch_cannot_capture_a_runs_answer,
    the_session_of_a_run_takes_other_entries_meanwhile,
    a_run_can_wind_down_before_it_is_cancelled,
    events_are_read_from_a_known_place,
    runs_are_listed_newest_first_and_found_by_state,
    turns_are_listed_in_the_order_of_the_transcript,
    a_turn_outside_of_a_run_is_ended_once,
    a_closing_run_tolerates_a_turn_that_was_ended_before,
    a_job_that_makes_its_session_lazily_is_repeated_once,
    a_dead_owners_lease_without_a_run_is_no_obstacle,
    a_waiting_run_can_be_given_up_as_it_is,
);

async fn input_and_pending_run_are_durable_before_the_model_is_called(site: Site) {
    let session = site.session().await;
    let before = session.info().await.unwrap().revision;
    let run = session.begin_run(Message::user("why does it fail?")).source("cli").model("m").await.unwrap();
    // Seen by another handle, as after a kill.
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let row = other.info().await.unwrap();
    assert_eq!(row.revision, before + 1, "one commit");
    assert_eq!(row.active_run.as_ref(), Some(run.id()));
    let stored = other.runs().get(run.id()).await.unwrap();
    assert_eq!(stored.state, RunState::Pending);
    assert_eq!((stored.source.as_deref(), stored.model.as_deref()), (Some("cli"), Some("m")));
    let entries = other.entries(|_| {}).await.unwrap().items;
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0].kind.as_str(), entry_kind::TURN_START);
    assert_eq!(entries[0].key.as_ref().unwrap().as_str(), format!("turn/{}/start", run.turn()));
    assert_eq!(entries[1].text.as_deref(), Some("why does it fail?"));
    for entry in &entries {
        assert_eq!((entry.run.as_ref(), entry.turn.as_ref()), (Some(run.id()), Some(run.turn())));
    }
    assert_eq!(events(&other).await, ["run_started"]);
    assert_eq!(lease_state(&other).await, Some(LeaseState::Held));
    assert!(other.runs().intent(stored.intent.as_ref().unwrap()).await.is_ok());
    assert_eq!(replayed(&session).await, ["why does it fail?"], "the run's own handle replays its input");
    assert!(replayed(&other).await.is_empty(), "others do not replay what is not finished");
}

async fn completing_is_one_commit(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("question")).await.unwrap();
    let before = session.info().await.unwrap().revision;
    let usage =
        Usage { requests: 1, input_tokens: 10, output_tokens: 3, total_tokens: 13, ..Usage::default() };
    run.complete([Message::assistant("answer")]).usage(usage).stop_reason("stop").await.unwrap();
    let row = session.info().await.unwrap();
    assert_eq!((row.revision, row.active_run, row.messages), (before + 1, None, 2));
    assert_eq!(row.usage, usage);
    let stored = run.info().await.unwrap();
    assert_eq!((stored.state, stored.usage), (RunState::Completed, usage));
    assert!(stored.finished_at.is_some());
    assert_eq!(kinds(&session).await, ["turn_start", "message", "message", "turn_end"]);
    let end = turn_end(&session).await;
    assert_eq!((end.status, end.stop_reason.as_deref()), (TurnStatus::Completed, Some("stop")));
    assert_eq!(events(&session).await, ["run_started", "run_completed"]);
    assert_eq!(lease_state(&session).await, Some(LeaseState::Released));
    assert_eq!(replayed(&session).await, ["question", "answer"]);
    session.append([Message::user("the handle goes on without a reload")]).await.unwrap();
}

async fn a_failed_run_keeps_its_input_and_replays_nothing_of_it(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("first")).await.unwrap();
    run.complete([Message::assistant("fine")]).await.unwrap();
    let run = session.begin_run(Message::user("second")).await.unwrap();
    run.fail(RunError::provider("timeout").message("no answer in 30 s").retryable()).await.unwrap();
    let stored = run.info().await.unwrap();
    assert_eq!(stored.state, RunState::Failed);
    let error = RunError::from_run(&stored).unwrap().unwrap();
    assert_eq!((error.area.as_str(), error.code.as_str(), error.retryable), ("provider", "timeout", true));
    let history: Vec<_> = session.history().await.unwrap().items;
    let said: Vec<_> = history.iter().map(|item| item.entry.text.clone().unwrap()).collect();
    assert_eq!(said, ["first", "fine", "second"], "the input is auditable, and no answer is made up");
    assert_eq!(replayed(&session).await, ["first", "fine"]);
    assert_eq!(turn_end(&session).await.status, TurnStatus::Failed);
    assert_eq!(events(&session).await.last().unwrap(), "run_failed");
    let run = session.begin_run(Message::user("third")).await.unwrap();
    assert_eq!(replayed(&session).await, ["first", "fine", "third"]);
    run.complete([Message::assistant("done")]).await.unwrap();
}

async fn a_cancelled_run_is_recorded_as_cancelled(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("stop me")).await.unwrap();
    run.cancel().await.unwrap();
    assert_eq!(run.info().await.unwrap().state, RunState::Cancelled);
    assert_eq!(turn_end(&session).await.status, TurnStatus::Cancelled);
    assert_eq!(events(&session).await, ["run_started", "run_cancelled"]);
    assert_eq!(run.cancel().await.unwrap_err().kind(), ErrorKind::RunState);
    assert!(replayed(&session).await.is_empty());
}

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "read", json(r#"{"path":"a.rs"}"#))
}

async fn tool_rounds_are_replayed_as_pairs_within_the_run_and_after(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("read it")).await.unwrap();
    run.append([Message::assistant_with_calls("reading", [call("c1"), call("c2")])]).await.unwrap();
    assert_eq!(run.info().await.unwrap().state, RunState::Running);
    run.append([Message::tool_results([
        ToolResult::new("c1", "one", false),
        ToolResult::new("c2", "two", true),
    ])])
    .usage(Usage { requests: 1, ..Usage::default() })
    .await
    .unwrap();
    let within = session.replay().await.unwrap();
    assert_eq!((within.messages.len(), within.repaired), (3, 0));
    run.complete([Message::assistant("read")]).await.unwrap();
    let roles: Vec<_> =
        session.replay().await.unwrap().messages.iter().map(|m| m.message.role().to_string()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    let stored = run.info().await.unwrap();
    assert_eq!((stored.state, stored.usage.requests), (RunState::Completed, 1));
}

async fn an_unanswered_call_of_a_running_run_is_repaired_in_the_copy(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("read it")).await.unwrap();
    run.append([Message::assistant_with_calls("", [call("c1")])]).await.unwrap();
    let replay = session.replay().await.unwrap();
    assert_eq!(replay.repaired, 1);
    assert_eq!(kinds(&session).await, ["turn_start", "message", "message"], "stored rows never change");
    run.complete([Message::assistant("gave up")]).await.unwrap();
}

async fn a_refused_completion_leaves_the_run_and_can_be_repeated(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    session.append([Draft::from(Message::user("aside")).key("taken")]).await.unwrap();
    let refused = run.complete([Draft::from(Message::assistant("a")).key("taken")]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(run.info().await.unwrap().state, RunState::Pending);
    assert_eq!(lease_state(&session).await, Some(LeaseState::Held));
    run.complete([Message::assistant("a")]).await.unwrap();
    assert_eq!(run.info().await.unwrap().state, RunState::Completed);
}

async fn completing_twice_appends_nothing_twice(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
    for refused in [
        run.complete([Message::assistant("a")]).await.unwrap_err(),
        run.append([Message::assistant("a")]).await.unwrap_err(),
        run.fail(RunError::host("late")).await.unwrap_err(),
        run.stream("late").await.unwrap_err(),
        run.wait_for(WaitingFor::Input).await.unwrap_err(),
        run.resume().await.unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::RunState);
    }
    assert_eq!(session.info().await.unwrap().messages, 2);
    assert_eq!(events(&session).await.len(), 2);
}

async fn a_second_run_in_a_session_is_refused(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    // Through the same handle: it holds the lease, and the store still refuses.
    let same = session.begin_run(Message::user("again")).await.unwrap_err();
    assert!(matches!(same.kind(), ErrorKind::ActiveRun | ErrorKind::LeaseHeld), "{same}");
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    let elsewhere = other.begin_run(Message::user("elsewhere")).await.unwrap_err();
    assert_eq!(elsewhere.kind(), ErrorKind::LeaseHeld);
    assert!(elsewhere.context().any(|(name, value)| name == "purpose" && value == "execution"));
    assert_eq!(session.info().await.unwrap().runs, 1);
    run.complete([Message::assistant("a")]).await.unwrap();
}

async fn a_run_id_is_never_taken_twice(site: Site) {
    let session = site.session().await;
    let id = RunId::new("r1").unwrap();
    let run = session.begin_run(Message::user("q")).id(id.clone()).await.unwrap();
    run.fail(RunError::host("x")).await.unwrap();
    let refused = session.begin_run(Message::user("other")).id(id.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(run.info().await.unwrap().state, RunState::Failed);
    assert_eq!(session.info().await.unwrap().messages, 1);
    let long = RunId::new("x".repeat(256)).unwrap();
    let refused = session.begin_run(Message::user("q")).id(long).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge, "its turn key would be too long");
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
    assert_eq!(taken.kind(), ErrorKind::VersionConflict, "an accepted request never changes");
    let missing = other.runs().intent(&IntentId::new("none").unwrap()).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

async fn failed(session: &Session, text: &str) -> Run {
    let run = session.begin_run(Message::user(text)).model("m").await.unwrap();
    run.fail(RunError::provider("timeout")).await.unwrap();
    run
}

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

async fn a_dropped_run_is_closed_as_interrupted_and_the_session_goes_on(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.stream("half an ans").await.unwrap();
    let id = run.id().clone();
    drop(run);
    // No settle, no reload: the handle waits for its own close.
    let next = session.begin_run(Message::user("again")).await.unwrap();
    let first = session.runs().get(&id).await.unwrap();
    assert_eq!(first.state, RunState::Interrupted);
    assert_eq!(RunError::from_run(&first).unwrap().unwrap().code, "dropped");
    next.complete([Message::assistant("a")]).await.unwrap();
    assert_eq!(events(&session).await, ["run_started", "run_interrupted", "run_started", "run_completed"]);
    assert_eq!(replayed(&session).await, ["again", "a"]);
    let said: Vec<_> =
        session.history().await.unwrap().items.iter().map(|item| item.entry.text.clone().unwrap()).collect();
    assert_eq!(said, ["q", "half an ans", "again", "a"]);
}

async fn streamed_text_is_kept_for_display_unless_the_run_completes(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("one")).await.unwrap();
    for piece in ["he", "llo ", "wörld\u{0}"] {
        run.stream(piece).await.unwrap();
    }
    assert_eq!(run.stream("").await.unwrap_err().kind(), ErrorKind::Invalid);
    run.complete([Message::assistant("hello wörld")]).await.unwrap();
    let all = session.history().await.unwrap().items;
    assert_eq!(all.len(), 2, "the text became the answer");
    let run = session.begin_run(Message::user("two")).await.unwrap();
    run.stream("par").await.unwrap();
    run.stream("tial").await.unwrap();
    run.cancel().await.unwrap();
    let all = session.history().await.unwrap().items;
    let partial: Vec<_> = all.iter().filter(|item| item.is_partial()).collect();
    assert_eq!(partial.len(), 1);
    assert_eq!(partial[0].message.as_ref().unwrap().text(), "partial");
    assert!(!partial[0].entry.on_path);
    assert_eq!(replayed(&session).await, ["one", "hello wörld"]);
    assert_eq!(session.info().await.unwrap().messages, 3, "a partial is no message");
}

async fn progress_usage_and_model_move_on_their_own(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).model("small").await.unwrap();
    let patch = RunPatch {
        progress: Some(Some(json(r#"{"step":1}"#))),
        context_usage: Some(Some(json("0.5"))),
        model: Some(Some("large".into())),
        ..RunPatch::default()
    };
    run.patch(patch).await.unwrap();
    run.add_usage(Usage { total_tokens: 5, ..Usage::default() }).await.unwrap();
    run.add_usage(Usage { total_tokens: 6, ..Usage::default() }).await.unwrap();
    let stored = run.info().await.unwrap();
    assert_eq!(stored.state, RunState::Running);
    assert_eq!(stored.progress.unwrap().as_str(), r#"{"step":1}"#);
    assert_eq!(stored.context_usage.unwrap().as_str(), "0.5");
    assert_eq!((stored.model.as_deref(), stored.usage.total_tokens), (Some("large"), 11));
    run.patch(RunPatch { progress: Some(None), ..RunPatch::default() }).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
    let stored = run.info().await.unwrap();
    assert!(stored.progress.is_none() && stored.context_usage.is_some());
    assert_eq!(session.info().await.unwrap().usage.total_tokens, 11);
}

async fn a_branch_switch_cannot_capture_a_runs_answer(site: Site) {
    let session = site.session().await;
    session.append([Message::user("a"), Message::assistant("b")]).await.unwrap();
    let run = session.begin_run(Message::user("q")).await.unwrap();
    let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
    assert_eq!(other.move_leaf(Some(no(1))).await.unwrap_err().kind(), ErrorKind::LeaseHeld);
    // The own handle may move it, knowingly; the answer follows then.
    session.move_leaf(Some(no(1))).await.unwrap();
    run.complete([Message::assistant("answer")]).await.unwrap();
    assert_eq!(session.entry(no(5)).await.unwrap().parent, Some(no(1)));
}

async fn the_session_of_a_run_takes_other_entries_meanwhile(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    session.append([Draft::title("named while it runs", TitleSource::Auto)]).await.unwrap();
    run.append([Message::assistant("thinking")]).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
    let entries = session.entries(|_| {}).await.unwrap().items;
    assert!(entries[2].run.is_none());
    assert_eq!(entries[3].parent, Some(no(3)));
}

async fn a_run_can_wind_down_before_it_is_cancelled(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    run.cancelling().await.unwrap();
    assert_eq!(run.info().await.unwrap().state, RunState::Cancelling);
    run.append([Message::assistant("last words")]).await.unwrap();
    assert_eq!(run.wait_for(WaitingFor::Input).await.unwrap_err().kind(), ErrorKind::RunState);
    run.cancel().await.unwrap();
    assert_eq!(run.info().await.unwrap().state, RunState::Cancelled);
}

async fn events_are_read_from_a_known_place(site: Site) {
    let session = site.session().await;
    assert_eq!(session.runs().latest_event().await.unwrap(), 0);
    let first = failed(&session, "one").await;
    let seen = session.runs().latest_event().await.unwrap();
    let second = failed(&session, "two").await;
    let new = session.runs().events(Some(seen), 10).await.unwrap().items;
    assert_eq!(new.iter().map(|event| event.number).collect::<Vec<_>>(), [seen + 1, seen + 2]);
    assert!(new.iter().all(|event| event.run.as_ref() == Some(second.id())));
    let of_first = session.runs().events_of(first.id(), None, 10).await.unwrap().items;
    assert_eq!(of_first.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2]);
}

async fn runs_are_listed_newest_first_and_found_by_state(site: Site) {
    use turnkeep_core::model::RunStates;
    let session = site.session().await;
    let first = failed(&session, "one").await;
    let second = session.begin_run(Message::user("two")).await.unwrap();
    second.complete([Message::assistant("a")]).await.unwrap();
    let third = session.begin_run(Message::user("three")).await.unwrap();
    let ids = |page: turnkeep_core::Page<turnkeep_core::model::Run>| {
        page.items.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    let all = ids(session.runs().list().await.unwrap());
    assert_eq!(all, [third.id().clone(), second.id().clone(), first.id().clone()]);
    let active = ids(session.workspace().runs().active().await.unwrap());
    assert_eq!(active, [third.id().clone()]);
    let done = session.runs().list().states(RunStates::of(&[RunState::Completed]));
    assert_eq!(ids(done.await.unwrap()), [second.id().clone()]);
    let page = session.runs().list().limit(2).await.unwrap();
    let rest = session.runs().list().limit(2).cursor(page.next.unwrap()).await.unwrap();
    assert_eq!(ids(rest), [first.id().clone()]);
    third.cancel().await.unwrap();
    assert!(session.runs().active().await.unwrap().is_none());
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
    session.start_turn(&turn).await.unwrap();
    assert_eq!(session.start_turn(&turn).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
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
