//! What a host calls: workspaces, sessions, runs and replay, over any turnkeep store.

mod awaitable;
mod base;
pub mod blocking;
mod draft;
mod entropy;
pub mod identity;
mod keeper;
mod lease;
pub mod message;
mod recovery;
pub mod replay;
mod run;
mod runs;
mod session;
mod sessions;
pub mod testing;
pub mod transfer;
mod workspace;

pub use awaitable::BoxFuture;
pub use draft::{
    BranchSummary, Compaction, Directories, Draft, Label, ModeChange, ModelChange, ThinkingLevel, TurnEnd,
    TurnStart, TurnStatus, relation,
};
pub use entropy::{Entropy, SystemEntropy};
pub use identity::{Fate, StateLayout, WorkspaceDir};
pub use lease::{Lease, Leases, LossSignal, named_lease, session_lease};
pub use message::Message;
pub use recovery::{RecoveredRun, RecoveryReport, RunAtWork};
pub use replay::{HistoryItem, Replay, ReplayPolicy};
pub use run::{Admission, BeginRun, Complete, Intent, Run, RunAppend, RunError, TakeUp, WaitingFor};
pub use runs::{ListRuns, Runs, WorkspaceRuns};
pub use session::{Append, Appended, History, Latest, Messages, Session, StoredMessage};
pub use sessions::{CreateSession, DeleteSession, ListSessions, Sessions};
pub use workspace::{Workspace, WorkspaceOptions};
