//! Copies of whole stores: equal at the end, resumable anywhere, and never over anything else.

use std::ops::ControlFlow;
use std::sync::Arc;

use turnkeep_core::commit::{Commit, Expect, NewSession, Op, Put, SessionPatch};
use turnkeep_core::id::{Collection, RecordKey, Status};
use turnkeep_core::model::{Audience, Profile, SessionState};
use turnkeep_core::query::RowQuery;
use turnkeep_core::{ErrorKind, Incarnation, Payload, SessionId, Store, WorkspaceId};
use turnkeep_sessions::Message;
use turnkeep_sessions::transfer::{CopyOptions, CopyOutcome, CopyReport, Progress, copy, quietly};

use crate::both::{Scene, Watched, all_sessions, row, workspace};
use crate::site::{Site, on_each};
use crate::transfer::{exported, rich_session};

on_each!(
    a_chain_of_copies_over_every_backend_ends_with_the_same,
    a_second_copy_adds_nothing,
    a_copy_that_dies_at_any_commit_is_finished_by_the_next,
    a_cancelled_copy_stays_and_is_gone_on_with,
    an_earlier_copy_that_nobody_touched_gives_way,
    a_copy_that_went_on_is_never_overwritten,
    what_the_source_has_not_is_never_touched,
    a_target_that_loses_a_row_on_its_way_is_caught_by_name,
    a_source_that_moves_is_copied_as_it_was_at_one_moment,
    only_the_chosen_workspaces_are_copied,
);

async fn copied(from: &dyn Store, to: &dyn Store) -> CopyReport {
    copy(from, to, &CopyOptions::default(), &mut quietly()).await.unwrap()
}

async fn refused(from: &dyn Store, to: &dyn Store) -> turnkeep_core::Error {
    copy(from, to, &CopyOptions::default(), &mut quietly()).await.unwrap_err()
}

fn outcomes(report: &CopyReport) -> Vec<(String, CopyOutcome)> {
    let all = report.workspaces.iter().flat_map(|workspace| &workspace.sessions);
    all.map(|one| (one.session.to_string(), one.outcome)).collect()
}

fn note(key: &str, text: &str) -> Op {
    Op::PutRecord(Put {
        collection: Collection::new("projects").unwrap(),
        key: RecordKey::new(key).unwrap(),
        owner: None,
        status: Some(Status::new("open").unwrap()),
        expect: Expect::Any,
        payload: Payload::new(format!(r#"{{"z":1, "a":"{text}"}}"#)).unwrap(),
    })
}

async fn put(store: &Arc<dyn Store>, op: Op) {
    store.commit(Commit::new(workspace()).op(op)).await.unwrap();
}

/// Appends words to a session.
async fn say(scene: &Scene, words: &[&str]) {
    let at = turnkeep_core::Timestamp::from_millis(1_764_600_000_000);
    scene.append(words.iter().map(|words| Message::user(*words).to_new_entry(at).unwrap()).collect()).await;
}

/// A store with sessions of every kind and records that nobody owns.
async fn full(store: &Arc<dyn Store>) {
    rich_session(store).await;
    let talk = Scene::create(store, "talk").await;
    say(&talk, &["hello", "again"]).await;
    Scene::create(store, "empty").await;
    let helper = NewSession {
        id: SessionId::new("helper").unwrap(),
        incarnation: Incarnation::from_bytes([7; 16]),
        state: SessionState::Active,
        profile: Profile { audience: Audience::SubAgent, ..Profile::default() },
    };
    put(store, Op::CreateSession(helper)).await;
    for key in ["one", "two"] {
        put(store, note(key, "as it was")).await;
    }
}

/// Everything of a store as bytes: each session as a file, and the records that nobody owns.
async fn everything(store: &dyn Store) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for id in ["empty", "helper", "rich", "talk"] {
        match row(store, id).await {
            Some(row) => found.push(exported(store, &row.session_ref()).await),
            None => found.push(Vec::new()),
        }
    }
    let records = store.rows(&RowQuery::unowned(workspace())).await.unwrap().items;
    for row in records {
        let turnkeep_core::model::Row::Record(mut record) = row else { panic!("no record") };
        record.version = turnkeep_core::model::Version { birth: 0, count: 0 };
        found.push(serde_json::to_vec(&record).unwrap());
    }
    found
}

async fn a_chain_of_copies_over_every_backend_ends_with_the_same(site: Site) {
    let store = site.store().await;
    full(&store).await;
    let first = everything(&*store).await;
    assert_eq!(first.len(), 6);
    let sites = [Site::sqlite(), Site::redb(), Site::memory(), Site::sqlite()];
    let mut from = store;
    for next in &sites {
        let to = next.store().await;
        let report = copied(&*from, &*to).await;
        assert_eq!(everything(&*to).await, first);
        assert!(!report.moved_on());
        let workspace = &report.workspaces[0];
        let digests: Vec<_> = workspace.sessions.iter().map(|one| &one.source.digest).collect();
        assert_eq!(digests.len(), 4);
        assert!(
            workspace.sessions.iter().all(|one| one.source == one.target && one.source.digest.len() == 64)
        );
        let rich = &workspace.sessions[2];
        assert_eq!((rich.session.as_str(), rich.source.entries, rich.source.runs), ("rich", 8, 2));
        assert_eq!((rich.source.streams, rich.source.events, rich.source.records), (3, 4, 3));
        assert_eq!(workspace.records.source.records, 2);
        let damage = to.maintenance().unwrap().verify().await.unwrap().damage;
        assert_eq!(damage, []);
        from = to;
    }
}

async fn a_second_copy_adds_nothing(site: Site) {
    let (from, other) = (Site::memory(), site);
    let (from, to) = (from.store().await, other.store().await);
    full(&from).await;
    copied(&*from, &*to).await;
    let watched = Watched::new(to);
    let report = copied(&*from, &watched).await;
    assert!(outcomes(&report).iter().all(|(_, outcome)| *outcome == CopyOutcome::AlreadyThere));
    assert_eq!(watched.commits.load(std::sync::atomic::Ordering::SeqCst), 0, "nothing is written");
}

async fn a_copy_that_dies_at_any_commit_is_finished_by_the_next(site: Site) {
    let source = Site::memory();
    let from = source.store().await;
    full(&from).await;
    let talk = Scene { store: Arc::clone(&from), session: row(&*from, "talk").await.unwrap().session_ref() };
    // Long enough for three slices.
    for _ in 0..5 {
        let words: Vec<String> = (0..450).map(|n| format!("word {n}")).collect();
        say(&talk, &words.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    let first = everything(&*from).await;
    let mut died = 0;
    for n in 0..40 {
        let place = site.another();
        let to = place.store().await;
        let dying = Watched::dying_at(Arc::clone(&to), n);
        let done = copy(&*from, &dying, &CopyOptions::default(), &mut quietly()).await;
        drop(dying);
        let Err(error) = done else { break };
        assert_eq!(error.kind(), ErrorKind::Io);
        died += 1;
        // The process is gone: its handle is closed, and another opens the store.
        to.close().await.unwrap();
        drop(to);
        let to = place.store().await;
        for seen in all_sessions(&*to).await {
            let half = seen.state == SessionState::Restoring;
            assert!(half || row(&*from, seen.id.as_str()).await.unwrap().head == seen.head, "died at {n}");
        }
        copied(&*from, &*to).await;
        assert_eq!(everything(&*to).await, first, "died at commit {n}");
        assert_eq!(all_sessions(&*to).await.len(), 3, "and the helper, which is not listed");
    }
    assert!(died >= 12, "begin, slices and seal of each session, and the records: {died}");
}

async fn a_cancelled_copy_stays_and_is_gone_on_with(site: Site) {
    let from = Site::memory();
    let (from, to) = (from.store().await, site.store().await);
    full(&from).await;
    let mut calls = 0;
    let mut stop = |progress: Progress| {
        calls += 1;
        assert!(progress.done <= progress.total);
        if progress.done > 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error = copy(&*from, &*to, &CopyOptions::default(), &mut stop).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.message().contains("begin it again"), "{error}");
    let there = all_sessions(&*to).await;
    assert!(!there.is_empty(), "what was done stays");
    let report = copied(&*from, &*to).await;
    assert!(outcomes(&report).iter().any(|(_, outcome)| *outcome == CopyOutcome::AlreadyThere));
    assert_eq!(everything(&*to).await, everything(&*from).await);
}

async fn an_earlier_copy_that_nobody_touched_gives_way(site: Site) {
    let from = Site::memory();
    let (from, to) = (from.store().await, site.store().await);
    full(&from).await;
    copied(&*from, &*to).await;
    let session = row(&*from, "talk").await.unwrap().session_ref();
    let talk = Scene { store: Arc::clone(&from), session };
    say(&talk, &["and it went on"]).await;
    put(&from, note("two", "changed")).await;
    put(&from, note("three", "new")).await;
    let report = copied(&*from, &*to).await;
    let replaced: Vec<_> =
        outcomes(&report).into_iter().filter(|(_, outcome)| *outcome != CopyOutcome::AlreadyThere).collect();
    assert_eq!(replaced, [("talk".to_owned(), CopyOutcome::Replaced)]);
    let records = &report.workspaces[0].records;
    assert_eq!((records.added, records.replaced), (1, 1));
    assert_eq!(everything(&*to).await, everything(&*from).await);
}

async fn a_copy_that_went_on_is_never_overwritten(site: Site) {
    let from = Site::memory();
    let (from, to) = (from.store().await, site.store().await);
    full(&from).await;
    copied(&*from, &*to).await;
    let theirs = Scene { store: Arc::clone(&to), session: row(&*to, "talk").await.unwrap().session_ref() };
    say(&theirs, &["said in the copy"]).await;
    let ours = Scene { store: Arc::clone(&from), session: row(&*from, "talk").await.unwrap().session_ref() };
    for _ in 0..2 {
        let before = everything(&*to).await;
        let error = refused(&*from, &*to).await;
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("talk"), "{error}");
        assert_eq!(everything(&*to).await, before);
        // Also when the source went on, too.
        say(&ours, &["said in the source"]).await;
    }
}

async fn what_the_source_has_not_is_never_touched(site: Site) {
    let from = Site::memory();
    let (from, to) = (from.store().await, site.store().await);
    full(&from).await;
    Scene::create(&to, "stranger").await;
    let error = refused(&*from, &*to).await;
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("stranger"), "{error}");
    assert_eq!(all_sessions(&*to).await.len(), 1, "nothing was written");
    let stranger = row(&*to, "stranger").await.unwrap().session_ref();
    to.commit(Commit::new(workspace()).op(Op::DeleteSession { session: stranger, force: false }))
        .await
        .unwrap();
    put(&to, note("two", "of the target")).await;
    let error = refused(&*from, &*to).await;
    assert!(error.kind() == ErrorKind::AlreadyExists && error.to_string().contains("two"), "{error}");
    // A session of the same name is another one.
    let other = Site::memory();
    let other = other.store().await;
    let theirs = Scene::create(&other, "talk").await;
    say(&theirs, &["something else"]).await;
    let error = refused(&*from, &*other).await;
    assert!(error.kind() == ErrorKind::AlreadyExists && error.to_string().contains("talk"), "{error}");
    assert_eq!(row(&*other, "talk").await.unwrap().messages, 1);
}

async fn a_target_that_loses_a_row_on_its_way_is_caught_by_name(site: Site) {
    let from = Site::memory();
    let from = from.store().await;
    full(&from).await;
    // A target in which something changes between the seal and the proof: when the records come.
    let to = site.store().await;
    let meddled = Arc::clone(&to);
    let watched = Watched::at_commit(to, move |_, commit| {
        if commit.ops.iter().any(|op| matches!(op, Op::RestoreRecord { .. })) {
            let meddled = Arc::clone(&meddled);
            let pin = move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async move {
                    let session = row(&*meddled, "talk").await.unwrap().session_ref();
                    let patch = SessionPatch { pinned: Some(true), ..SessionPatch::default() };
                    put(&meddled, Op::PatchSession { session, patch }).await;
                });
            };
            std::thread::spawn(pin).join().unwrap();
        }
        Ok(())
    });
    let error = refused(&*from, &watched).await;
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("session talk"), "{error}");
}

async fn a_source_that_moves_is_copied_as_it_was_at_one_moment(site: Site) {
    let source = site.store().await;
    full(&source).await;
    let scene =
        Scene { store: Arc::clone(&source), session: row(&*source, "talk").await.unwrap().session_ref() };
    let at = turnkeep_core::Timestamp::from_millis(1_764_600_000_000);
    let before = row(&*source, "talk").await.unwrap().head;
    let word = Message::user("meanwhile").to_new_entry(at).unwrap();
    // While the small rows of the session are read, so that they are read again.
    let moving = Watched::moving(scene, word.clone(), 9);
    // And once the session has been copied.
    let target = Site::memory();
    let (meddled, to) = (Arc::clone(&source), target.store().await);
    let to = Watched::at_commit(to, move |_, commit| {
        if commit.ops.iter().any(|op| matches!(op, Op::RestoreRecord { .. })) {
            let (meddled, word) = (Arc::clone(&meddled), word.clone());
            let add = move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async move {
                    let session = row(&*meddled, "talk").await.unwrap().session_ref();
                    put(&meddled, Op::Append { session, entries: vec![word] }).await;
                });
            };
            std::thread::spawn(add).join().unwrap();
        }
        Ok(())
    });
    let report = copied(&moving, &to).await;
    assert!(report.moved_on());
    let talk = report.workspaces[0].sessions.iter().find(|one| one.session.as_str() == "talk").unwrap();
    assert!(talk.moved_on && talk.source == talk.target);
    let (now, copy) = (row(&*source, "talk").await.unwrap(), row(&to, "talk").await.unwrap());
    assert!(copy.head >= before && copy.head < now.head, "{:?} of {:?}", copy.head, now.head);
    // Once it rests, the next copy brings the rest.
    let report = copied(&*source, &to).await;
    assert!(!report.moved_on());
    assert_eq!(everything(&to).await, everything(&*source).await);
}

async fn only_the_chosen_workspaces_are_copied(site: Site) {
    let source = site.store().await;
    full(&source).await;
    let other = WorkspaceId::new("other").unwrap();
    let mut session = row(&*source, "talk").await.unwrap().session_ref();
    session.incarnation = Incarnation::from_bytes([9; 16]);
    let new = NewSession {
        id: session.id.clone(),
        incarnation: session.incarnation,
        state: SessionState::Active,
        profile: Profile::default(),
    };
    source.commit(Commit::new(other.clone()).op(Op::CreateSession(new))).await.unwrap();
    let target = Site::memory();
    let to = target.store().await;
    let nowhere = vec![other.clone(), WorkspaceId::new("nowhere").unwrap()];
    let options = CopyOptions { workspaces: nowhere, ..CopyOptions::default() };
    let error = copy(&*source, &*to, &options, &mut quietly()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("nowhere"), "{error}");
    let options = CopyOptions { workspaces: vec![other.clone()], ..CopyOptions::default() };
    let report = copy(&*source, &*to, &options, &mut quietly()).await.unwrap();
    assert_eq!(report.workspaces.len(), 1);
    assert_eq!(to.maintenance().unwrap().workspaces().await.unwrap(), [other]);
    let report = copied(&*source, &*to).await;
    assert_eq!(report.workspaces.len(), 2);
    assert_eq!(to.maintenance().unwrap().workspaces().await.unwrap().len(), 2);
}
