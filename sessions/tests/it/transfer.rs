//! Export and import of our own files: what comes back is what went out.

use std::io::Cursor;
use std::sync::Arc;

use turnkeep_core::commit::{Expect, NewEntry, NewEvent, Op, Parent, Put, RefTarget};
use turnkeep_core::id::{
    Collection, EntryKey, EntryKind, EventKind, RecordKey, Relation, RunId, SessionId, Status, StreamName,
    TurnId,
};
use turnkeep_core::model::{
    Channel, Profile, Record, Run, RunState, Title, TitleSource, Usage, Version, Visibility, collection,
    entry_kind, stream,
};
use turnkeep_core::query::{EventQuery, Order, OwnerFilter, RecordQuery, RunQuery};
use turnkeep_core::{EntryNo, ErrorKind, Payload, SessionRef, Store, Timestamp};
use turnkeep_sessions::message::{Message, ToolCall};
use turnkeep_sessions::replay::{HistoryQuery, ReplayPolicy, history, replay};
use turnkeep_sessions::transfer::{Format, ImportOptions, Wholeness, export, import, quietly};

use crate::both::{Scene, Watched, all_sessions, on_each, row, workspace};
use crate::transfer_pi::{entries, take_in};

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_764_600_000_000 + ms)
}

fn said(message: &Message, ms: i64) -> NewEntry {
    message.to_new_entry(at(ms)).unwrap()
}

fn payload(json: &str) -> Payload {
    Payload::new(json).unwrap()
}

/// A session with something of everything: branches, runs of every end, events, dropped events, records.
pub(crate) async fn rich_session(store: &Arc<dyn Store>) -> SessionRef {
    let scene = Scene::create(store, "rich").await;
    let session = scene.session.clone();
    let mut first = said(&Message::user("hello"), 1);
    first.key = Some(EntryKey::new("input/1").unwrap());
    first.turn = Some(TurnId::new("t1").unwrap());
    scene.append(vec![first]).await;
    scene.start_run("one").await;
    let mut reply = said(
        &Message::assistant_with_calls("see", [ToolCall::new("c1", "look", payload(r#"{"z":1, "a":1.0}"#))]),
        2,
    );
    reply.run = Some(RunId::new("one").unwrap());
    let mut label =
        NewEntry::new(EntryKind::new(entry_kind::LABEL).unwrap(), at(4), payload(r#"{"label":"here"}"#));
    label.advance_leaf = false;
    label.visibility = Visibility::Internal;
    label.refs = vec![(Relation::new("label_target").unwrap(), RefTarget::Number(EntryNo::FIRST))];
    scene.append(vec![reply, said(&Message::tool_result("c1", "a nul: \0", false), 3), label]).await;
    scene.end_run("one", RunState::Completed).await;
    // Another branch, from the first entry.
    let mut branch = said(&Message::user("or else"), 5);
    branch.parent = Parent::Number(EntryNo::FIRST);
    scene.append(vec![branch, said(&Message::assistant("fine \u{1f35e}"), 6)]).await;
    scene.start_run("two").await;
    let mut input = said(&Message::user("and this fails"), 7);
    input.run = Some(RunId::new("two").unwrap());
    let mut partial = said(&Message::assistant("I was abou"), 8);
    partial.advance_leaf = false;
    partial.visibility = Visibility::Partial;
    partial.run = Some(RunId::new("two").unwrap());
    scene.append(vec![input, partial]).await;
    scene
        .commit(vec![Op::AddUsage {
            session: session.clone(),
            run: Some(RunId::new("two").unwrap()),
            usage: Usage { requests: 1, input_tokens: 7, ..Usage::default() },
        }])
        .await;
    scene.end_run("two", RunState::Failed).await;
    let event = |n: u32| NewEvent {
        kind: EventKind::new("happened").unwrap(),
        run: None,
        at: at(i64::from(n)),
        payload: payload(&format!(r#"{{"n":{n}}}"#)),
    };
    for (name, count) in [(stream::USAGE, 3), ("weather", 2), ("partial/t1", 2)] {
        scene
            .commit(vec![Op::AppendEvents {
                session: session.clone(),
                stream: StreamName::new(name).unwrap(),
                expect_next: None,
                events: (0..count).map(event).collect(),
            }])
            .await;
    }
    scene
        .commit(vec![
            Op::DropEvents {
                session: session.clone(),
                stream: StreamName::new("weather").unwrap(),
                through: Some(1),
                close: false,
            },
            Op::DropEvents {
                session: session.clone(),
                stream: StreamName::new("partial/t1").unwrap(),
                through: None,
                close: true,
            },
        ])
        .await;
    for (collection, key) in [(collection::GUIDANCE, "g1"), (collection::GUIDANCE, "g2"), ("host-notes", "n")]
    {
        scene
            .commit(vec![Op::PutRecord(Put {
                collection: Collection::new(collection).unwrap(),
                key: RecordKey::new(key).unwrap(),
                owner: Some(session.clone()),
                status: Some(Status::new("open").unwrap()),
                expect: Expect::Absent,
                payload: payload(r#"{"zebra":1,"alpha":2}"#),
            })])
            .await;
    }
    scene
        .commit(vec![Op::PatchSession {
            session: session.clone(),
            patch: turnkeep_core::commit::SessionPatch {
                title: Some(Some(Title { text: "a rich one".into(), source: TitleSource::Manual })),
                cwd: Some(Some("/home/ada".into())),
                channel: Some(Some(Channel { kind: "chat".into(), id: "42".into() })),
                pinned: Some(true),
                meta: Some(Some(payload("{ \"kept\" : 1.0 }"))),
                ..turnkeep_core::commit::SessionPatch::default()
            },
        }])
        .await;
    session
}

pub(crate) async fn exported(store: &dyn Store, session: &SessionRef) -> Vec<u8> {
    let mut out = Vec::new();
    export(store, &workspace(), session, &mut out, &mut quietly()).await.unwrap();
    out
}

/// Everything that a session answers to queries, without what belongs to one store.
#[derive(Debug, PartialEq)]
struct Answers {
    profile: Profile,
    counts: (Option<EntryNo>, u32, u32, Option<String>, Usage),
    path: turnkeep_core::model::PathState,
    times: (Timestamp, Timestamp, u64),
    entries: Vec<turnkeep_core::model::Entry>,
    on_path: Vec<EntryNo>,
    history: Vec<EntryNo>,
    replay: turnkeep_sessions::replay::Replay,
    runs: Vec<Run>,
    events: Vec<(String, Vec<turnkeep_core::model::Event>)>,
    records: Vec<Record>,
}

async fn answers(store: &dyn Store, session: &SessionRef) -> Answers {
    let row = row(store, session.id.as_str()).await.unwrap();
    let nobody =
        SessionRef { id: session.id.clone(), incarnation: turnkeep_core::Incarnation::from_bytes([0; 16]) };
    let mut path = turnkeep_core::query::EntryQuery::new(workspace(), session.clone());
    path.path = Some(turnkeep_core::query::PathTo::Leaf);
    let mut runs = RunQuery::new(workspace());
    runs.session = Some(session.clone());
    let mut runs = store.runs(&runs).await.unwrap().items;
    runs.iter_mut().for_each(|run| run.session = nobody.clone());
    let mut events = Vec::new();
    for name in [stream::USAGE, "weather", "partial/t1"] {
        let query = EventQuery::new(workspace(), session.clone(), StreamName::new(name).unwrap());
        events.push((name.to_owned(), store.events(&query).await.unwrap().items));
    }
    let mut records = Vec::new();
    for name in [collection::GUIDANCE, "host-notes"] {
        let mut query = RecordQuery::new(workspace(), Collection::new(name).unwrap());
        query.owner = OwnerFilter::Session(session.clone());
        records.extend(store.records(&query).await.unwrap().items);
    }
    for record in &mut records {
        record.owner = Some(nobody.clone());
        record.version = Version { birth: 0, count: 0 };
    }
    let everything = HistoryQuery { all_branches: true, internal: true, ..HistoryQuery::default() };
    Answers {
        profile: row.profile.clone(),
        counts: (row.head, row.messages, row.runs, row.preview.clone(), row.usage),
        path: row.path,
        times: (row.created_at, row.updated_at, row.activity),
        entries: entries(store, session).await,
        on_path: store.entries(&path).await.unwrap().items.iter().map(|entry| entry.number).collect(),
        history: history(store, &workspace(), session, &everything)
            .await
            .unwrap()
            .items
            .iter()
            .map(|item| item.entry.number)
            .collect(),
        replay: replay(store, &workspace(), session, &ReplayPolicy::default()).await.unwrap(),
        runs,
        events,
        records,
    }
}

on_each! {
    async fn an_imported_export_reads_the_same_in_every_query(backend: Backend) {
        let store = backend.open().await;
        let session = rich_session(&store).await;
        let file = exported(&*store, &session).await;
        let other = backend.another();
        let other = other.open().await;
        let report = take_in(&*other, &file).await;
        assert_eq!((report.format, report.wholeness), (Format::Turnkeep, Wholeness::Proven));
        assert_eq!((report.headers, report.dropped.len(), report.stand_ins), (1, 0, 0));
        assert_eq!((report.entries, report.added, report.already_there), (8, 8, 0));
        assert_eq!(report.session.id, session.id);
        let (before, after) = (answers(&*store, &session).await, answers(&*other, &report.session).await);
        assert_eq!(before, after);
        assert!(!before.events[0].1.is_empty() && !before.records.is_empty() && before.runs.len() == 2);
        assert!(exported(&*other, &report.session).await == file, "exported again it has the same bytes");
        assert_eq!(take_in(&*other, &file).await.already_there, 8);

        // What comes after goes on where the source would.
        for (store, session) in [(&store, &session), (&other, &report.session)] {
            let scene = Scene { store: Arc::clone(store), session: session.clone() };
            let receipt = scene.append(vec![said(&Message::user("go on"), 9)]).await;
            assert_eq!(receipt.entries(0).map(EntryNo::get).collect::<Vec<_>>(), [9]);
            let events = Op::AppendEvents {
                session: session.clone(),
                stream: StreamName::new("weather").unwrap(),
                expect_next: Some(3),
                events: vec![NewEvent {
                    kind: EventKind::new("happened").unwrap(), run: None, at: at(1), payload: payload("3"),
                }],
            };
            scene.commit(vec![events]).await;
            scene.start_run("three").await;
        }
    }

    async fn an_export_of_a_session_that_is_there_adds_nothing(backend: Backend) {
        let store = backend.open().await;
        let session = rich_session(&store).await;
        let before = answers(&*store, &session).await;
        let file = exported(&*store, &session).await;
        let report = take_in(&*store, &file).await;
        assert_eq!((report.added, report.already_there, &report.session), (0, 8, &session));
        assert_eq!(answers(&*store, &session).await, before);
    }

    async fn other_content_under_a_used_id_is_refused_and_may_have_another_id(backend: Backend) {
        let store = backend.open().await;
        let session = rich_session(&store).await;
        let file = exported(&*store, &session).await;
        let scene = Scene { store: Arc::clone(&store), session: session.clone() };
        scene.append(vec![said(&Message::user("more"), 9)]).await;
        let mut reader = Cursor::new(&file);
        let options = ImportOptions::default();
        let error = import(&*store, &workspace(), &mut reader, &options, &mut quietly()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(entries(&*store, &session).await.len(), 9);
        assert_eq!(all_sessions(&*store).await.len(), 1);

        let options = options.with_id(SessionId::new("copy").unwrap());
        let report = import(&*store, &workspace(), &mut reader, &options, &mut quietly()).await.unwrap();
        assert_eq!((report.session.id.as_str(), report.added), ("copy", 8));
        // Records are named in the workspace, so those of the first session stay with it.
        assert_eq!(report.dropped.len(), 3);
        let again = import(&*store, &workspace(), &mut reader, &options, &mut quietly()).await.unwrap();
        assert_eq!((again.added, again.already_there, again.session), (0, 8, report.session.clone()));
        let mut runs = RunQuery::new(workspace());
        runs.session = Some(report.session);
        assert_eq!(store.runs(&runs).await.unwrap().items.len(), 2);
    }

    async fn a_deleted_import_can_be_imported_again(backend: Backend) {
        let store = backend.open().await;
        let file = exported(&*store, &rich_session(&store).await).await;
        let other = backend.another();
        let other = other.open().await;
        let first = take_in(&*other, &file).await;
        let scene = Scene { store: Arc::clone(&other), session: first.session.clone() };
        scene.commit(vec![Op::DeleteSession { session: first.session.clone(), force: false }]).await;
        let second = take_in(&*other, &file).await;
        assert_eq!((second.added, second.dropped.len()), (8, 0));
        assert_ne!(second.session.incarnation, first.session.incarnation);
    }

    async fn an_active_run_arrives_interrupted(backend: Backend) {
        let store = backend.open().await;
        let scene = Scene::create(&store, "busy").await;
        scene.append(vec![said(&Message::user("go"), 1)]).await;
        scene.start_run("r").await;
        let file = exported(&*store, &scene.session).await;
        let other = backend.another();
        let other = other.open().await;
        let report = take_in(&*other, &file).await;
        let mut query = RunQuery::new(workspace());
        query.session = Some(report.session.clone());
        let run = other.runs(&query).await.unwrap().items.remove(0);
        assert_eq!((run.state, run.finished_at), (RunState::Interrupted, Some(run.updated_at)));
        assert_eq!(row(&*other, "busy").await.unwrap().active_run, None);
        // The session with the run still active is the same content.
        assert_eq!(take_in(&*store, &file).await.added, 0);
    }

    async fn an_export_of_a_moving_session_is_one_moment_of_it(backend: Backend) {
        let store = backend.open().await;
        let scene = Scene::create(&store, "moving").await;
        let entries_before = 2_500;
        for _ in 0..5 {
            scene.append((0..entries_before / 5).map(|n| said(&Message::user("x"), n)).collect()).await;
        }
        let session = scene.session.clone();
        let meddler = Scene { store: Arc::clone(&store), session: session.clone() };
        let watched = Watched::moving(meddler, said(&Message::user("meanwhile"), 1), 4);
        let mut file = Vec::new();
        let report = export(&watched, &workspace(), &session, &mut file, &mut quietly()).await.unwrap();
        assert!(report.entries >= entries_before as u64 && report.entries <= entries_before as u64 + 4);
        let other = backend.another();
        let other = other.open().await;
        let imported = take_in(&*other, &file).await;
        assert_eq!((imported.wholeness, imported.entries), (Wholeness::Proven, report.entries));
        assert_eq!(row(&*other, "moving").await.unwrap().head.map(EntryNo::get), Some(report.entries as u32));

        let meddler = Scene { store: Arc::clone(&store), session: session.clone() };
        let watched = Watched::moving(meddler, said(&Message::user("again"), 1), usize::MAX);
        let mut file = Vec::new();
        let error = export(&watched, &workspace(), &session, &mut file, &mut quietly()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StaleLeaf);
    }

    async fn an_empty_session_comes_back_empty(backend: Backend) {
        let store = backend.open().await;
        let scene = Scene::create(&store, "empty").await;
        let file = exported(&*store, &scene.session).await;
        let other = backend.another();
        let other = other.open().await;
        let report = take_in(&*other, &file).await;
        assert_eq!((report.entries, report.added, report.wholeness), (0, 0, Wholeness::Proven));
        assert_eq!(row(&*other, "empty").await.unwrap().head, None);
    }

    async fn a_dead_life_of_a_session_is_not_exported(backend: Backend) {
        let store = backend.open().await;
        let scene = Scene::create(&store, "s").await;
        scene.commit(vec![Op::DeleteSession { session: scene.session.clone(), force: false }]).await;
        Scene::create(&store, "s").await;
        let mut file = Vec::new();
        let error = export(&*store, &workspace(), &scene.session, &mut file, &mut quietly()).await.unwrap_err();
        assert_eq!((error.kind(), file.len()), (ErrorKind::NotFound, 0));
    }

    async fn a_large_session_is_imported_in_slices(backend: Backend) {
        let store = backend.open().await;
        let scene = Scene::create(&store, "large").await;
        for _ in 0..2 {
            scene.append((0..650).map(|n| said(&Message::user("small"), n)).collect()).await;
        }
        for n in 0..2 {
            scene.append(vec![said(&Message::user("x".repeat(3 * 1024 * 1024)), n)]).await;
        }
        let file = exported(&*store, &scene.session).await;
        let other = backend.another();
        let watched = Watched::at_commit(other.open().await, |_, commit| {
            for op in &commit.ops {
                if let Op::Restore { rows, .. } = op {
                    assert!(rows.len() <= 1_000);
                    let bytes: usize = rows.iter().map(|row| serde_json::to_vec(row).unwrap().len()).sum();
                    assert!(bytes <= 9 * 1024 * 1024 || rows.len() == 1, "{bytes}");
                }
            }
            Ok(())
        });
        let report = take_in(&watched, &file).await;
        assert_eq!(report.added, 1_302);
        assert!(exported(&watched, &report.session).await == file);
        let newest = {
            let mut query = turnkeep_core::query::EntryQuery::new(workspace(), report.session.clone());
            query.order = Order::Descending;
            query.limit = 1;
            watched.entries(&query).await.unwrap().items.remove(0)
        };
        assert_eq!(newest.number.get(), 1_302);
    }
}

/// The format of version 1 as it is on disk. An importer of any later version reads it; this one writes it again.
const GOLDEN: &str = include_str!("fixtures/export-1.jsonl");

on_each! {
    async fn an_export_of_version_1_is_read_and_written_again_byte_for_byte(backend: Backend) {
        let store = backend.open().await;
        let report = take_in(&*store, GOLDEN).await;
        assert_eq!((report.wholeness, report.entries, report.other_rows), (Wholeness::Proven, 8, 12));
        assert_eq!(String::from_utf8(exported(&*store, &report.session).await).unwrap(), GOLDEN);
    }
}
