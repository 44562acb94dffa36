//! What the tests that a backend has of its own share: stores and commits, programs beside them, backups.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod other;
mod restoring;

use std::sync::atomic::{AtomicU64, Ordering};

use turnkeep_core::commit::{Commit, NewEntry, NewRun, NewSession, Op};
use turnkeep_core::id::{EntryKind, Role, SessionRef};
use turnkeep_core::model::{Profile, RunState, SessionState};
use turnkeep_core::query::EntryQuery;
use turnkeep_core::{
    Incarnation, Payload, Receipt, RunId, SessionId, SessionKey, Store, Timestamp, WorkspaceId,
};

pub use other::{Other, again, role, tell};
pub use restoring::Restoring;

/// Runs a test on the runtime that is blocked most easily.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// The workspace of all that is written here.
pub fn workspace() -> WorkspaceId {
    WorkspaceId::new("w").unwrap()
}

/// A life that no other test or call has.
pub fn life(id: &str) -> SessionRef {
    static LIVES: AtomicU64 = AtomicU64::new(1);
    let mut bits = [0; 16];
    bits[..8].copy_from_slice(&LIVES.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    SessionRef { id: SessionId::new(id).unwrap(), incarnation: Incarnation::from_bytes(bits) }
}

/// Creates a session in use.
pub fn create(session: &SessionRef) -> Op {
    create_with(session, SessionState::Active, Profile::default())
}

/// Creates a session.
pub fn create_with(session: &SessionRef, state: SessionState, profile: Profile) -> Op {
    let (id, incarnation) = (session.id.clone(), session.incarnation);
    Op::CreateSession(NewSession { id, incarnation, state, profile })
}

/// What a user said.
pub fn message(text: &str) -> NewEntry {
    let payload = Payload::from_value(&std::collections::BTreeMap::from([("text", text)])).unwrap();
    let mut entry = NewEntry::new(EntryKind::new("message").unwrap(), Timestamp::from_millis(1), payload);
    entry.role = Some(Role::new("user").unwrap());
    entry.text = Some(text.to_owned());
    entry
}

/// Appends entries.
pub fn append(session: &SessionRef, entries: Vec<NewEntry>) -> Op {
    Op::Append { session: session.clone(), entries }
}

/// Starts a run.
pub fn start(session: &SessionRef, run: &str) -> Op {
    let run = NewRun::new(RunId::new(run).unwrap(), RunState::Running);
    Op::StartRun { session: session.clone(), run }
}

/// Makes a change that must be made.
pub fn commit(store: &dyn Store, ops: impl IntoIterator<Item = Op>) -> Receipt {
    let commit = ops.into_iter().fold(Commit::new(workspace()), Commit::op);
    block_on(store.commit(commit)).unwrap()
}

/// A session with `count` messages, a hundred to a commit.
pub fn session_of(store: &dyn Store, id: &str, count: usize) -> SessionRef {
    let session = life(id);
    commit(store, [create(&session)]);
    let texts: Vec<String> = (1..=count).map(|n| format!("message {n}")).collect();
    for texts in texts.chunks(100) {
        commit(store, [append(&session, texts.iter().map(|text| message(text)).collect())]);
    }
    session
}

/// The session with this id, as it is stored.
pub fn find(store: &dyn Store, id: &str) -> SessionRef {
    let key = SessionKey { workspace: workspace(), id: SessionId::new(id).unwrap() };
    block_on(store.session(&key)).unwrap().unwrap().session_ref()
}

/// What was said in a session.
pub fn texts(store: &dyn Store, session: &SessionRef) -> Vec<String> {
    let mut query = EntryQuery::new(workspace(), session.clone());
    query.limit = 10_000;
    let page = block_on(store.entries(&query)).unwrap();
    page.items.into_iter().filter_map(|entry| entry.text).collect()
}

/// Closes a store.
pub fn close(store: &impl Store) {
    block_on(store.close()).unwrap();
}
