//! What a host calls: workspaces, sessions, runs and replay, over any turnkeep store.
//!
//! ```
//! use std::sync::Arc;
//! use turnkeep_core::{Result, WorkspaceId};
//! use turnkeep_memory::MemoryStore;
//! use turnkeep_sessions::{Message, Workspace};
//!
//! # async fn example() -> Result<()> {
//! let ws = Workspace::open(Arc::new(MemoryStore::new()), WorkspaceId::new("demo")?).await?;
//! let session = ws.sessions().create().title("fix the parser").await?;
//! let run = session.begin_run(Message::user("why does it fail?")).await?; // durable before the model is called
//! let shown = session.replay().await?; // what the model may see
//! assert_eq!(shown.messages.len(), 1);
//! run.complete([Message::assistant("A comma is missing.")]).await?; // answer and verdict: one commit
//! assert_eq!(session.messages().latest(1).await?.items[0].message.text(), "A comma is missing.");
//! # Ok(()) }
//! # turnkeep_sessions::blocking::block_on(example()).unwrap();
//! ```
//!
//! Where to look: a [`Workspace`] has [`Sessions`], a [`Session`] takes [`Draft`]s and begins [`Run`]s, a run is fenced
//! by a [`Lease`] that is renewed in the background, [`replay`] says what a model is shown, [`identity`] says which
//! workspace a directory is, [`state`] is what a session has beside its conversation, and [`blocking`] is the same without a runtime. What dead processes leave behind is closed
//! when a workspace is opened; see [`RecoveryReport`].

pub mod audit;
mod awaitable;
mod base;
pub mod blocking;
mod claims;
mod draft;
mod entropy;
mod follow;
mod fork;
pub mod identity;
mod keeper;
mod lease;
pub mod message;
mod paged;
mod recovery;
pub mod redact;
pub mod replay;
mod retention;
mod run;
mod runs;
mod search;
mod session;
mod sessions;
pub mod state;
pub mod testing;
pub mod transfer;
mod workspace;

pub use awaitable::BoxFuture;
pub use claims::{Claim, ClaimRecord, ClaimState, ClaimTool, Claiming, Claims, Effect, ListClaims};
pub use draft::{
    BranchSummary, Compaction, Directories, Draft, Label, ModeChange, ModelChange, ThinkingLevel, TurnEnd,
    TurnStart, TurnStatus, relation,
};
pub use entropy::{Entropy, SystemEntropy};
pub use follow::{Follow, Following, News, Place};
pub use fork::{ForkSession, ForkTitle, Forked};
pub use identity::{Fate, StateLayout, WorkspaceDir};
pub use lease::{Lease, Leases, LossSignal, channel_lease, named_lease, session_lease};
pub use message::Message;
pub use recovery::{RecoveredRun, RecoveryReport, RunAtWork, TakeOver};
pub use replay::{HistoryItem, Replay, ReplayPolicy};
pub use retention::{Prune, PruneReport, PrunedSession, Retention};
pub use run::{Admission, BeginRun, Complete, Intent, Run, RunAppend, RunError, TakeUp, WaitingFor};
pub use runs::{ListRuns, Runs, WorkspaceRuns};
pub use search::Search;
pub use session::{Append, Appended, EndOfTurn, History, Latest, Messages, Session, StoredMessage, Turn};
pub use sessions::{CreateSession, DeleteSession, ListSessions, Sessions};
pub use workspace::{Workspace, WorkspaceOptions};
