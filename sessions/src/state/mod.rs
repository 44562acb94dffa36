//! Small state: what a workspace and its sessions have beside entries and runs.
//!
//! | what | where | who may write it |
//! |---|---|---|
//! | which session an external channel belongs to | [`Workspace::bindings`](crate::Workspace::bindings) | anybody |
//! | projects | [`Workspace::projects`](crate::Workspace::projects) | anybody |
//! | what a session may do, and who changed that | [`Session::capabilities`](crate::Session::capabilities) | anybody |
//! | the tools that a channel offers | [`Session::channel_tools`](crate::Session::channel_tools) | anybody |
//! | what people say to a run at work | [`Session::guidance`](crate::Session::guidance) and its siblings | anybody |
//! | what requests to models consumed | [`Session::usage`](crate::Session::usage) | who holds the session |
//! | where the provider's conversation stands | [`Session::lineage`](crate::Session::lineage) | who holds the session |
//! | what a provider runs, and the items that came of it | [`Session::responses`](crate::Session::responses) | who holds the session |
//!
//! Each is a record with a version, or a stream of events, and each operation is one commit. What anybody may write needs
//! no lease: people write while a run executes.

mod bindings;
mod capabilities;
mod channel_tools;
mod inbox;
mod lineage;
mod projects;
pub(crate) mod records;
mod responses;
mod usage;

pub(crate) use bindings::channel_digest;
pub(crate) use bindings::refuse_if_bound;
pub use bindings::{Binding, Bindings};
pub use capabilities::{CapabilityChange, CapabilityState, SessionCapabilities, SetCapabilities};
pub use channel_tools::{ChannelTool, ChannelToolSet, ChannelTools};
pub use inbox::{Consume, Inbox, ListNotes, Note, NoteStatus, Post};
pub use lineage::{Lineage, LineageState, REPLAY_MODE};
pub use projects::{Project, Projects};
pub(crate) use projects::{forget_deleted, is_there, refuse_unknown};
pub use responses::{ReplayedTurn, ResponseItem, ResponseRun, ResponseStatus, ResponseTurn, Responses};
pub use usage::{ListUsage, ModelRequest, ModelTotal, SessionUsage, UsageRecord};
