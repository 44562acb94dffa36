//! Replay of random histories: always provider-valid, never a pair split.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use turnkeep_core::Payload;
use turnkeep_core::id::{EntryNo, Role, RunId};
use turnkeep_core::model::{Entry, RunState, Visibility, entry_kind, role};
use turnkeep_sessions::message::{Block, Message, ToolResult};
use turnkeep_sessions::replay::{CutOff, ReplayPolicy, Unanswered, build, provider_valid};

use crate::replay::{Path, asks, call};

/// One step of a history that anything may have happened to.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Say(&'static str, &'static str),
    Ask { ids: Vec<u8>, words: bool, cut_off: bool },
    Answer(Vec<u8>),
    AnswerByUser(u8),
    AskByUser(u8),
    Think,
    Internal,
    Custom,
    BranchSummary,
    Garbage,
    OtherKind,
    Compact(Option<prop::sample::Index>),
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0_u8..6;
    prop_oneof![
        3 => prop::sample::select(vec![role::USER, role::ASSISTANT, role::SYSTEM, "narrator", role::TOOL])
            .prop_map(|role| Step::Say(role, "words")),
        1 => Just(Step::Say(role::ASSISTANT, "")),
        1 => Just(Step::Say(role::USER, " ")),
        5 => (prop::collection::vec(id.clone(), 1..4), any::<bool>(), any::<bool>())
            .prop_map(|(ids, words, cut_off)| Step::Ask { ids, words, cut_off }),
        6 => prop::collection::vec(id.clone(), 1..4).prop_map(Step::Answer),
        1 => id.clone().prop_map(Step::AnswerByUser),
        1 => id.prop_map(Step::AskByUser),
        1 => prop::sample::select(vec![
            Step::Think, Step::Internal, Step::Custom, Step::BranchSummary, Step::Garbage, Step::OtherKind,
        ]),
        2 => prop::option::of(any::<prop::sample::Index>()).prop_map(Step::Compact),
    ]
}

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<(Step, Option<u8>)>> {
    prop::collection::vec((step(), prop::option::weighted(0.3, 0_u8..6)), 0..most)
}

pub(crate) const STATES: [RunState; 6] = [
    RunState::Completed,
    RunState::Completed,
    RunState::Failed,
    RunState::Interrupted,
    RunState::Cancelled,
    RunState::Running,
];

fn id(number: u8) -> String {
    format!("call_{number}")
}

pub(crate) fn run_id(number: u8) -> RunId {
    RunId::new(format!("run_{number}")).unwrap()
}

pub(crate) fn path_of(steps: &[(Step, Option<u8>)]) -> Path {
    let mut path = Path::default();
    for (number, state) in STATES.into_iter().enumerate() {
        path.run(&format!("run_{number}"), state);
    }
    for (step, run) in steps {
        let role = |name: &str| Role::new(name).unwrap();
        let mut message = None;
        match step {
            Step::Say(who, words) => message = Some(Message::new(role(who), vec![Block::text(*words)])),
            Step::Ask { ids, words, cut_off } => {
                let text = if *words { "let me see" } else { "" };
                let mut asks = Message::assistant_with_calls(text, ids.iter().map(|n| call(&id(*n))));
                if *cut_off {
                    asks = asks.with_field("stop_reason", &Payload::new("\"aborted\"").unwrap()).unwrap();
                }
                message = Some(asks);
            }
            Step::Answer(ids) => {
                let results = ids.iter().map(|n| ToolResult::new(id(*n), "done", false));
                message = Some(Message::tool_results(results));
            }
            Step::AnswerByUser(n) => {
                let blocks =
                    vec![Block::text("here"), Block::tool_result(ToolResult::new(id(*n), "done", false))];
                message = Some(Message::new(role(role::USER), blocks));
            }
            Step::AskByUser(n) => {
                message = Some(Message::new(role(role::USER), asks(&[&id(*n)]).blocks().to_vec()));
            }
            Step::Think => {
                message = Some(Message::new(role(role::ASSISTANT), vec![Block::thinking("hm", None)]));
            }
            Step::Internal => {
                path.push(entry_kind::MESSAGE, Message::user("x").payload().clone(), |entry| {
                    entry.visibility = Visibility::Internal;
                });
            }
            Step::Custom => {
                path.push(entry_kind::CUSTOM_MESSAGE, Payload::new("\"note\"").unwrap(), |_| ());
            }
            Step::BranchSummary => {
                let payload = Payload::new(r#"{"summary":"elsewhere"}"#).unwrap();
                path.push(entry_kind::BRANCH_SUMMARY, payload, |_| ());
            }
            Step::Garbage => {
                path.push(entry_kind::MESSAGE, Payload::new("[]").unwrap(), |_| ());
            }
            Step::OtherKind => {
                path.push("weather", Payload::empty(), |_| ());
            }
            Step::Compact(kept) => {
                let kept =
                    kept.filter(|_| !path.entries.is_empty()).map(|index| index.get(&path.entries).number);
                path.compact("so far", kept);
            }
        }
        if let Some(message) = message {
            path.say(&message, None);
        }
        path.entries.last_mut().unwrap().run = run.map(run_id);
    }
    path
}

pub(crate) fn policy() -> impl Strategy<Value = ReplayPolicy> {
    (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(drops, own, failed_input, internal)| ReplayPolicy {
            unanswered: Unanswered::Repair,
            cut_off: if drops { CutOff::DropCalls } else { CutOff::LikeOthers },
            own_run: own.then(|| run_id(5)),
            failed_input,
            internal,
        },
    )
}

/// Which entry answers which call, told from the whole path with nothing but the definition: a result answers the
/// latest call of its id before it, unless that one is answered already.
fn pairs(
    entries: &[Entry],
    runs: &HashMap<RunId, RunState>,
    policy: &ReplayPolicy,
) -> Vec<(EntryNo, EntryNo)> {
    let counts = |entry: &&Entry| {
        let input = entry.role.as_ref().is_some_and(|role| role.as_str() == role::USER);
        let own = entry.run.is_some() && entry.run == policy.own_run;
        let state = entry.run.as_ref().map_or(RunState::Completed, |run| runs[run]);
        let fits =
            own || state == RunState::Completed || (state.is_terminal() && policy.failed_input && input);
        fits && entry.kind.as_str() == entry_kind::MESSAGE
            && (policy.internal || entry.visibility == Visibility::Conversation)
    };
    let mut latest: BTreeMap<String, Option<EntryNo>> = BTreeMap::new();
    let mut found = Vec::new();
    for entry in entries.iter().filter(counts) {
        let Ok(message) = Message::from_entry(entry) else { continue };
        for block in message.blocks() {
            if let Some(call) = block.as_tool_call().filter(|_| message.is_from(role::ASSISTANT)) {
                latest.insert(call.id.clone(), Some(entry.number));
            }
            if let Some(result) = block.as_tool_result()
                && let Some(call) = latest.get_mut(&result.call_id).and_then(Option::take)
            {
                found.push((call, entry.number));
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn case_20_replay_of_any_history_is_provider_valid_and_splits_no_pair(
        steps in steps(40), policy in policy(),
    ) {
        let path = path_of(&steps);
        let replay = build(&path.entries, &path.runs, &policy).unwrap();
        let messages = replay.to_messages();
        if let Err(error) = provider_valid(&messages) {
            prop_assert!(false, "{error}: {messages:?}");
        }
        let replayed = |number: EntryNo| replay.messages.iter().any(|message| message.entry == Some(number));
        for (call, result) in pairs(&path.entries, &path.runs, &policy) {
            prop_assert_eq!(replayed(call), replayed(result), "{:?} asks, {:?} answers", call, result);
        }
    }

    #[test]
    fn what_people_and_models_said_keeps_its_order_and_its_bytes(steps in steps(40), policy in policy()) {
        let path = path_of(&steps);
        let replay = build(&path.entries, &path.runs, &policy).unwrap();
        let spoken: Vec<EntryNo> = replay
            .messages
            .iter()
            .skip(usize::from(replay.compaction.is_some()))
            .filter(|message| !message.message.is_from(role::TOOL))
            .filter_map(|message| message.entry)
            .collect();
        prop_assert!(spoken.is_sorted_by(|a, b| a < b), "{spoken:?}");
        for message in &replay.messages {
            let Some(number) = message.entry else { continue };
            let stored = &path.entries[number.get() as usize - 1];
            for block in message.message.blocks().iter().filter(|_| stored.kind.as_str() == entry_kind::MESSAGE) {
                prop_assert!(stored.payload.as_str().contains(block.json()));
            }
        }
    }

    #[test]
    fn refusing_differs_from_repairing_only_where_a_call_is_unanswered(steps in steps(30), policy in policy()) {
        let path = path_of(&steps);
        let repaired = build(&path.entries, &path.runs, &policy).unwrap();
        let refusing = ReplayPolicy { unanswered: Unanswered::Refuse, ..policy };
        match build(&path.entries, &path.runs, &refusing) {
            Ok(replay) => prop_assert_eq!(replay, repaired),
            Err(_) => prop_assert!(repaired.repaired > 0),
        }
    }
}
