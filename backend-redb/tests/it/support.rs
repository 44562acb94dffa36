//! Stores and commits for the tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use turnkeep_core::commit::{Commit, NewEntry, NewSession, Op};
use turnkeep_core::id::{EntryKind, Role, SessionRef};
use turnkeep_core::model::{Profile, SessionState};
use turnkeep_core::query::EntryQuery;
use turnkeep_core::{Incarnation, Payload, Receipt, SessionId, SessionKey, Store, Timestamp, WorkspaceId};
use turnkeep_redb::RedbStore;

/// Runs a test on the runtime that is blocked most easily.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A fresh folder and the path of a store in it.
pub(crate) fn fresh() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    (folder, path)
}

pub(crate) fn open(path: &Path) -> RedbStore {
    RedbStore::open_blocking(path).unwrap()
}

/// Opens what must be refused.
pub(crate) fn refusal(path: &Path) -> turnkeep_core::Error {
    RedbStore::open_blocking(path).expect_err("this must not open")
}

pub(crate) fn workspace() -> WorkspaceId {
    WorkspaceId::new("w").unwrap()
}

/// A life that no other test or call has.
pub(crate) fn life(id: &str) -> SessionRef {
    static LIVES: AtomicU64 = AtomicU64::new(1);
    let mut bits = [0; 16];
    bits[..8].copy_from_slice(&LIVES.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    SessionRef { id: SessionId::new(id).unwrap(), incarnation: Incarnation::from_bytes(bits) }
}

pub(crate) fn create(session: &SessionRef) -> Op {
    let (id, incarnation) = (session.id.clone(), session.incarnation);
    let (state, profile) = (SessionState::Active, Profile::default());
    Op::CreateSession(NewSession { id, incarnation, state, profile })
}

pub(crate) fn message(text: &str) -> NewEntry {
    let payload = Payload::from_value(&serde_json::json!({ "text": text })).unwrap();
    let mut entry = NewEntry::new(EntryKind::new("message").unwrap(), Timestamp::from_millis(1), payload);
    entry.role = Some(Role::new("user").unwrap());
    entry.text = Some(text.to_owned());
    entry
}

pub(crate) fn append(session: &SessionRef, entries: Vec<NewEntry>) -> Op {
    Op::Append { session: session.clone(), entries }
}

pub(crate) fn commit(store: &RedbStore, ops: impl IntoIterator<Item = Op>) -> Receipt {
    let commit = ops.into_iter().fold(Commit::new(workspace()), Commit::op);
    block_on(store.commit(commit)).unwrap()
}

/// A session with `count` messages, a hundred to a commit.
pub(crate) fn session_of(store: &RedbStore, id: &str, count: usize) -> SessionRef {
    let session = life(id);
    commit(store, [create(&session)]);
    let texts: Vec<String> = (1..=count).map(|n| format!("message {n}")).collect();
    for texts in texts.chunks(100) {
        commit(store, [append(&session, texts.iter().map(|text| message(text)).collect())]);
    }
    session
}

pub(crate) fn texts(store: &RedbStore, session: &SessionRef) -> Vec<String> {
    let mut query = EntryQuery::new(workspace(), session.clone());
    query.limit = 10_000;
    let page = block_on(store.entries(&query)).unwrap();
    page.items.into_iter().filter_map(|entry| entry.text).collect()
}

pub(crate) fn close(store: &RedbStore) {
    block_on(store.close()).unwrap();
}

/// The session with this id, as it is stored.
pub(crate) fn find(store: &RedbStore, id: &str) -> SessionRef {
    let key = SessionKey { workspace: workspace(), id: SessionId::new(id).unwrap() };
    block_on(store.session(&key)).unwrap().unwrap().session_ref()
}

/// This test program again, running only the test of this name, in a role.
pub(crate) fn again(test: &str, role: &str, path: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role).env(PLACE, path);
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    command
}

const ROLE: &str = "TURNKEEP_REDB_TEST_ROLE";
const PLACE: &str = "TURNKEEP_REDB_TEST_PLACE";

/// The role and the path that this process was started with, if it was.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, PathBuf::from(std::env::var_os(PLACE)?)))
}

/// A process that is killed and waited for when dropped.
pub(crate) struct Other(pub(crate) std::process::Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says a line to the process that started this one. The test program may stand in the middle of a line of its own.
pub(crate) fn tell(line: impl std::fmt::Display) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    write!(out, "\n{line}\n").and_then(|()| out.flush()).unwrap();
}
