//! Runs in the order that keeps everything: input and run before the model, answer and verdict in one commit.

use turnkeep_core::commit::RunPatch;
use turnkeep_core::model::{LeaseState, RunState, TitleSource, Usage, entry_kind};
use turnkeep_core::{EntryNo, ErrorKind, Payload, RunId};
use turnkeep_sessions::message::{ToolCall, ToolResult};
use turnkeep_sessions::{
    Draft, Message, Run, RunError, Session, TurnEnd, TurnStatus, WaitingFor, session_lease,
};

use crate::site::{Site, on_each};

pub(crate) fn no(number: u32) -> EntryNo {
    EntryNo::new(number).unwrap()
}

pub(crate) fn json(text: &str) -> Payload {
    Payload::new(text).unwrap()
}

pub(crate) async fn kinds(session: &Session) -> Vec<String> {
    let entries = session.entries(|query| query.limit = 100).await.unwrap().items;
    entries.iter().map(|entry| entry.kind.to_string()).collect()
}

pub(crate) async fn events(session: &Session) -> Vec<String> {
    session.runs().events(None, 100).await.unwrap().items.iter().map(|event| event.kind.to_string()).collect()
}

pub(crate) async fn replayed(session: &Session) -> Vec<String> {
    session.replay().await.unwrap().messages.iter().map(|replayed| replayed.message.text()).collect()
}

pub(crate) async fn lease_state(session: &Session) -> Option<LeaseState> {
    let name = session_lease(session.session_ref());
    session.workspace().leases().view(name).await.unwrap().map(|lease| lease.state)
}

pub(crate) async fn turn_end(session: &Session) -> TurnEnd {
    TurnEnd::from_entry(&session.latest(entry_kind::TURN_END).await.unwrap().unwrap()).unwrap()
}

on_each!(
    input_and_pending_run_are_durable_before_the_model_is_called,
    completing_is_one_commit,
    nothing_is_compacted_or_remembered_unless_the_host_says_so,
    a_failed_run_keeps_its_input_and_replays_nothing_of_it,
    a_cancelled_run_is_recorded_as_cancelled,
    tool_rounds_are_replayed_as_pairs_within_the_run_and_after,
    an_unanswered_call_of_a_running_run_is_repaired_in_the_copy,
    a_refused_completion_leaves_the_run_and_can_be_repeated,
    completing_twice_appends_nothing_twice,
    a_second_run_in_a_session_is_refused,
    a_run_id_is_never_taken_twice,
    a_dropped_run_is_closed_as_interrupted_and_the_session_goes_on,
    streamed_text_is_kept_for_display_unless_the_run_completes,
    progress_usage_and_model_move_on_their_own,
    a_branch_switch_cannot_capture_a_runs_answer,
    the_session_of_a_run_takes_other_entries_meanwhile,
    a_run_can_wind_down_before_it_is_cancelled,
    events_are_read_from_a_known_place,
    a_host_notes_what_happens_in_a_run_and_gets_the_number,
    streaming_costs_by_the_new_text_and_never_by_the_old,
    a_run_that_waits_says_for_what_and_only_then_takes_a_resume,
    runs_are_listed_newest_first_and_found_by_state,
    dropping_everything_at_once_closes_the_run_first,
    many_agents_at_once_lose_nothing,
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

pub(crate) fn call(id: &str) -> ToolCall {
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
}

pub(crate) async fn failed(session: &Session, text: &str) -> Run {
    let run = session.begin_run(Message::user(text)).model("m").await.unwrap();
    run.fail(RunError::provider("timeout")).await.unwrap();
    run
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
    let troubled = RunPatch { error: Some(Some(json(r#"{"try":2}"#))), ..RunPatch::default() };
    run.patch(troubled).await.unwrap();
    assert_eq!(run.info().await.unwrap().error.unwrap().as_str(), r#"{"try":2}"#, "it is not over for that");
    let well_again = RunPatch { progress: Some(None), error: Some(None), ..RunPatch::default() };
    run.patch(well_again).await.unwrap();
    run.complete([Message::assistant("a")]).await.unwrap();
    let stored = run.info().await.unwrap();
    assert!(stored.progress.is_none() && stored.error.is_none() && stored.context_usage.is_some());
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

async fn dropping_everything_at_once_closes_the_run_first(site: Site) {
    // On a thread of its own, as a program that ends: the runtime and all handles go at once.
    let site = std::sync::Arc::new(site);
    let (of, work) = (site.clone(), tokio::runtime::Handle::current());
    let ids = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let session = of.session().await;
            let run = session.begin_run(Message::user("q")).await.unwrap();
            (session.id().clone(), run.id().clone())
        })
    });
    let (id, run) = work.spawn_blocking(|| ids.join().unwrap()).await.unwrap();
    let ws = site.workspace().await;
    assert!(ws.recovered().is_empty(), "nothing was left to be recovered");
    let stored = ws.sessions().open(&id).await.unwrap().runs().get(&run).await.unwrap();
    assert_eq!(RunError::from_run(&stored).unwrap().unwrap().code, "dropped");
}

async fn many_agents_at_once_lose_nothing(site: Site) {
    const AGENTS: usize = 40;
    let ws = site.workspace().await;
    let mut agents = Vec::new();
    for agent in 0..AGENTS {
        let ws = ws.clone();
        agents.push(tokio::spawn(async move {
            let session = ws.sessions().create().await.unwrap();
            for turn in 0..5 {
                let run = session.begin_run(Message::user(format!("{agent}/{turn}"))).await.unwrap();
                run.append([Message::assistant_with_calls("", [call("c")])]).await.unwrap();
                run.append([Message::tool_result("c", "ok", false)]).await.unwrap();
                run.complete([Message::assistant("done")]).await.unwrap();
            }
            session
        }));
    }
    for agent in agents {
        let session = agent.await.unwrap();
        let row = session.info().await.unwrap();
        assert_eq!((row.messages, row.runs, row.active_run), (20, 5, None));
        let replay = session.replay().await.unwrap();
        assert_eq!((replay.messages.len(), replay.repaired), (20, 0));
    }
    assert_eq!(ws.sessions().list().count().await.unwrap(), AGENTS as u64);
}

async fn nothing_is_compacted_or_remembered_unless_the_host_says_so(site: Site) {
    let session = site.session().await;
    let long = "words ".repeat(2_000);
    for _ in 0..10 {
        let run = session.begin_run(Message::user(long.clone())).await.unwrap();
        run.complete([Message::assistant(long.clone())]).await.unwrap();
    }
    let kinds: std::collections::BTreeSet<String> = kinds(&session).await.into_iter().collect();
    let usual = [entry_kind::MESSAGE, entry_kind::SESSION, entry_kind::TURN_END, entry_kind::TURN_START];
    assert!(kinds.iter().all(|kind| usual.contains(&kind.as_str())), "{kinds:?}");
    assert_eq!(replayed(&session).await.len(), 20, "whether and when to compact is the host's to say");
    // Nor is anything kept of the workspace that belongs to no session.
    let workspace = session.workspace();
    let unowned = turnkeep_core::query::RowQuery::unowned(workspace.id().clone());
    assert_eq!(workspace.store().rows(&unowned).await.unwrap().items, []);
}

async fn a_host_notes_what_happens_in_a_run_and_gets_the_number(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    assert_eq!(session.runs().latest_event().await.unwrap(), 1, "the beginning is the first");
    let first = run.note("provider_called", json(r#"{"try":1}"#)).await.unwrap();
    let second = run.note("provider_called", json(r#"{"try":2}"#)).await.unwrap();
    assert_eq!((first, second), (2, 3));
    let refused = run.note("run_completed", Payload::empty()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "nobody tells the end of a run but its end");
    run.complete([Message::assistant("a")]).await.unwrap();
    let expected = ["run_started", "provider_called", "provider_called", "run_completed"];
    assert_eq!(events(&session).await, expected);
    let of_run = session.runs().events_of(run.id(), Some(first), 10).await.unwrap().items;
    assert_eq!(of_run.len(), 2);
    assert_eq!((of_run[0].number, of_run[0].payload.as_str()), (3, r#"{"try":2}"#));
    assert_eq!(session.runs().latest_event().await.unwrap(), 4);
    assert_eq!(run.note("late", Payload::empty()).await.unwrap_err().kind(), ErrorKind::RunState);
}

async fn streaming_costs_by_the_new_text_and_never_by_the_old(site: Site) {
    let session = site.session().await;
    let run = session.begin_run(Message::user("q")).await.unwrap();
    let mut whole = String::new();
    for at in 0..100 {
        let piece = format!("piece {at}, ");
        run.stream(&piece).await.unwrap();
        whole.push_str(&piece);
    }
    let stream = turnkeep_core::id::StreamName::new(format!("partial/{}", run.turn())).unwrap();
    let ws = session.workspace();
    let query = turnkeep_core::query::EventQuery::new(ws.id().clone(), session.session_ref().clone(), stream);
    let kept = ws.store().events(&query).await.unwrap().items;
    let bytes: usize = kept.iter().map(|event| event.payload.as_str().len()).sum();
    assert_eq!(kept.len(), 100);
    assert!(bytes < whole.len() + 100 * 20, "{bytes} bytes for {} of text", whole.len());
    let before = session.info().await.unwrap();
    run.cancel().await.unwrap();
    let shown = session.history().await.unwrap().items;
    assert_eq!(shown.last().unwrap().message.as_ref().unwrap().text(), whole);
    assert_eq!(session.info().await.unwrap().messages, before.messages, "shown, and no message");
    assert!(ws.store().events(&query).await.unwrap().items.is_empty(), "the pieces are gone with the run");
}

async fn a_run_that_waits_says_for_what_and_only_then_takes_a_resume(site: Site) {
    let session = site.session().await;
    for (what, state, event) in [
        (WaitingFor::Approval, RunState::WaitingApproval, "run_waiting_approval"),
        (WaitingFor::Input, RunState::WaitingInput, "run_waiting_input"),
    ] {
        let run = session.begin_run(Message::user("q")).await.unwrap();
        assert_eq!(run.resume().await.unwrap_err().kind(), ErrorKind::RunState, "it does not wait");
        run.append([Message::assistant("?")]).await.unwrap();
        run.wait_for(what).await.unwrap();
        assert_eq!(run.info().await.unwrap().state, state);
        assert_eq!(events(&session).await.last().unwrap(), event);
        assert_eq!(lease_state(&session).await, Some(LeaseState::Released), "nothing has to live meanwhile");
        for refused in [
            run.append([Message::assistant("x")]).await.map(drop),
            run.stream("x").await,
            run.complete([Message::assistant("x")]).await,
            run.wait_for(what).await,
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::RunState);
        }
        // Anybody who is asked may answer; a second run has to wait.
        let other = site.workspace().await.sessions().open(session.id()).await.unwrap();
        let busy = other.begin_run(Message::user("me")).await.unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::ActiveRun);
        let theirs = other.resume_run(run.id().clone()).await.unwrap();
        assert_eq!(events(&session).await.last().unwrap(), "run_resumed");
        let late = run.resume().await.unwrap_err().kind();
        assert!(matches!(late, ErrorKind::LeaseHeld | ErrorKind::RunState), "{late}");
        theirs.complete([Message::assistant("done")]).await.unwrap();
        session.reload().await.unwrap();
    }
}
