//! Chores between commits: purges, expired receipts, a compaction that comes at a bad moment.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use redb::{ReadableDatabase as _, ReadableTableMetadata as _, TableDefinition};
use turnkeep_core::commit::{Commit, NewEvent, Op, Request, RequestId};
use turnkeep_core::id::{EventKind, StreamName};
use turnkeep_core::local::{FileAct, FileWatch, Files};
use turnkeep_core::{Clock, ErrorKind, Maintenance, ManualClock, Payload, SessionRef, Store, Timestamp};
use turnkeep_redb::{RedbOptions, RedbStore};

use crate::support::{
    again, append, block_on, close, commit, create, fresh, life, message, open, role, session_of, texts,
    workspace,
};

/// Rows of a table of a store that nobody has open.
fn rows(path: &Path, table: &str) -> u64 {
    let table = TableDefinition::<&[u8], &[u8]>::new(table);
    let engine = redb::Database::open(path).unwrap();
    engine.begin_read().unwrap().open_table(table).unwrap().len().unwrap()
}

/// Looks until it is so; the writer works beside.
fn in_time(so: impl Fn() -> bool) -> bool {
    (0..500).any(|_| {
        let so = so();
        if !so {
            std::thread::sleep(Duration::from_millis(20));
        }
        so
    })
}

/// Whether the writer comes to rest: nothing is written any more.
fn rests(path: &Path) -> bool {
    in_time(|| {
        let before = fs::read(path).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        fs::read(path).unwrap() == before
    })
}

fn events(session: &SessionRef, count: usize, bytes: usize) -> Op {
    let event = NewEvent {
        kind: EventKind::new("e").unwrap(),
        run: None,
        at: Timestamp::from_millis(1),
        payload: Payload::from_value(&"x".repeat(bytes)).unwrap(),
    };
    let stream = StreamName::new("host").unwrap();
    Op::AppendEvents { session: session.clone(), stream, expect_next: None, events: vec![event; count] }
}

#[test]
fn what_is_deleted_goes_slice_by_slice_without_being_asked_and_then_the_store_rests() {
    const TABLES: [&str; 7] =
        ["entries", "entry_keys", "segments", "events", "streams", "profiles", "tombstones"];
    let (_folder, path) = fresh();
    let store = open(&path);
    let kept = session_of(&store, "kept", 10);
    close(&store);
    let before = TABLES.map(|table| rows(&path, table));
    let store = open(&path);
    let (many, large) = (session_of(&store, "many", 2_500), life("large"));
    commit(&store, [events(&many, 1_000, 1), create(&large)]);
    for _ in 0..3 {
        commit(&store, [append(&large, vec![message(&"x".repeat(2_500_000)), message("and more")])]);
        commit(&store, [events(&large, 3, 1_500_000)]);
    }
    let delete = |session: &SessionRef| Op::DeleteSession { session: session.clone(), force: false };
    commit(&store, [delete(&many), delete(&large)]);
    assert!(in_time(|| block_on(store.stats()).unwrap().purges == 0));
    assert!(rests(&path));
    assert_eq!(texts(&store, &kept).len(), 10);
    assert_eq!(block_on(Maintenance::verify(&store)).unwrap().damage, []);
    close(&store);
    assert_eq!(TABLES.map(|table| rows(&path, table)), before, "{TABLES:?}");
}

#[test]
fn expired_receipts_go_and_others_stay_and_then_the_store_rests() {
    const DAYS: i64 = 24 * 60 * 60 * 1000;
    let (_folder, path) = fresh();
    let clock = ManualClock::default();
    let open = || RedbOptions::new(&path).clock(Arc::new(clock.clone())).open_blocking().unwrap();
    let store = open();
    let session = session_of(&store, "s", 1);
    let patched = |store: &RedbStore, id: RequestId| {
        let request = Request::in_session(id, session.clone());
        let op = Op::PatchSession { session: session.clone(), patch: Default::default() };
        block_on(store.commit(Commit::new(workspace()).request(request).op(op))).unwrap();
    };
    patched(&store, RequestId::host("mine").unwrap());
    for n in 0..20 {
        patched(&store, RequestId::generated(clock.now(), [n; 10]));
    }
    clock.advance_ms(4 * DAYS);
    patched(&store, RequestId::generated(clock.now(), [77; 10]));
    close(&store);
    assert_eq!((rows(&path, "requests"), rows(&path, "requests_expiring")), (22, 21));
    clock.advance_ms(4 * DAYS);
    // The writer does it when nobody waits for it, and not any more once the store is closed.
    let gone = (0..20).any(|round| {
        let store = open();
        commit(&store, [create(&life(&format!("t{round}")))]);
        assert!(rests(&path));
        close(&store);
        rows(&path, "requests_expiring") == 1
    });
    assert!(gone);
    assert_eq!(rows(&path, "requests"), 2, "the host's and the younger one");
}

/// Whether the writer of the only store of this process has nothing to do.
#[cfg(target_os = "linux")]
fn writer_sleeps() -> bool {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let stats: Vec<String> =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok()).collect();
    let writers: Vec<_> = stats.iter().filter_map(|stat| stat.split_once("(turnkeep-write) ")).collect();
    assert_eq!(writers.len(), 1, "{stats:?}");
    writers.iter().all(|(_, state)| state.starts_with('S'))
}

#[cfg(target_os = "linux")]
#[test]
fn a_writer_with_nothing_to_do_sleeps() {
    if let Some((_, path)) = role() {
        let store = open(&path);
        session_of(&store, "s", 1);
        assert!(in_time(writer_sleeps));
        return close(&store);
    }
    let (_folder, path) = fresh();
    // In a process of its own, whose only writer it is.
    let done = again("housekeeping::a_writer_with_nothing_to_do_sleeps", "rest", &path).output().unwrap();
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && told.contains("1 passed"), "{told}");
}

/// Stops whoever makes a file until somebody has come and gone.
#[derive(Debug)]
struct Gate(Barrier);

impl FileWatch for Gate {
    fn act(&self, act: FileAct<'_>, work: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        if matches!(act, FileAct::Create(_)) {
            self.0.wait();
            self.0.wait();
        }
        work()
    }
}

#[test]
fn a_compaction_beside_a_backup_is_busy_and_the_store_goes_on() {
    let (folder, path) = fresh();
    close(&open(&path));
    let gate = Arc::new(Gate(Barrier::new(2)));
    let files = Files::watched(Arc::clone(&gate) as Arc<dyn FileWatch>);
    let store = RedbOptions::new(&path).files(files).open_blocking().unwrap();
    let session = session_of(&store, "s", 10);
    let copy = folder.path().join("copy.redb");
    std::thread::scope(|scope| {
        let backup = scope.spawn(|| block_on(store.backup(&copy)));
        gate.0.wait();
        let compacted = block_on(store.compact());
        let said = block_on(store.commit(Commit::new(workspace()).op(append(&session, vec![message("on")]))));
        // First of all, so that nobody waits for ever.
        gate.0.wait();
        assert_eq!(compacted.unwrap_err().kind(), ErrorKind::Busy);
        said.unwrap();
        backup.join().unwrap().unwrap();
    });
    block_on(store.compact()).unwrap();
    close(&store);
}
