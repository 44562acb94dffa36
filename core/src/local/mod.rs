//! Shared by backends whose transactions are local: the group committer, the line for the right to write between
//! processes, the pace of chores, what tells living owners from dead ones, and random bits.

mod aside;
mod at_hand;
pub mod backup;
mod committer;
mod engine;
mod facts;
mod files;
mod handles;
mod job;
pub mod owner;
mod pace;
mod permit;
pub mod place;
mod random;
mod readers;
mod slice;
mod write_lock;

pub use aside::aside;
pub use at_hand::{SessionsAtHand, StoredSession};
pub use committer::{CommitterOptions, GroupCommitter, LONGEST_WAIT};
pub use engine::{CommitFailure, Engine};
pub use facts::{FactSource, gather};
pub use files::{FileAct, FileWatch, Files};
pub use handles::Handles;
pub use owner::OwnerLock;
pub use pace::{Due, Pace};
pub use permit::Permit;
pub use random::{random_bits, random_owner};
pub use readers::Readers;
pub use slice::Slice;
pub use write_lock::WriteLock;
