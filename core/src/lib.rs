//! The contract of turnkeep: what a store keeps, how it is changed, how it is read.
//!
//! Every change is one declarative, conditional [`Commit`]; every read is a typed, bounded query. The
//! rules of a commit are pure functions in [`rules`], the same for every backend; [`local`] is the group committer
//! for engines whose transactions are local.

pub mod commit;
pub mod dice;
pub mod digest;
pub mod error;
pub mod id;
mod layer;
pub mod limits;
pub mod local;
pub mod model;
#[doc(hidden)]
pub mod mutant;
pub mod payload;
pub mod query;
pub mod rules;
pub mod sql;
pub mod store;
pub mod time;

pub use commit::{Commit, Expect, Fence, Guard, Op, Outcome, Receipt};
pub use error::{Error, ErrorKind, ForkReason, Result};
pub use id::{
    EntryNo, Incarnation, LeaseToken, OwnerId, ProjectId, RunId, SessionId, SessionKey, SessionRef,
    WorkspaceId,
};
pub use layer::Layer;
pub use payload::Payload;
pub use query::{Cursor, Order, Page};
pub use store::{Capabilities, Durability, Maintenance, Store, StoreInfo};
pub use time::{Clock, ManualClock, SystemClock, Timestamp};
