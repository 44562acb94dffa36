//! Shared by backends whose transactions are local: the group committer, the line for the right to write between
//! processes, and the locks that tell living owners from dead ones.

mod committer;
mod engine;
mod facts;
mod job;
pub mod owner;
mod readers;
mod write_lock;

pub use committer::{CommitterOptions, GroupCommitter};
pub use engine::{CommitFailure, Engine};
pub use facts::{FactSource, gather};
pub use owner::OwnerLock;
pub use readers::Readers;
pub use write_lock::WriteLock;
