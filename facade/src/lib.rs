//! turnkeep keeps what an AI agent and its user said and did: sessions, messages, runs and tool calls. A host can stop
//! at any instruction and know afterwards exactly what was saved.
//!
//! ```
//! # use turnkeep::{Message, Replay, RunError};
//! # async fn call_model(replay: &Replay) -> Result<Message, std::io::Error> {
//! #     Ok(Message::assistant(format!("You said {} thing(s).", replay.messages.len())))
//! # }
//! # // The doc test keeps its state in a folder of its own.
//! # mod turnkeep {
//! #     pub use ::turnkeep::*;
//! #     pub async fn open_workspace(_: &str) -> Result<Workspace> {
//! #         let folder = tempfile::tempdir().unwrap().keep();
//! #         let project = folder.join("project");
//! #         std::fs::create_dir(&project).unwrap();
//! #         OpenOptions::new().state_root(folder.join("state")).open(project).await
//! #     }
//! # }
//! # async fn example() -> turnkeep::Result<()> {
//! let ws = turnkeep::open_workspace(".").await?; // SQLite by default, state outside the workspace
//! let session = ws.sessions().create().title("fix the parser").await?;
//! let run = session.begin_run(Message::user("why does it fail?")).await?; // durable before the model is called
//! match call_model(&session.replay().await?).await {
//!     Ok(reply) => run.complete([reply]).await?, // reply + completed state: one commit
//!     Err(_) => run.fail(RunError::provider("timeout")).await?, // input kept, nothing invented
//! }
//! # let said: Vec<String> = session.history().await?.items.iter().filter_map(|item| item.entry.text.clone()).collect();
//! # assert_eq!(said, ["why does it fail?", "You said 1 thing(s)."]);
//! # assert_eq!(session.info().await?.profile.title.unwrap().text, "fix the parser");
//! # let database = std::path::PathBuf::from(&ws.store().info().location);
//! # ws.close().await?;
//! # assert!(database.is_file());
//! # std::fs::remove_dir_all(database.ancestors().nth(4).unwrap()).unwrap();
//! # Ok(()) }
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! Tool rounds lie in between: `run.append([assistant_with_calls])`, then `run.append([results])`. A run that is dropped
//! unfinished is closed as interrupted; one whose process died is closed when the workspace is opened next.
//!
//! # Features
//! - `sqlite` (default): [`SqliteStore`], one file for several processes, every acknowledged commit synced
//! - `redb`: `RedbStore`, pure Rust, one file, one process at a time
//! - `memory`: `MemoryStore`, for tests
//! - `blocking`: `blocking::Wait`, the same API without a runtime
//! - `testing`: seeded random bits, stores that fail as told, processes that die on demand

mod open;

pub use open::{OpenOptions, open_store, open_workspace};

pub use turnkeep_core as core;
pub use turnkeep_core::model;
pub use turnkeep_core::query;
pub use turnkeep_core::{
    Capabilities, Clock, Cursor, Durability, EntryNo, Error, ErrorKind, Layer, Maintenance, ManualClock,
    Order, Page, Payload, ProjectId, Result, RunId, SessionId, SessionRef, Store, StoreInfo, SystemClock,
    Timestamp, WorkspaceId,
};
pub use turnkeep_sessions::{
    Admission, Append, Appended, BeginRun, BoxFuture, BranchSummary, Claim, ClaimRecord, ClaimState,
    ClaimTool, Claiming, Claims, Compaction, Complete, CreateSession, DeleteSession, Directories, Draft,
    Effect, EndOfTurn, Entropy, Fate, Follow, Following, ForkSession, ForkTitle, Forked, History,
    HistoryItem, Intent, Label, Latest, Lease, Leases, ListClaims, ListRuns, ListSessions, LossSignal,
    Message, Messages, ModeChange, ModelChange, News, Place, Prune, PruneReport, PrunedSession, RecoveredRun,
    RecoveryReport, Replay, ReplayPolicy, Retention, Run, RunAppend, RunAtWork, RunError, Runs, Search,
    Session, Sessions, StateLayout, StoredMessage, SystemEntropy, TakeOver, TakeUp, ThinkingLevel, Turn,
    TurnEnd, TurnStart, TurnStatus, WaitingFor, Workspace, WorkspaceDir, WorkspaceOptions, WorkspaceRuns,
    channel_lease, named_lease, relation, session_lease,
};
pub use turnkeep_sessions::{audit, identity, message, redact, replay, state, transfer};

#[cfg(feature = "blocking")]
pub use turnkeep_sessions::blocking;
/// For tests of a host: clocks and random bits that a test sets, stores that fail as told, processes that die on demand.
///
/// A bot that retries, tested: the answer to its first try is lost after all was stored, it tries again with the id of
/// the message that it was sent, and the words are there once.
///
#[cfg_attr(feature = "memory", doc = "```")]
#[cfg_attr(not(feature = "memory"), doc = "```ignore")]
/// use std::sync::Arc;
/// use turnkeep::testing::{Fault, FaultStore};
/// use turnkeep::{ErrorKind, MemoryStore, Message, Result, Session, WorkspaceId, WorkspaceOptions};
///
/// /// What the host does with a message that came in: it goes on until it knows.
/// async fn keep(session: &Session, id: &str, words: &str) -> Result<()> {
///     loop {
///         match session.append([Message::user(words)]).request_id(id).await {
///             Ok(_) => return Ok(()),
///             Err(error) if error.kind() == ErrorKind::CommitUnknown => {}
///             Err(error) => return Err(error),
///         }
///     }
/// }
///
/// # async fn example() -> Result<()> {
/// let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
/// let ws = WorkspaceOptions::default().open(store.clone(), WorkspaceId::new("w")?).await?;
/// let session = ws.sessions().create().await?;
/// // Applied, and then lost: for longer than the library itself tries.
/// store.next([Fault::After(ErrorKind::CommitUnknown); 6]);
/// keep(&session, "update-4711", "pay the bill").await?;
/// assert_eq!(session.info().await?.messages, 1);
/// assert!(store.log().iter().filter(|noted| noted.done == Some(true)).count() >= 7, "it was asked again and again");
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[cfg(feature = "testing")]
pub use turnkeep_sessions::testing;

#[cfg(feature = "memory")]
pub use turnkeep_memory::{MemoryOptions, MemoryStore};
#[cfg(feature = "redb")]
pub use turnkeep_redb::{RedbOptions, RedbStore};
#[cfg(feature = "sqlite")]
pub use turnkeep_sqlite::{
    SqliteOptions, SqliteReader, SqliteStore, UpgradeProgress, UpgradeStep, close_all,
};

/// Compiles the example of the project's README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
