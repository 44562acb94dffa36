//! Stores that are filled, and what is written into them.

use std::path::Path;
use std::sync::Arc;

use turnkeep_core::commit::{NewEntry, NewSession, Op};
use turnkeep_core::id::{EntryKind, Role};
use turnkeep_core::model::{Profile, SessionState, entry_kind, role};
use turnkeep_core::{Commit, Incarnation, Payload, SessionId, SessionRef, Store, Timestamp, WorkspaceId};
use turnkeep_sqlite::{SqliteOptions, SqliteStore};

/// Sessions of a filled store.
pub const SESSIONS: usize = 100;
/// Entries of a filled store, interleaved over its sessions.
pub const ENTRIES: usize = 100_000;

/// A runtime like a host's.
#[must_use]
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// The workspace of all benchmarks.
#[must_use]
pub fn workspace() -> WorkspaceId {
    WorkspaceId::new("bench").expect("an id")
}

/// A message of about 1 KiB, as agents write them.
#[must_use]
pub fn message(number: usize) -> NewEntry {
    let text =
        format!("{number} {}", "the parser fails on the second token of the line and says so. ".repeat(7));
    let payload = format!(
        r#"{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"model":"m-1","usage":{{"input":1200,"output":310,"cache_read":900}},"stop_reason":"end_turn","id":"msg_{number:020}"}}"#
    );
    let payload = Payload::new(payload).expect("JSON");
    let mut entry = NewEntry::new(
        EntryKind::new(entry_kind::MESSAGE).expect("a kind"),
        Timestamp::from_millis(1_764_000_000_000),
        payload,
    );
    entry.role = Some(Role::new(role::ASSISTANT).expect("a role"));
    entry.text = Some(text);
    entry
}

/// The commit of one append.
#[must_use]
pub fn append(session: &SessionRef, entries: Vec<NewEntry>) -> Commit {
    Commit::new(workspace()).op(Op::Append { session: session.clone(), entries })
}

/// Session `number` of every filled store.
#[must_use]
pub fn session(number: usize) -> SessionRef {
    let mut bits = [0; 16];
    bits[8..].copy_from_slice(&(number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    SessionRef {
        id: SessionId::new(format!("session-{number:06}")).expect("an id"),
        incarnation: Incarnation::from_bytes(bits),
    }
}

/// Makes session `number`.
pub async fn create(store: &dyn Store, number: usize) {
    let SessionRef { id, incarnation } = session(number);
    let new = NewSession { id, incarnation, state: SessionState::Active, profile: Profile::default() };
    store.commit(Commit::new(workspace()).op(Op::CreateSession(new))).await.expect("a session");
}

/// Opens a store with full durability.
pub async fn open(path: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(path).await.expect("a store"))
}

/// Opens a store that makes every commit durable by itself.
pub async fn open_ungrouped(path: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteOptions::new(path).group(1).open().await.expect("a store"))
}

/// Fills a database with `entries` over `sessions`, interleaved, and closes it, so that it may be copied.
pub fn fill(path: &Path, sessions: usize, entries: usize) {
    runtime().block_on(async {
        let store = open(path).await;
        for number in 0..sessions {
            create(store.as_ref(), number).await;
        }
        let batch = 10;
        for round in 0..entries / sessions / batch {
            let appends = (0..sessions).map(|number| {
                let store = Arc::clone(&store);
                let entries = (0..batch).map(|at| message(round * batch + at)).collect();
                tokio::spawn(async move {
                    store.commit(append(&session(number), entries)).await.expect("an append")
                })
            });
            for append in appends.collect::<Vec<_>>() {
                append.await.expect("a task");
            }
        }
        store.close().await.expect("a close");
    });
}

/// Appends `each` entries from each of `producers` tasks, each to its own session, each awaiting its durable answer.
/// Answers the commits per second.
pub fn produce(
    runtime: &tokio::runtime::Runtime,
    store: &Arc<SqliteStore>,
    producers: usize,
    each: usize,
) -> f64 {
    let took = crate::rounds::time(|| {
        runtime.block_on(async {
            let tasks = (0..producers).map(|producer| {
                let store = Arc::clone(store);
                tokio::spawn(async move {
                    let session = session(producer);
                    for number in 0..each {
                        store.commit(append(&session, vec![message(number)])).await.expect("an append");
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.expect("a task");
            }
        });
    });
    (producers * each) as f64 / took.as_secs_f64()
}
