//! Damaged numbers: of what they say there is, only what is there is looked for.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use turnkeep_core::query::EntryQuery;
use turnkeep_core::{Store, Timestamp};
use turnkeep_memory::MemoryStore;
use turnkeep_sessions::Message;
use turnkeep_sqlite::SqliteOptions;

use crate::both::{Scene, row, workspace};
use crate::salvage::{HURT, damaged, left, lost, saved, three_talks};

/// Far beyond anything that could be walked to one by one.
const HUGE: u32 = 4_000_000_000;

#[tokio::test]
async fn a_head_that_is_far_beyond_all_rows_is_one_finding_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let usage = format!("skey = {HURT} AND name = 'usage'");
    let tampering = format!(
        "UPDATE sessions SET head = {HUGE} WHERE id = 'hurt';
         UPDATE entries SET payload = CAST(x'7bff7d' AS TEXT) WHERE rid = ({HURT} << 32) | 3;
         UPDATE streams SET head = 1000000000000 WHERE {usage};
         UPDATE events SET payload = CAST(x'7bff7d' AS TEXT) WHERE number = 5
           AND stkey = (SELECT stkey FROM streams WHERE {usage})"
    );
    let from = damaged(folder.path(), &tampering).await;
    let to: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let report = saved(&*from, &*to).await;
    assert_eq!(
        lost(&report),
        [
            "hurt: entry 3",
            "hurt: whatever came after entry 6",
            "hurt: stream usage, whatever came after event 4",
        ]
    );
    let (entries, _, events, _) = left(&*to).await;
    assert_eq!(entries.len(), 6);
    assert_eq!(events, ["e"; 4]);
    assert_eq!(to.maintenance().unwrap().verify().await.unwrap().damage, []);
}

#[tokio::test]
async fn behind_a_wide_gap_that_the_head_bears_out_all_rows_are_saved() {
    let folder = tempfile::tempdir().unwrap();
    // 110,000 rows that cannot be read, and 900 that can.
    let tampering = format!(
        "WITH RECURSIVE n(i) AS (SELECT 7 UNION ALL SELECT i + 1 FROM n WHERE i < 110906)
         INSERT INTO entries (rid, parent, on_path, kind, role, visibility, at, text, payload)
         SELECT rid - 6 + i, 6, on_path, kind, role, visibility, at, text,
           CASE WHEN i <= 110006 THEN CAST(x'7bff7d' AS TEXT) ELSE payload END
         FROM entries, n WHERE rid = ({HURT} << 32) | 6;
         UPDATE sessions SET head = 110906 WHERE id = 'hurt'"
    );
    let from = damaged(folder.path(), &tampering).await;
    let to: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let report = saved(&*from, &*to).await;
    assert_eq!(lost(&report), ["hurt: entries 7-110006"]);
    assert_eq!((report.entries, report.stand_ins), (18 + 900, 110_000));
}

/// The page of the newest rows of a table, by following the file.
fn last_page(bytes: &[u8], root: u32) -> usize {
    const PAGE: usize = 8192;
    let mut page = root as usize;
    while bytes[(page - 1) * PAGE] == 5 {
        let at = (page - 1) * PAGE + 8;
        page = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    }
    assert_eq!(bytes[(page - 1) * PAGE], 13, "a page of rows");
    (page - 1) * PAGE
}

#[tokio::test]
async fn where_the_newest_rows_cannot_be_read_a_huge_head_is_not_walked_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.sqlite3");
    let store: Arc<dyn Store> = Arc::new(SqliteOptions::new(&path).open().await.unwrap());
    let long = Scene::create(&store, "long").await;
    let words = |n| Message::user(format!("word {n}")).to_new_entry(Timestamp::from_millis(1)).unwrap();
    long.append((0..900).map(words).collect()).await;
    store.close().await.unwrap();
    let root: u32 = {
        let conn = Connection::open(&path).unwrap();
        conn.execute("UPDATE sessions SET head = ?1", [HUGE]).unwrap();
        conn.query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'entries'", [], |row| row.get(0))
            .unwrap()
    };
    let mut bytes = std::fs::read(&path).unwrap();
    let page = last_page(&bytes, root);
    bytes[page..page + 8].fill(0xff);
    std::fs::write(&path, &bytes).unwrap();
    let from = SqliteOptions::new(&path).damaged(true).open().await.unwrap();
    let to: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let report = saved(&from, &*to).await;
    let newest = format!("long: whatever came after entry {}", report.entries);
    assert_eq!(lost(&report), [newest.as_str(), "long: the place where the session goes on"]);
    assert_eq!(report.stand_ins, 0);
    assert!(report.entries > 600 && report.entries < 900, "{report:?}");
}

/// The sum that a value of redb ends with.
fn check_sum(key: &[u8], body: &[u8]) -> u32 {
    let step = |state: u64, word: u64| {
        let state = (state ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        state ^ (state >> 29)
    };
    let mix = |state: u64, bytes: &[u8]| {
        let (words, rest) = bytes.as_chunks::<8>();
        let state = words.iter().fold(state, |state, word| step(state, u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        step(state, u64::from_le_bytes(last))
    };
    let state = (key.len() as u64) << 32 ^ body.len() as u64 ^ 0x7475_726E_6B65_6570;
    let state = mix(mix(state, key), body);
    let state = (state ^ (state >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (state ^ (state >> 32)) as u32
}

/// Gives the second session of a redb store a huge head that its sum agrees with, and takes rows of it away.
fn tamper(path: &Path, lost: &[u32]) {
    use ::redb::{Database, ReadableTable, TableDefinition};
    let engine = Database::open(path).unwrap();
    let transaction = engine.begin_write().unwrap();
    let table = |name| TableDefinition::<&[u8], &[u8]>::new(name);
    {
        let key = 2_u64.to_be_bytes();
        let mut sessions = transaction.open_table(table("sessions")).unwrap();
        let mut value = sessions.get(&key[..]).unwrap().unwrap().value().to_vec();
        // After the version, the workspace, the id with its length, the incarnation, the state, two counters and two times.
        let at = 1 + 8 + (4 + "hurt".len()) + 16 + 1 + 4 * 8;
        value[at..at + 4].copy_from_slice(&HUGE.to_be_bytes());
        let body = value.len() - 4;
        let sum = check_sum(&key, &value[..body]);
        value[body..].copy_from_slice(&sum.to_be_bytes());
        sessions.insert(&key[..], value.as_slice()).unwrap();
        let mut entries = transaction.open_table(table("entries")).unwrap();
        for number in lost {
            entries.remove(&[&key[..], &number.to_be_bytes()].concat()[..]).unwrap().unwrap();
        }
    }
    transaction.commit().unwrap();
}

#[tokio::test]
async fn a_head_that_is_far_beyond_all_rows_is_one_finding_in_redb() {
    for (taken, named) in [
        (&[][..], &["hurt: whatever came after entry 6"][..]),
        (&[2, 3, 5], &["hurt: entries 2-3", "hurt: entry 5", "hurt: whatever came after entry 6"]),
        (&[5, 6], &["hurt: whatever came after entry 4", "hurt: the place where the session goes on"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let store: Arc<dyn Store> = Arc::new(turnkeep_redb::RedbStore::open(&path).await.unwrap());
        three_talks(&store).await;
        store.close().await.unwrap();
        drop(store);
        tamper(&path, taken);
        let from = turnkeep_redb::RedbOptions::new(&path).damaged(true).open().await.unwrap();
        assert_eq!(row(&from, "hurt").await.unwrap().head.unwrap().get(), HUGE);
        let to: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let report = saved(&from, &*to).await;
        assert_eq!(lost(&report), named);
        assert_eq!(report.entries, 18 - taken.len() as u64);
        let hurt = row(&*to, "hurt").await.unwrap();
        let page = to.entries(&EntryQuery::new(workspace(), hurt.session_ref())).await.unwrap();
        assert_eq!(page.items.len() as u32, hurt.head.unwrap().get());
        assert_eq!(to.maintenance().unwrap().verify().await.unwrap().damage, []);
    }
}
