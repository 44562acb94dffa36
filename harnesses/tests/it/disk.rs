//! The disk under each backend sees everything, through the ordinary way of opening a store.

use std::path::Path;
use std::sync::Arc;

use turnkeep_conformance::disk::{Disk, Loss, MAIN, Replay};
use turnkeep_conformance::{Harness, OpenWith};
use turnkeep_core::commit::{Commit, NewEntry, NewSession, Op};
use turnkeep_core::model::{Profile, SessionState};
use turnkeep_core::{Incarnation, Payload, SessionRef, Store, Timestamp, WorkspaceId};
use turnkeep_harnesses::{RedbHarness, SqliteHarness};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

fn workspace() -> WorkspaceId {
    WorkspaceId::new("w").unwrap()
}

fn session(number: u8) -> SessionRef {
    SessionRef {
        id: format!("s{number}").parse().unwrap(),
        incarnation: Incarnation::from_bytes([number; 16]),
    }
}

async fn work(store: &Arc<dyn Store>, number: u8) {
    let session = session(number);
    let (id, incarnation) = (session.id.clone(), session.incarnation);
    let (state, profile) = (SessionState::Active, Profile::default());
    let create = Op::CreateSession(NewSession { id, incarnation, state, profile });
    store.commit(Commit::new(workspace()).op(create)).await.unwrap();
    for round in 0..10 {
        let payload =
            Payload::from_value(&serde_json::json!({ "text": "words ".repeat(200 * round) })).unwrap();
        let entries = vec![NewEntry::new("message".parse().unwrap(), Timestamp::from_millis(1), payload)];
        store
            .commit(Commit::new(workspace()).op(Op::Append { session: session.clone(), entries }))
            .await
            .unwrap();
    }
    if number.is_multiple_of(2) {
        let delete = Op::DeleteSession { session, force: false };
        store.commit(Commit::new(workspace()).op(delete)).await.unwrap();
    }
}

/// Everything that a real workload leaves in the files must be in the log, byte by byte.
async fn the_log_equals_the_files<H: Harness>(harness: H, files: &[&str]) {
    let (site, disk) = (harness.provision().await.unwrap(), Disk::new());
    let same = |when: &str| {
        let log = disk.log();
        let mut replay = Replay::new(&log);
        while replay.advance() {}
        let image = replay.image(Loss::None);
        for suffix in files {
            let really = std::fs::read(format!("{site}{suffix}")).ok();
            let name = format!("{MAIN}{suffix}");
            assert!(image.files.get(&name) == really.as_ref(), "{when}: {name} differs from its log");
        }
    };
    let store = harness.open_on(&site, &disk, OpenWith::default()).await.unwrap().unwrap();
    work(&store, 1).await;
    work(&store, 2).await;
    // Idle chores may still be at work; the close waits for them.
    store.close().await.unwrap();
    same("after a close");
    let store = harness.open_on(&site, &disk, OpenWith::default()).await.unwrap().unwrap();
    let other = harness.open_on(&site, &disk, OpenWith::default()).await.unwrap().unwrap();
    work(&store, 3).await;
    work(&other, 4).await;
    store.maintenance().unwrap().compact().await.unwrap();
    other.close().await.unwrap();
    work(&store, 5).await;
    store.close().await.unwrap();
    same("after two clients and a compaction");
    harness.destroy(&site).await.unwrap();
}

#[test]
fn the_disk_under_sqlite_has_every_byte() {
    block_on(the_log_equals_the_files(SqliteHarness, &["", "-wal", "-journal"]));
}

#[test]
fn the_disk_under_redb_has_every_byte() {
    block_on(the_log_equals_the_files(RedbHarness, &[""]));
}

/// A store laid out from an image opens and reads as the one that the image was taken from.
async fn an_image_is_a_store<H: Harness>(harness: H) {
    let (site, disk) = (harness.provision().await.unwrap(), Disk::new());
    let store = harness.open_on(&site, &disk, OpenWith::default()).await.unwrap().unwrap();
    work(&store, 1).await;
    let log = disk.log();
    let mut replay = Replay::new(&log);
    while replay.advance() {}
    let laid = harness.lay_out(&replay.image(Loss::All)).await.unwrap().unwrap();
    let copy = harness.open(&laid, OpenWith::default()).await.unwrap();
    let query = turnkeep_core::query::EntryQuery::new(workspace(), session(1));
    assert_eq!(copy.entries(&query).await.unwrap().items, store.entries(&query).await.unwrap().items);
    assert_eq!(copy.entries(&query).await.unwrap().items.len(), 10);
    copy.close().await.unwrap();
    store.close().await.unwrap();
    for site in [&site, &laid] {
        harness.destroy(site).await.unwrap();
        assert!(!Path::new(site.as_str()).exists());
    }
}

#[test]
fn an_image_of_sqlite_is_a_store() {
    block_on(an_image_is_a_store(SqliteHarness));
}

#[test]
fn an_image_of_redb_is_a_store() {
    block_on(an_image_is_a_store(RedbHarness));
}
