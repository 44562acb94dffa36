//! Damaged stores: what is left is saved, what is gone is named, and the damaged store stays as it is.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use turnkeep_core::commit::{Commit, Expect, NewEvent, Op, Put};
use turnkeep_core::id::{Collection, EventKind, RecordKey, StreamName};
use turnkeep_core::model::RunState;
use turnkeep_core::query::{EntryQuery, EventQuery, RecordQuery, RunQuery, SessionQuery};
use turnkeep_core::{ErrorKind, Payload, Store, Timestamp};
use turnkeep_memory::MemoryStore;
use turnkeep_sessions::Message;
use turnkeep_sessions::transfer::{
    CopyOptions, LeftOut, SalvageOptions, SalvageReport, copy, quietly, salvage,
};
use turnkeep_sqlite::SqliteOptions;

use crate::both::{Scene, all_sessions, row, workspace};
use crate::site::{Site, on_each};
use crate::transfer::{exported, rich_session};

on_each!(a_healthy_store_is_saved_whole, what_is_saved_needs_an_empty_store);

pub(crate) async fn saved(from: &dyn Store, to: &dyn Store) -> SalvageReport {
    salvage(from, to, &SalvageOptions::default(), &mut quietly()).await.unwrap()
}

async fn a_healthy_store_is_saved_whole(site: Site) {
    let from = site.store().await;
    let session = rich_session(&from).await;
    Scene::create(&from, "empty").await;
    let note = Put {
        collection: Collection::new("projects").unwrap(),
        key: RecordKey::new("p").unwrap(),
        owner: None,
        status: None,
        expect: Expect::Any,
        payload: Payload::empty(),
    };
    from.commit(Commit::new(workspace()).op(Op::PutRecord(note))).await.unwrap();
    let to: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let report = saved(&*from, &*to).await;
    assert_eq!(report.left_out, []);
    assert_eq!((report.workspaces, report.sessions, report.stand_ins), (1, 2, 0));
    let copy_of = row(&*to, "rich").await.unwrap().session_ref();
    assert_eq!(exported(&*to, &copy_of).await, exported(&*from, &session).await);
    // Equal in everything, so a copy has nothing to add.
    copy(&*from, &*to, &CopyOptions::default(), &mut quietly()).await.unwrap();
}

async fn what_is_saved_needs_an_empty_store(site: Site) {
    let from: Arc<dyn Store> = Arc::new(MemoryStore::new());
    rich_session(&from).await;
    let to = site.store().await;
    Scene::create(&to, "mine").await;
    let error = salvage(&*from, &*to, &SalvageOptions::default(), &mut quietly()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(all_sessions(&*to).await.len(), 1);
}

/// Three talks, alike: `a`, `hurt` and `z`.
pub(crate) async fn three_talks(store: &Arc<dyn Store>) {
    for id in ["a", "hurt", "z"] {
        let scene = Scene::create(store, id).await;
        let at = Timestamp::from_millis(1_764_600_000_000);
        for run in ["one", "two", "three"] {
            scene.start_run(run).await;
            let mut said = Message::user(format!("words of {run}")).to_new_entry(at).unwrap();
            said.run = Some(turnkeep_core::RunId::new(run).unwrap());
            let answer = Message::assistant("fine").to_new_entry(at).unwrap();
            scene.append(vec![said, answer]).await;
            scene.end_run(run, RunState::Completed).await;
        }
        let event = |n: u32| NewEvent {
            kind: EventKind::new("e").unwrap(),
            run: None,
            at,
            payload: Payload::new(format!(r#"{{"n":{n}}}"#)).unwrap(),
        };
        let put = |key: &str| {
            Op::PutRecord(Put {
                collection: Collection::new("guidance").unwrap(),
                key: RecordKey::new(format!("{id}-{key}")).unwrap(),
                owner: Some(scene.session.clone()),
                status: None,
                expect: Expect::Absent,
                payload: Payload::new(r#"{"kept":true}"#).unwrap(),
            })
        };
        scene
            .commit(vec![
                Op::AppendEvents {
                    session: scene.session.clone(),
                    stream: StreamName::new("usage").unwrap(),
                    expect_next: None,
                    events: (0..5).map(event).collect(),
                },
                put("first"),
                put("second"),
                put("third"),
            ])
            .await;
    }
}

/// A SQLite store of three talks, and what is done to its tables behind its back.
pub(crate) async fn damaged(folder: &Path, tampering: &str) -> Arc<dyn Store> {
    let path = folder.join("state.sqlite3");
    let store: Arc<dyn Store> = Arc::new(SqliteOptions::new(&path).open().await.unwrap());
    three_talks(&store).await;
    store.close().await.unwrap();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    conn.execute_batch(tampering).unwrap();
    drop(conn);
    Arc::new(SqliteOptions::new(&path).damaged(true).open().await.unwrap())
}

pub(crate) fn lost(report: &SalvageReport) -> Vec<String> {
    let text = |one: &LeftOut| {
        let session = one.session.as_ref().map_or("", |id| id.as_str());
        format!("{session}: {}", one.what)
    };
    report.left_out.iter().map(text).collect()
}

/// What the damaged session of the new store still has: entries by number, runs, events, records.
pub(crate) async fn left(store: &dyn Store) -> (Vec<String>, Vec<String>, Vec<String>, Vec<String>) {
    let session = row(store, "hurt").await.unwrap().session_ref();
    let mut entries = EntryQuery::new(workspace(), session.clone());
    entries.limit = 1_000;
    let entries = store.entries(&entries).await.unwrap().items;
    let mut runs = RunQuery::new(workspace());
    runs.session = Some(session.clone());
    let events = EventQuery::new(workspace(), session.clone(), StreamName::new("usage").unwrap());
    let mut records = RecordQuery::new(workspace(), Collection::new("guidance").unwrap());
    records.owner = turnkeep_core::query::OwnerFilter::Session(session);
    (
        entries.iter().map(|entry| format!("{} {}", entry.number, entry.kind)).collect(),
        store.runs(&runs).await.unwrap().items.iter().map(|run| run.id.to_string()).collect(),
        store.events(&events).await.unwrap().items.iter().map(|event| event.kind.to_string()).collect(),
        store.records(&records).await.unwrap().items.iter().map(|record| record.key.to_string()).collect(),
    )
}

pub(crate) const HURT: &str = "(SELECT skey FROM sessions WHERE id = 'hurt')";

#[tokio::test]
async fn case_59_what_a_damaged_row_takes_away_is_named_and_the_rest_is_saved() {
    let entry = |n: u32| format!("rid = ({HURT} << 32) | {n}");
    let all_entries: Vec<String> = (1..=6).map(|n| format!("{n} message")).collect();
    let lost_at = |lost: &[usize]| {
        let mut entries = all_entries.clone();
        lost.iter().for_each(|n| entries[n - 1] = format!("{n} lost"));
        entries
    };
    let (runs, events) = (["one", "two", "three"], ["e"; 5]);
    let records = ["hurt-first", "hurt-second", "hurt-third"];
    for (tampering, named, entries, runs, events, records) in [
        // Flipped bytes within a payload: no JSON any more, or not even text.
        (
            format!("UPDATE entries SET payload = '{{' WHERE {}", entry(3)),
            "hurt: entry 3",
            lost_at(&[3]),
            &runs[..],
            &events[..],
            &records[..],
        ),
        (
            format!("UPDATE entries SET payload = CAST(x'7bff7d' AS TEXT) WHERE {}", entry(3)),
            "hurt: entry 3",
            lost_at(&[3]),
            &runs,
            &events,
            &records,
        ),
        // Missing rows, in the middle and at the end.
        (
            format!("DELETE FROM entries WHERE {} OR {}", entry(2), entry(3)),
            "hurt: entries 2-3",
            lost_at(&[2, 3]),
            &runs,
            &events,
            &records,
        ),
        (
            format!("DELETE FROM entries WHERE {}", entry(6)),
            "hurt: entry 6",
            lost_at(&[6]),
            &runs,
            &events,
            &records,
        ),
        // A row that is said to come long after its neighbours.
        (
            format!("UPDATE entries SET rid = rid + 3000000000 WHERE {}", entry(5)),
            "hurt: entry 5",
            lost_at(&[5]),
            &runs,
            &events,
            &records,
        ),
        (
            format!(
                "UPDATE events SET number = 1000000000002 WHERE number = 2 AND stkey = (SELECT stkey FROM streams WHERE skey = {HURT} AND name = 'usage')"
            ),
            "hurt: stream usage, events 2-2",
            lost_at(&[]),
            &runs,
            &["e", "lost", "e", "e", "e"],
            &records,
        ),
        // A number that leads into the future.
        (
            format!("UPDATE entries SET parent = 9 WHERE {}", entry(4)),
            "hurt: entry 4",
            lost_at(&[4]),
            &runs,
            &events,
            &records,
        ),
        (
            format!("UPDATE sessions SET leaf = 99 WHERE skey = {HURT}"),
            "hurt: the place where the session goes on",
            lost_at(&[]),
            &runs,
            &events,
            &records,
        ),
        (
            format!("UPDATE runs SET state = 'nonsense' WHERE id = 'two' AND rkey >> 32 = {HURT}"),
            "hurt: run two",
            lost_at(&[]),
            &["one", "three"],
            &events,
            &records,
        ),
        (
            format!(
                "DELETE FROM events WHERE number = 2 AND stkey = (SELECT stkey FROM streams WHERE skey = {HURT} AND name = 'usage')"
            ),
            "hurt: stream usage, events 2-2",
            lost_at(&[]),
            &runs,
            &["e", "lost", "e", "e", "e"],
            &records,
        ),
        (
            "UPDATE records SET payload = 'x' WHERE key = 'hurt-second'".to_owned(),
            "hurt: record guidance hurt-second",
            lost_at(&[]),
            &runs,
            &events,
            &["hurt-first", "hurt-third"],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let from = damaged(folder.path(), &tampering).await;
        let place = Site::sqlite();
        let to = place.store().await;
        let report = saved(&*from, &*to).await;
        let lost = lost(&report);
        assert!(lost.iter().any(|lost| lost == named), "{tampering}: {lost:?}");
        assert!(lost.iter().all(|lost| lost.starts_with("hurt: ")), "{tampering}: {lost:?}");
        assert_eq!(report.sessions, 3, "{tampering}");
        let left = left(&*to).await;
        assert_eq!(left.0, entries, "{tampering}");
        assert_eq!(left.1, runs, "{tampering}");
        assert_eq!(left.2, events, "{tampering}");
        assert_eq!(left.3, records, "{tampering}");
        assert_eq!(to.maintenance().unwrap().verify().await.unwrap().damage, [], "{tampering}");
        // The others are whole, and the session goes on.
        for id in ["a", "z"] {
            let (there, here) = (row(&*from, id).await.unwrap(), row(&*to, id).await.unwrap());
            assert_eq!(
                exported(&*from, &there.session_ref()).await,
                exported(&*to, &here.session_ref()).await,
                "{tampering}"
            );
        }
        let scene = Scene { store: Arc::clone(&to), session: row(&*to, "hurt").await.unwrap().session_ref() };
        let next = Message::user("and on").to_new_entry(Timestamp::from_millis(1)).unwrap();
        let receipt = scene.append(vec![next]).await;
        assert!(format!("{:?}", receipt.outcomes[0]).contains('7'), "{:?}", receipt.outcomes);
    }
}

#[tokio::test]
async fn a_session_whose_own_row_is_damaged_is_named_and_the_others_are_saved() {
    let folder = tempfile::tempdir().unwrap();
    let from =
        damaged(folder.path(), "UPDATE sessions SET cwd = CAST(x'ff' AS TEXT) WHERE id = 'hurt'").await;
    let mut listed = SessionQuery::new(workspace());
    listed.limit = 10;
    assert_eq!(from.sessions(&listed).await.unwrap_err().kind(), ErrorKind::Corrupt, "no list can be read");
    let to: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let report = saved(&*from, &*to).await;
    assert_eq!(lost(&report), ["hurt: the session"]);
    assert_eq!(report.sessions, 2);
    assert!(row(&*to, "a").await.is_some() && row(&*to, "z").await.is_some());
}

#[tokio::test]
async fn a_broken_page_takes_its_own_entries_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.sqlite3");
    let store: Arc<dyn Store> = Arc::new(SqliteOptions::new(&path).open().await.unwrap());
    let at = Timestamp::from_millis(1_764_600_000_000);
    let kept = Scene::create(&store, "kept").await;
    kept.append(vec![Message::user("hello").to_new_entry(at).unwrap()]).await;
    let long = Scene::create(&store, "long").await;
    for chunk in 0..20 {
        let words = (0..100).map(|n| Message::user(format!("word {chunk} {n}")).to_new_entry(at).unwrap());
        long.append(words.collect()).await;
    }
    store.close().await.unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    // Among the entries of the second session.
    let page = bytes.len() / 8192 * 3 / 4;
    bytes[page * 8192..page * 8192 + 8].fill(0xff);
    std::fs::write(&path, &bytes).unwrap();
    let from = SqliteOptions::new(&path).damaged(true).open().await.unwrap();
    let found = turnkeep_core::Maintenance::verify(&from).await.unwrap().damage;
    assert!(found.iter().any(|damage| damage.place.starts_with("session long, entries after ")), "{found:?}");
    assert!(found.iter().all(|damage| !damage.place.contains("kept")), "{found:?}");
    let to: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let report = saved(&from, &*to).await;
    assert_eq!(report.sessions, 2, "{report:?}");
    let one = report.left_out.iter().filter(|lost| lost.what.starts_with("entr")).count();
    assert_eq!(one, report.left_out.len(), "{report:?}");
    assert!(report.stand_ins > 0 && report.stand_ins < 200, "one page holds no more: {}", report.stand_ins);
    assert_eq!(report.entries + report.stand_ins, 2_001);
    assert_eq!(row(&*to, "long").await.unwrap().head, row(&from, "long").await.unwrap().head);
    assert_eq!(to.maintenance().unwrap().verify().await.unwrap().damage, []);
    drop(from);
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the damaged store is as it was");
}

/// Flips a bit of one stored value of a redb file, behind the store's back. `key` begins the key.
fn flip(path: &Path, table: &'static str, key: &[u8]) {
    use ::redb::{Database, ReadableTable, TableDefinition};
    let engine = Database::open(path).unwrap();
    let transaction = engine.begin_write().unwrap();
    {
        let definition = TableDefinition::<&[u8], &[u8]>::new(table);
        let mut rows = transaction.open_table(definition).unwrap();
        let found = rows.range(key..).unwrap().next().unwrap().unwrap();
        let (key, mut value) = (found.0.value().to_vec(), found.1.value().to_vec());
        drop(found);
        let middle = value.len() / 2;
        value[middle] ^= 1;
        rows.insert(key.as_slice(), value.as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}

#[tokio::test]
async fn case_59_a_damaged_value_of_redb_is_named_and_the_rest_is_saved() {
    // The second session of a store, and the number of a row of it.
    let second = 2_u64.to_be_bytes();
    let of = |number: u32| [&second[..], &number.to_be_bytes()].concat();
    let stream = [&second[..], b"usage\0", &2_u64.to_be_bytes()].concat();
    for (table, key, place, named) in [
        ("entries", of(3), "entries: session hurt, entry 3", "hurt: entry 3"),
        ("entries", of(6), "entries: session hurt, entry 6", "hurt: entry 6"),
        ("runs", of(2), "runs: session hurt, run number 2", "hurt: run two"),
        ("events", stream, "events: session hurt, stream usage, event 2", "hurt: stream usage, events 2-2"),
        ("sessions", second.to_vec(), "sessions: session hurt", "hurt: the session"),
        ("profiles", second.to_vec(), "profiles: session hurt", "hurt: the session"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let store: Arc<dyn Store> = Arc::new(turnkeep_redb::RedbStore::open(&path).await.unwrap());
        three_talks(&store).await;
        store.close().await.unwrap();
        drop(store);
        flip(&path, table, &key);
        let from = turnkeep_redb::RedbOptions::new(&path).damaged(true).open().await.unwrap();
        let found = turnkeep_core::Maintenance::verify(&from).await.unwrap().damage;
        assert_eq!(found.iter().map(|damage| damage.place.as_str()).collect::<Vec<_>>(), [place]);
        let to: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let report = saved(&from, &*to).await;
        let lost = lost(&report);
        assert!(lost.iter().any(|lost| lost == named), "{table}: {lost:?}");
        for id in ["a", "z"] {
            let (there, here) = (row(&from, id).await.unwrap(), row(&*to, id).await.unwrap());
            assert_eq!(
                exported(&from, &there.session_ref()).await,
                exported(&*to, &here.session_ref()).await
            );
        }
        if named != "hurt: the session" {
            assert_eq!(report.sessions, 3);
            let left = left(&*to).await;
            let lost = left.0.iter().chain(&left.2).filter(|row| row.contains("lost")).count();
            assert_eq!((left.0.len(), left.2.len(), left.3.len()), (6, 5, 3), "{table}");
            assert_eq!(lost + left.1.len(), if table == "runs" { 2 } else { 4 }, "{table}");
        }
        assert_eq!(to.maintenance().unwrap().verify().await.unwrap().damage, []);
    }
}

#[tokio::test]
async fn a_byte_that_turned_anywhere_in_a_file_of_redb_costs_no_more_than_what_it_is_in() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.redb");
    let store: Arc<dyn Store> = Arc::new(turnkeep_redb::RedbStore::open(&whole).await.unwrap());
    three_talks(&store).await;
    store.close().await.unwrap();
    drop(store);
    let bytes = std::fs::read(&whole).unwrap();
    let (mut named, mut saved_all) = (0, 0);
    // Everywhere but in the header, which says where everything else is.
    for at in (8_192..bytes.len()).step_by(bytes.len() / 40) {
        let path = folder.path().join(format!("at-{at}.redb"));
        let mut turned = bytes.clone();
        turned[at] ^= 0x55;
        std::fs::write(&path, &turned).unwrap();
        let Ok(from) = turnkeep_redb::RedbOptions::new(&path).damaged(true).open().await else { continue };
        let found = turnkeep_core::Maintenance::verify(&from).await.unwrap().damage;
        let to: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let Ok(report) = salvage(&from, &*to, &SalvageOptions::default(), &mut quietly()).await else {
            assert!(!found.is_empty(), "at {at}: what cannot be saved is at least seen");
            continue;
        };
        named += usize::from(!report.left_out.is_empty());
        saved_all += usize::from(report.left_out.is_empty());
        assert!(report.left_out.is_empty() || !found.is_empty(), "at {at}: {report:?}");
        assert_eq!(to.maintenance().unwrap().verify().await.unwrap().damage, [], "at {at}");
    }
    assert!(named > 0 && saved_all > 0, "{named} and {saved_all}");
}
