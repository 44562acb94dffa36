//! The replay rule over entries, without a store.

use std::collections::HashMap;

use turnkeep_core::id::{EntryKind, EntryNo, Relation, Role, RunId};
use turnkeep_core::model::{Entry, Reference, RunState, Visibility, entry_kind, role};
use turnkeep_core::{ErrorKind, Payload, Timestamp};
use turnkeep_sessions::message::{Block, Message, ToolCall, ToolResult};
use turnkeep_sessions::replay::{
    CutOff, LeftOutReason, Replay, ReplayPolicy, Unanswered, build, provider_valid,
};

/// Entries of a path, numbered as a store would.
#[derive(Clone, Default)]
pub(crate) struct Path {
    pub(crate) entries: Vec<Entry>,
    pub(crate) runs: HashMap<RunId, RunState>,
}

impl Path {
    pub(crate) fn push(&mut self, kind: &str, payload: Payload, change: impl FnOnce(&mut Entry)) -> EntryNo {
        let number = EntryNo::new(u32::try_from(self.entries.len()).unwrap() + 1).unwrap();
        let mut entry = Entry {
            number,
            parent: self.entries.last().map(|entry| entry.number),
            on_path: true,
            kind: EntryKind::new(kind).unwrap(),
            role: None,
            run: None,
            turn: None,
            key: None,
            visibility: Visibility::Conversation,
            at: Timestamp::from_millis(0),
            refs: Vec::new(),
            text: None,
            payload,
        };
        change(&mut entry);
        self.entries.push(entry);
        number
    }

    pub(crate) fn say(&mut self, message: &Message, run: Option<&str>) -> EntryNo {
        let role = message.role().clone();
        self.push(entry_kind::MESSAGE, message.payload().clone(), |entry| {
            entry.role = Some(role);
            entry.run = run.map(|run| RunId::new(run).unwrap());
        })
    }

    pub(crate) fn compact(&mut self, summary: &str, first_kept: Option<EntryNo>) -> EntryNo {
        let payload = Payload::from_value(&serde_json::json!({ "summary": summary })).unwrap();
        self.push(entry_kind::COMPACTION, payload, |entry| {
            entry.visibility = Visibility::Internal;
            entry.refs = first_kept
                .map(|kept| Reference { relation: Relation::new("first_kept").unwrap(), entry: kept })
                .into_iter()
                .collect();
        })
    }

    pub(crate) fn run(&mut self, run: &str, state: RunState) {
        self.runs.insert(RunId::new(run).unwrap(), state);
    }

    pub(crate) fn replay(&self, policy: &ReplayPolicy) -> Replay {
        let replay = build(&self.entries, &self.runs, policy).unwrap();
        provider_valid(&replay.to_messages()).unwrap();
        replay
    }
}

pub(crate) fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "tool", Payload::empty())
}

pub(crate) fn asks(ids: &[&str]) -> Message {
    Message::assistant_with_calls("", ids.iter().map(|id| call(id)))
}

pub(crate) fn numbers(replay: &Replay) -> Vec<Option<u32>> {
    replay.messages.iter().map(|message| message.entry.map(EntryNo::get)).collect()
}

fn stopped(message: Message, reason: &str) -> Message {
    message.with_field("stop_reason", &Payload::from_value(&reason).unwrap()).unwrap()
}

#[test]
fn case_19_a_call_without_a_result_is_answered_in_the_copy_and_the_stored_rows_stay() {
    let mut path = Path::default();
    path.say(&Message::user("go"), None);
    path.say(&asks(&["a", "b", "c"]), None);
    path.say(&Message::tool_result("b", "done", false), None);
    let before = path.entries.clone();
    let replay = path.replay(&ReplayPolicy::default());
    assert_eq!(path.entries, before);
    assert_eq!(numbers(&replay), [Some(1), Some(2), None, Some(3), None]);
    assert_eq!(replay.repaired, 2);
    let first = replay.messages[2].message.results().next().unwrap();
    assert!(first.is_error && first.call_id == "a" && first.text().starts_with("interrupted"));
    assert_eq!(
        replay.messages[3].message.payload(),
        &before[2].payload,
        "what is stored is handed out as it is"
    );

    let refusing = ReplayPolicy { unanswered: Unanswered::Refuse, ..ReplayPolicy::default() };
    let error = build(&path.entries, &path.runs, &refusing).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.context().any(|(name, value)| (name, value) == ("entry", "2")));
}

#[test]
fn case_20_two_compactions_leave_no_result_without_its_call() {
    let mut path = Path::default();
    path.say(&Message::user("one"), None);
    path.say(&asks(&["a"]), None);
    path.compact("first", Some(EntryNo::new(2).unwrap()));
    let result = path.say(&Message::tool_result("a", "done", false), None);
    path.say(&Message::assistant("fine"), None);
    path.compact("second", Some(result));
    path.say(&Message::user("two"), None);
    let replay = path.replay(&ReplayPolicy::default());
    // The kept part began at the result, so it is moved back to the call.
    assert_eq!(numbers(&replay), [Some(6), Some(2), Some(4), Some(5), Some(7)]);
    assert_eq!(replay.compaction, EntryNo::new(6));
    assert_eq!(replay.messages[0].message.text(), "second");
    assert_eq!(replay.left_out.count(LeftOutReason::OlderCompaction), 1);
    assert_eq!((replay.repaired, replay.left_out.total()), (0, 1));
}

#[test]
fn case_22_an_empty_unfinished_tail_does_not_block_the_session() {
    let mut path = Path::default();
    path.say(&Message::user("go"), None);
    path.say(&Message::new(Role::new(role::ASSISTANT).unwrap(), Vec::new()), None);
    path.say(&Message::assistant(" \n"), None);
    path.say(
        &Message::new(Role::new(role::ASSISTANT).unwrap(), vec![Block::thinking("hm", Some("s".into()))]),
        None,
    );
    path.say(&Message::user("still there?"), None);
    let replay = path.replay(&ReplayPolicy::default());
    assert_eq!(numbers(&replay), [Some(1), Some(5)]);
    assert_eq!(replay.left_out.count(LeftOutReason::Empty), 3);
}

#[test]
fn only_completed_runs_and_the_own_run_are_replayed() {
    let mut path = Path::default();
    for (run, state) in [
        ("done", RunState::Completed),
        ("failed", RunState::Failed),
        ("cancelled", RunState::Cancelled),
        ("interrupted", RunState::Interrupted),
        ("pending", RunState::Pending),
        ("waiting", RunState::WaitingApproval),
        ("mine", RunState::Running),
    ] {
        path.run(run, state);
        path.say(&Message::user("input"), Some(run));
        path.say(&Message::assistant("answer"), Some(run));
    }
    path.say(&Message::user("no run at all"), None);
    let replay = path.replay(&ReplayPolicy::default());
    assert_eq!(numbers(&replay), [Some(1), Some(2), Some(15)]);
    for (reason, count) in [
        (LeftOutReason::FailedRun, 2),
        (LeftOutReason::CancelledRun, 2),
        (LeftOutReason::InterruptedRun, 2),
        (LeftOutReason::UnfinishedRun, 6),
    ] {
        assert_eq!(replay.left_out.count(reason), count, "{reason:?}");
    }
    let mine = path.replay(&ReplayPolicy::within(RunId::new("mine").unwrap()));
    assert_eq!(numbers(&mine), [Some(1), Some(2), Some(13), Some(14), Some(15)]);

    let inputs = ReplayPolicy { failed_input: true, ..ReplayPolicy::default() };
    let inputs = path.replay(&inputs);
    assert_eq!(numbers(&inputs), [Some(1), Some(2), Some(3), Some(5), Some(7), Some(15)]);
}

#[test]
fn internal_entries_partials_and_what_is_no_message_are_left_out() {
    let mut path = Path::default();
    let words = |text: &str| Message::user(text).payload().clone();
    path.push(entry_kind::MESSAGE, words("for machinery"), |entry| entry.visibility = Visibility::Internal);
    path.push(entry_kind::MESSAGE, words("so f"), |entry| entry.visibility = Visibility::Partial);
    path.push(entry_kind::MESSAGE, Payload::new("[1]").unwrap(), |_| ());
    path.push(entry_kind::MODEL_CHANGE, Payload::empty(), |_| ());
    path.push("of_the_future", words("unknown"), |_| ());
    path.push(entry_kind::CUSTOM, words("host data"), |_| ());
    path.push(entry_kind::CUSTOM_MESSAGE, words("note"), |entry| entry.visibility = Visibility::Internal);
    path.push(entry_kind::BRANCH_SUMMARY, Payload::new(r#"{"summary":"elsewhere"}"#).unwrap(), |_| ());
    let replay = path.replay(&ReplayPolicy::default());
    assert_eq!(numbers(&replay), [Some(7), Some(8)]);
    assert_eq!(replay.messages[1].message.text(), "elsewhere");
    for reason in [LeftOutReason::Internal, LeftOutReason::Partial, LeftOutReason::Unreadable] {
        assert_eq!(replay.left_out.count(reason), 1, "{reason:?}");
    }
    assert_eq!(replay.left_out.total(), 3);
    let internal = ReplayPolicy { internal: true, ..ReplayPolicy::default() };
    assert_eq!(numbers(&path.replay(&internal)), [Some(1), Some(7), Some(8)]);
}

#[test]
fn the_latest_compaction_that_holds_comes_first() {
    let mut path = Path::default();
    path.say(&Message::user("old"), None);
    let kept = path.say(&Message::user("kept"), None);
    path.compact("holds", Some(kept));
    path.say(&Message::user("after"), None);
    path.run("failed", RunState::Failed);
    path.compact("made by a run that failed", None);
    path.entries.last_mut().unwrap().run = Some(RunId::new("failed").unwrap());
    path.push(entry_kind::COMPACTION, Payload::empty(), |_| ());
    let replay = path.replay(&ReplayPolicy::default());
    assert_eq!(numbers(&replay), [Some(3), Some(2), Some(4)]);
    assert_eq!(replay.left_out.count(LeftOutReason::FailedRun), 1);
    assert_eq!(replay.left_out.count(LeftOutReason::Unreadable), 1);
}

#[test]
fn a_compaction_without_first_kept_stands_for_everything_before_it() {
    let mut path = Path::default();
    path.say(&Message::user("old"), None);
    path.compact("all of it", None);
    path.say(&Message::user("new"), None);
    assert_eq!(numbers(&path.replay(&ReplayPolicy::default())), [Some(2), Some(3)]);
}

#[test]
fn results_move_to_their_call_and_keep_its_order() {
    let mut path = Path::default();
    path.say(&asks(&["a", "b"]), None);
    path.say(&Message::user("hurry"), None);
    path.say(&Message::tool_result("b", "second", false), None);
    path.say(&Message::tool_result("a", "first", false), None);
    path.say(&Message::tool_result("a", "again", false), None);
    path.say(&Message::tool_result("z", "of nothing", false), None);
    let replay = path.replay(&ReplayPolicy::default());
    assert_eq!(numbers(&replay), [Some(1), Some(4), Some(3), Some(2)]);
    assert_eq!(replay.left_out.count(LeftOutReason::RepeatedResult), 1);
    assert_eq!(replay.left_out.count(LeftOutReason::ResultWithoutCall), 1);
}

#[test]
fn several_results_in_one_message_stay_together_if_they_fit_and_are_parted_if_not() {
    let results =
        |ids: &[&str]| Message::tool_results(ids.iter().map(|id| ToolResult::new(*id, "ok", false)));
    let mut path = Path::default();
    path.say(&asks(&["a", "b"]), None);
    path.say(&results(&["a", "b"]), None);
    path.say(&asks(&["c", "d"]), None);
    path.say(&results(&["d", "c"]), None);
    let replay = path.replay(&ReplayPolicy::default());
    assert_eq!(numbers(&replay), [Some(1), Some(2), Some(3), Some(4), Some(4)]);
    assert_eq!(replay.messages[1].message.payload(), &path.entries[1].payload);
}

#[test]
fn an_id_used_again_later_is_another_call() {
    let mut path = Path::default();
    path.say(&asks(&["call_1"]), None);
    path.say(&Message::tool_result("call_1", "one", false), None);
    path.say(&asks(&["call_1", "call_1"]), None);
    path.say(&Message::tool_result("call_1", "two", false), None);
    let replay = path.replay(&ReplayPolicy::default());
    assert_eq!(numbers(&replay), [Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!(replay.left_out.count(LeftOutReason::RepeatedCall), 1);
}

#[test]
fn calls_of_a_message_that_was_cut_off_are_repaired_or_dropped_by_policy() {
    let mut path = Path::default();
    let errored =
        stopped(Message::assistant_with_calls("I will edit them all:", ["a", "b"].map(call)), "error");
    path.say(&errored, None);
    path.say(&stopped(asks(&["c"]), "aborted"), None);
    path.say(&Message::user("go on"), None);
    let repaired = path.replay(&ReplayPolicy::default());
    assert_eq!(numbers(&repaired), [Some(1), None, None, Some(2), None, Some(3)]);
    let dropping = ReplayPolicy { cut_off: CutOff::DropCalls, ..ReplayPolicy::default() };
    let dropped = path.replay(&dropping);
    assert_eq!(numbers(&dropped), [Some(1), Some(3)]);
    assert_eq!(dropped.messages[0].message.text(), "I will edit them all:");
    assert_eq!(dropped.messages[0].message.stop_reason(), Some("error"), "other fields stay");
    assert_eq!(dropped.left_out.count(LeftOutReason::CutOffCall), 3);
}

#[test]
fn an_empty_path_replays_as_nothing() {
    assert_eq!(Path::default().replay(&ReplayPolicy::default()), Replay::default());
}

#[test]
fn the_checker_refuses_what_providers_refuse() {
    let answer = |id: &str| Message::tool_result(id, "ok", false);
    let good = [Message::user("hi"), asks(&["a", "b"]), answer("a"), answer("b"), Message::assistant("done")];
    provider_valid(&good).unwrap();
    let empty = Message::new(Role::new(role::ASSISTANT).unwrap(), Vec::new());
    let bad: [(&str, Vec<Message>); 8] = [
        ("a result first", vec![answer("a")]),
        ("no result", vec![asks(&["a"])]),
        ("one result of two", vec![asks(&["a", "b"]), answer("a"), Message::user("x")]),
        ("in the wrong order", vec![asks(&["a", "b"]), answer("b"), answer("a")]),
        ("twice", vec![asks(&["a"]), answer("a"), answer("a")]),
        ("not adjacent", vec![asks(&["a"]), Message::user("x"), answer("a")]),
        ("empty", vec![Message::user("x"), empty]),
        (
            "a call by a person",
            vec![
                Message::new(Role::new(role::USER).unwrap(), vec![Block::tool_call(call("a"))]),
                answer("a"),
            ],
        ),
    ];
    for (what, messages) in bad {
        assert_eq!(provider_valid(&messages).unwrap_err().kind(), ErrorKind::Invalid, "{what}");
    }
}
