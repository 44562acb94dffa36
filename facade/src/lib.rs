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
//! - `testing`: seeded random bits and processes that die on demand

mod open;

pub use open::{OpenOptions, open_store, open_workspace};

pub use turnkeep_core as core;
pub use turnkeep_core::model;
pub use turnkeep_core::query;
pub use turnkeep_core::{
    Capabilities, Clock, Cursor, Durability, EntryNo, Error, ErrorKind, Maintenance, ManualClock, Order,
    Page, Payload, Result, RunId, SessionId, SessionRef, Store, StoreInfo, SystemClock, Timestamp,
    WorkspaceId,
};
pub use turnkeep_sessions::{
    Admission, Append, Appended, BeginRun, BoxFuture, BranchSummary, Compaction, Complete, CreateSession,
    DeleteSession, Directories, Draft, EndOfTurn, Entropy, Fate, History, HistoryItem, Intent, Label, Latest,
    Lease, Leases, ListRuns, ListSessions, LossSignal, Message, Messages, ModeChange, ModelChange,
    RecoveredRun, RecoveryReport, Replay, ReplayPolicy, Run, RunAppend, RunAtWork, RunError, Runs, Session,
    Sessions, StateLayout, StoredMessage, SystemEntropy, TakeUp, ThinkingLevel, Turn, TurnEnd, TurnStart,
    TurnStatus, WaitingFor, Workspace, WorkspaceDir, WorkspaceOptions, WorkspaceRuns, named_lease, relation,
    session_lease,
};
pub use turnkeep_sessions::{identity, message, replay, transfer};

#[cfg(feature = "blocking")]
pub use turnkeep_sessions::blocking;
#[cfg(feature = "testing")]
pub use turnkeep_sessions::testing;

#[cfg(feature = "memory")]
pub use turnkeep_memory::{MemoryOptions, MemoryStore};
#[cfg(feature = "redb")]
pub use turnkeep_redb::{RedbOptions, RedbStore};
#[cfg(feature = "sqlite")]
pub use turnkeep_sqlite::{SqliteOptions, SqliteStore};

/// Compiles the example of the project's README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
