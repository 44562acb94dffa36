//! Stores and commits for the tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use turnkeep_core::commit::{Commit, NewEntry, NewRun, NewSession, Op};
use turnkeep_core::id::{EntryKind, Role, SessionRef};
use turnkeep_core::model::{Profile, RunState, SessionState};
use turnkeep_core::query::EntryQuery;
use turnkeep_core::{Incarnation, Payload, Receipt, RunId, SessionId, Store, Timestamp, WorkspaceId};
use turnkeep_sqlite::{SqliteOptions, SqliteStore};

/// Runs a test on the runtime that is blocked most easily.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A fresh folder and the path of a database in it.
pub(crate) fn fresh() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.sqlite3");
    (folder, path)
}

pub(crate) fn open(path: &Path) -> SqliteStore {
    SqliteStore::open_blocking(path).unwrap()
}

/// Opens what must be refused, without a long wait.
pub(crate) fn refusal(path: &Path) -> turnkeep_core::Error {
    let options = SqliteOptions::new(path).busy_timeout(std::time::Duration::from_millis(50));
    options.open_blocking().expect_err("this must not open")
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
    create_with(session, SessionState::Active, Profile::default())
}

pub(crate) fn create_with(session: &SessionRef, state: SessionState, profile: Profile) -> Op {
    let (id, incarnation) = (session.id.clone(), session.incarnation);
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

pub(crate) fn start(session: &SessionRef, run: &str) -> Op {
    let run = NewRun::new(RunId::new(run).unwrap(), RunState::Running);
    Op::StartRun { session: session.clone(), run }
}

pub(crate) fn commit(store: &SqliteStore, ops: impl IntoIterator<Item = Op>) -> Receipt {
    let commit = ops.into_iter().fold(Commit::new(workspace()), Commit::op);
    block_on(store.commit(commit)).unwrap()
}

/// A session with `count` messages, a hundred to a commit.
pub(crate) fn session_of(store: &SqliteStore, id: &str, count: usize) -> SessionRef {
    let session = life(id);
    commit(store, [create(&session)]);
    let texts: Vec<String> = (1..=count).map(|n| format!("message {n}")).collect();
    for texts in texts.chunks(100) {
        commit(store, [append(&session, texts.iter().map(|text| message(text)).collect())]);
    }
    session
}

pub(crate) fn texts(store: &SqliteStore, session: &SessionRef) -> Vec<String> {
    let mut query = EntryQuery::new(workspace(), session.clone());
    query.limit = 10_000;
    let page = block_on(store.entries(&query)).unwrap();
    page.items.into_iter().filter_map(|entry| entry.text).collect()
}

pub(crate) fn close(store: &SqliteStore) {
    block_on(store.close()).unwrap();
}

/// This test program again, running only the test of this name, in a role.
pub(crate) fn again(test: &str, role: &str, path: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role).env(PLACE, path);
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    command
}

const ROLE: &str = "TURNKEEP_SQLITE_TEST_ROLE";
const PLACE: &str = "TURNKEEP_SQLITE_TEST_PLACE";

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
