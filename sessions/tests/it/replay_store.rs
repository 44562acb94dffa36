//! Replay and history over stores: only what is needed is read, and it is what the pure rule says.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use turnkeep_core::commit::{NewEntry, Op, Parent, RefTarget};
use turnkeep_core::id::{EntryKind, EntryNo, Relation, RunId};
use turnkeep_core::model::{Entry, RunState, Visibility, entry_kind};
use turnkeep_core::query::{EntryQuery, Order, PathTo};
use turnkeep_core::{ErrorKind, Payload, Store, Timestamp};
use turnkeep_sessions::message::Message;
use turnkeep_sessions::replay::{
    HistoryItem, HistoryQuery, LeftOutReason, Replay, ReplayPolicy, build, history, provider_valid, replay,
};

use crate::both::{Backend, Scene, Watched, on_each, workspace};
use crate::replay::{asks, numbers};
use crate::replay_property::{STATES, path_of, policy, steps};

const AT: Timestamp = Timestamp::from_millis(1_764_600_000_000);

fn said(message: &Message) -> NewEntry {
    message.to_new_entry(AT).unwrap()
}

fn compaction(summary: &str, first_kept: Option<u32>) -> NewEntry {
    let payload = Payload::from_value(&serde_json::json!({ "summary": summary })).unwrap();
    let mut entry = NewEntry::new(EntryKind::new(entry_kind::COMPACTION).unwrap(), AT, payload);
    entry.visibility = Visibility::Internal;
    entry.refs = first_kept
        .and_then(EntryNo::new)
        .map(|kept| (Relation::new("first_kept").unwrap(), RefTarget::Number(kept)))
        .into_iter()
        .collect();
    entry
}

async fn replayed(store: &dyn Store, scene: &Scene) -> Replay {
    let replay = replay(store, &workspace(), &scene.session, &ReplayPolicy::default()).await.unwrap();
    provider_valid(&replay.to_messages()).unwrap();
    replay
}

/// What a walk over all pages gives.
async fn walk(scene: &Scene, mut query: HistoryQuery) -> Vec<Vec<HistoryItem>> {
    let mut pages = Vec::new();
    loop {
        let page = history(&*scene.store, &workspace(), &scene.session, &query).await.unwrap();
        pages.push(page.items);
        query.cursor = page.next;
        if query.cursor.is_none() {
            return pages;
        }
    }
}

fn numbers_of(items: &[HistoryItem]) -> Vec<u32> {
    items.iter().map(|item| item.entry.number.get()).collect()
}

/// A branch that was left (2, 3, 4) and the one of the leaf (5 to 9), with a partial on each.
async fn branched(backend: &Backend) -> Scene {
    let scene = Scene::create(&backend.open().await, "s").await;
    let partial = |text: &str| {
        let mut entry = said(&Message::assistant(text));
        entry.advance_leaf = false;
        entry.visibility = Visibility::Partial;
        entry
    };
    scene
        .append(vec![said(&Message::user("one")), said(&Message::assistant("left")), partial("left, unfin")])
        .await;
    scene.append(vec![said(&Message::user("left too"))]).await;
    let mut branch = said(&Message::assistant("two"));
    branch.parent = Parent::Number(EntryNo::FIRST);
    scene.append(vec![branch, compaction("so far", Some(5)), partial("three, unfin")]).await;
    let mut internal = said(&Message::user("for machinery"));
    internal.visibility = Visibility::Internal;
    scene.append(vec![internal, said(&Message::user("four"))]).await;
    scene
}

on_each! {
    async fn replay_follows_the_parents_of_the_leaf(backend: Backend) {
        let scene = branched(&backend).await;
        assert_eq!(numbers(&replayed(&*scene.store, &scene).await), [Some(6), Some(5), Some(9)]);
        // Back on the branch that was left.
        let to = EntryNo::new(4);
        scene.commit(vec![Op::MoveLeaf { session: scene.session.clone(), to }]).await;
        assert_eq!(numbers(&replayed(&*scene.store, &scene).await), [Some(1), Some(2), Some(4)]);
        scene.commit(vec![Op::MoveLeaf { session: scene.session.clone(), to: None }]).await;
        assert_eq!(replayed(&*scene.store, &scene).await, Replay::default());
    }

    async fn history_is_the_original_conversation_with_unfinished_texts_in_their_place(backend: Backend) {
        let scene = branched(&backend).await;
        let walked = walk(&scene, HistoryQuery::default()).await.concat();
        assert_eq!(numbers_of(&walked), [1, 5, 7, 9]);
        let partial: Vec<bool> = walked.iter().map(HistoryItem::is_partial).collect();
        assert_eq!(partial, [false, false, true, false]);
        assert!(walked.iter().all(HistoryItem::is_original));
        let internal = HistoryQuery { internal: true, ..HistoryQuery::default() };
        let walked = walk(&scene, internal).await.concat();
        assert_eq!(numbers_of(&walked), [1, 5, 6, 7, 8, 9]);
        let original: Vec<bool> = walked.iter().map(HistoryItem::is_original).collect();
        assert_eq!(original, [true, true, false, true, false, true]);
        let all = HistoryQuery { all_branches: true, ..HistoryQuery::default() };
        assert_eq!(numbers_of(&walk(&scene, all).await.concat()), [1, 2, 3, 4, 5, 7, 9]);
    }

    async fn pages_of_a_history_hold_everything_once_in_every_order(backend: Backend) {
        let scene = branched(&backend).await;
        for limit in 1..5 {
            for (order, expected) in [
                (Order::Ascending, vec![1, 5, 7, 9]),
                (Order::Descending, vec![9, 7, 5, 1]),
            ] {
                let query = HistoryQuery { order, limit, ..HistoryQuery::default() };
                assert_eq!(numbers_of(&walk(&scene, query).await.concat()), expected, "{order:?} {limit}");
            }
            let latest = HistoryQuery { order: Order::Latest, limit, ..HistoryQuery::default() };
            let mut pages = walk(&scene, latest).await;
            pages.reverse();
            assert_eq!(numbers_of(&pages.concat()), [1, 5, 7, 9], "latest {limit}");
        }
        let bounded = HistoryQuery { after: EntryNo::new(1), before: EntryNo::new(9), ..HistoryQuery::default() };
        assert_eq!(numbers_of(&walk(&scene, bounded).await.concat()), [5, 7]);
    }

    async fn a_walk_keeps_to_the_branch_it_began_with(backend: Backend) {
        let scene = branched(&backend).await;
        let query = HistoryQuery { limit: 1, ..HistoryQuery::default() };
        let first = history(&*scene.store, &workspace(), &scene.session, &query).await.unwrap();
        assert_eq!(numbers_of(&first.items), [1]);
        let to = EntryNo::new(4);
        scene.commit(vec![Op::MoveLeaf { session: scene.session.clone(), to }]).await;
        let next = HistoryQuery { cursor: first.next, ..query.clone() };
        let second = history(&*scene.store, &workspace(), &scene.session, &next).await.unwrap();
        assert_eq!(numbers_of(&second.items), [5], "not 2, which is on the branch of the leaf by now");
        let other = HistoryQuery { internal: true, ..next };
        let error = history(&*scene.store, &workspace(), &scene.session, &other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "a cursor belongs to its query");
    }

    async fn a_deleted_session_is_not_found(backend: Backend) {
        let scene = branched(&backend).await;
        scene.commit(vec![Op::DeleteSession { session: scene.session.clone(), force: false }]).await;
        Scene::create(&scene.store, "s").await;
        let policy = ReplayPolicy::default();
        let error = replay(&*scene.store, &workspace(), &scene.session, &policy).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = history(&*scene.store, &workspace(), &scene.session, &HistoryQuery::default()).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
    }

    async fn what_is_read_follows_what_is_replayed(backend: Backend) {
        let mut read = Vec::new();
        for length in [1_000, 4_000] {
            let scene = Scene::create(&backend.open().await, &format!("s{length}")).await;
            for _ in 0..length / 500 {
                scene.append((0..500).map(|_| said(&Message::user("old"))).collect()).await;
            }
            scene.append(vec![compaction("all of it", Some(length - 9))]).await;
            scene.append((0..20).map(|_| said(&Message::user("new"))).collect()).await;
            let watched = Watched::new(Arc::clone(&scene.store));
            let replay = replayed(&watched, &scene).await;
            assert_eq!(replay.messages.len(), 1 + 10 + 20);
            read.push(watched.entries_read.load(Ordering::SeqCst));
        }
        assert_eq!(read, [64, 64]);
    }

    async fn a_result_without_any_call_does_not_make_replay_read_the_whole_history(backend: Backend) {
        let scene = Scene::create(&backend.open().await, "s").await;
        for _ in 0..8 {
            scene.append((0..500).map(|_| said(&Message::user("old"))).collect()).await;
        }
        scene.append(vec![
            said(&Message::tool_result("nobody-asked", "done", false)),
            compaction("all of it", Some(4_001)),
            said(&Message::user("new")),
        ]).await;
        let watched = Watched::new(Arc::clone(&scene.store));
        let replay = replayed(&watched, &scene).await;
        assert_eq!(numbers(&replay), [Some(4_002), Some(4_003)]);
        assert_eq!(replay.left_out.count(LeftOutReason::ResultWithoutCall), 1);
        assert!(watched.entries_read.load(Ordering::SeqCst) < 2_500);
    }

    async fn case_20_a_call_before_the_kept_part_is_found_in_the_store(backend: Backend) {
        let scene = Scene::create(&backend.open().await, "s").await;
        scene.append(vec![said(&Message::user("go")), said(&asks(&["a"]))]).await;
        // The answer comes late, long after the call.
        scene.append((0..300).map(|_| said(&Message::user("meanwhile"))).collect()).await;
        scene.append(vec![
            said(&Message::tool_result("a", "done", false)),
            compaction("so far", Some(303)),
            said(&Message::user("new")),
        ]).await;
        let replay = replayed(&*scene.store, &scene).await;
        assert_eq!(replay.messages[1].entry, EntryNo::new(2));
        assert_eq!(replay.messages[2].entry, EntryNo::new(303));
        assert_eq!((replay.messages.len(), replay.repaired), (1 + 2 + 300 + 1, 0));
    }

    async fn case_19_the_own_run_goes_on_with_an_answer_for_the_call_it_left_open(backend: Backend) {
        let scene = Scene::create(&backend.open().await, "s").await;
        scene.start_run("r").await;
        let mut asks = said(&asks(&["a"]));
        asks.run = Some(RunId::new("r").unwrap());
        let mut input = said(&Message::user("go"));
        input.run = asks.run.clone();
        scene.append(vec![input, asks]).await;
        scene.end_run("r", RunState::Interrupted).await;
        assert!(replayed(&*scene.store, &scene).await.messages.is_empty());
        let within = ReplayPolicy::within(RunId::new("r").unwrap());
        let replay = replay(&*scene.store, &workspace(), &scene.session, &within).await.unwrap();
        assert_eq!(numbers(&replay), [Some(1), Some(2), None]);
    }

    async fn verdicts_of_many_runs_are_found(backend: Backend) {
        let scene = Scene::create(&backend.open().await, "s").await;
        for n in 0..150 {
            let run = format!("r{n}");
            scene.start_run(&run).await;
            let mut input = said(&Message::user("go"));
            input.run = Some(RunId::new(&run).unwrap());
            scene.append(vec![input]).await;
            scene.end_run(&run, if n % 3 == 0 { RunState::Failed } else { RunState::Completed }).await;
        }
        // An entry may name a run that was never started; nothing is held against it.
        let mut stray = said(&Message::user("stray"));
        stray.run = Some(RunId::new("unknown").unwrap());
        scene.append(vec![stray]).await;
        let replay = replayed(&*scene.store, &scene).await;
        assert_eq!(replay.messages.len(), 101);
        assert_eq!(replay.left_out.count(LeftOutReason::FailedRun), 50);
    }
}

/// Writes a path into a session, with a branch that leads away after every few entries.
async fn write(scene: &Scene, entries: &[Entry], distract: usize) {
    for (number, state) in STATES.into_iter().enumerate() {
        let run = format!("run_{number}");
        scene.start_run(&run).await;
        if state.is_terminal() {
            scene.end_run(&run, state).await;
        }
    }
    let mut place: HashMap<EntryNo, EntryNo> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        let mut new = NewEntry::new(entry.kind.clone(), entry.at, entry.payload.clone());
        new.role = entry.role.clone();
        new.run = entry.run.clone();
        new.visibility = entry.visibility;
        new.parent = entry.parent.map_or(Parent::Root, |parent| Parent::Number(place[&parent]));
        new.refs = entry
            .refs
            .iter()
            .map(|reference| (reference.relation.clone(), RefTarget::Number(place[&reference.entry])))
            .collect();
        let receipt = scene.append(vec![new]).await;
        place.insert(entry.number, receipt.entries(0).next().unwrap());
        if at % distract == distract - 1 && at + 1 < entries.len() {
            scene.append(vec![said(&asks(&["call_0"])), compaction("elsewhere", None)]).await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replay_of_a_store_is_the_rule_over_the_whole_path(
        steps in steps(120), policy in policy(), distract in 2_usize..9,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let path = path_of(&steps);
            let scene = Scene::create(&Backend::memory().open().await, "s").await;
            write(&scene, &path.entries, distract).await;
            let mut query = EntryQuery::new(workspace(), scene.session.clone());
            query.path = Some(PathTo::Leaf);
            query.limit = 1_000;
            let stored = scene.store.entries(&query).await.unwrap().items;
            prop_assert_eq!(stored.len(), path.entries.len());
            let expected = build(&stored, &path.runs, &policy).unwrap();
            let found = replay(&*scene.store, &workspace(), &scene.session, &policy).await.unwrap();
            prop_assert_eq!(found, expected);
            Ok(())
        })?;
    }
}
