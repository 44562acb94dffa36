//! The same capabilities without a runtime.

use std::sync::Arc;
use std::time::Duration;

use turnkeep_core::model::{LeasePurpose, RunState};
use turnkeep_core::{ErrorKind, Store, WorkspaceId};
use turnkeep_memory::MemoryStore;
use turnkeep_sessions::blocking::Wait;
use turnkeep_sessions::{Message, RunError, Workspace, named_lease};
use turnkeep_sqlite::SqliteStore;

fn memory() -> (Arc<dyn Store>, Option<tempfile::TempDir>) {
    (Arc::new(MemoryStore::new()), None)
}

fn sqlite() -> (Arc<dyn Store>, Option<tempfile::TempDir>) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("state.sqlite3")).wait().unwrap();
    (Arc::new(store), Some(folder))
}

/// Everything that the async tests do in small, on the thread that calls.
fn a_whole_conversation(store: Arc<dyn Store>) {
    let ws = Workspace::open(store, WorkspaceId::new("w").unwrap()).wait().unwrap();
    let session = ws.sessions().create().title("t").wait().unwrap();
    let run = session.begin_run(Message::user("q")).wait().unwrap();
    run.append([Message::assistant("thinking")]).wait().unwrap();
    run.complete([Message::assistant("a")]).wait().unwrap();
    let run = session.begin_run(Message::user("fails")).wait().unwrap();
    run.fail(RunError::provider("timeout")).wait().unwrap();
    let run = session.begin_run(Message::user("dropped")).wait().unwrap();
    let dropped = run.id().clone();
    drop(run);
    session.append([Message::user("on")]).wait().unwrap();
    assert_eq!(session.runs().get(&dropped).wait().unwrap().state, RunState::Interrupted);
    assert_eq!(session.replay().wait().unwrap().messages.len(), 4);
    assert_eq!(session.history().wait().unwrap().items.len(), 6);
    assert_eq!(ws.sessions().list().wait().unwrap().items.len(), 1);
    let held = ws.leases().try_acquire([named_lease("a").unwrap()], LeasePurpose::Mutation).wait().unwrap();
    let patience = Duration::from_millis(20);
    let busy = ws.leases().acquire([named_lease("a").unwrap()], LeasePurpose::Mutation, patience).wait();
    assert_eq!(busy.unwrap_err().kind(), ErrorKind::LeaseHeld);
    held.release().wait().unwrap();
    assert!(ws.recover().wait().unwrap().is_empty());
    let id = session.id().clone();
    ws.sessions().delete(id).wait().unwrap();
    ws.close().wait().unwrap();
    assert_eq!(session.info().wait().unwrap_err().kind(), ErrorKind::Closed);
}

/// Names the backend in the test, as the async tests do.
macro_rules! on_each_blocking {
    ($($name:ident),+ $(,)?) => {
        mod on_memory {
            $(#[test] fn $name() { let (store, _folder) = super::memory(); super::$name(store); })+
        }
        mod on_sqlite {
            $(#[test] fn $name() { let (store, _folder) = super::sqlite(); super::$name(store); })+
        }
    };
}

on_each_blocking!(works_without_a_runtime, works_within_spawn_blocking, works_on_many_threads_at_once);

fn works_without_a_runtime(store: Arc<dyn Store>) {
    assert!(tokio::runtime::Handle::try_current().is_err());
    a_whole_conversation(store);
}

fn works_within_spawn_blocking(store: Arc<dyn Store>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::task::spawn_blocking(move || a_whole_conversation(store)).await.unwrap();
    });
}

fn works_on_many_threads_at_once(store: Arc<dyn Store>) {
    let ws = Workspace::open(store, WorkspaceId::new("w").unwrap()).wait().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let session = ws.sessions().create().wait().unwrap();
                for number in 0..20 {
                    session.append([Message::user(format!("m{number}"))]).wait().unwrap();
                }
                assert_eq!(session.info().wait().unwrap().messages, 20);
            });
        }
    });
    assert_eq!(ws.sessions().list().count().wait().unwrap(), 8);
}
