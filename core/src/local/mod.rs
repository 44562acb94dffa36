//! Shared by backends whose transactions are local: the group committer, the line for the right to write between
//! processes, what tells living owners from dead ones, and random bits.

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
pub mod place;
mod random;
mod readers;
mod write_lock;

pub use aside::aside;
pub use at_hand::{SessionsAtHand, StoredSession};
pub use committer::{CommitterOptions, GroupCommitter, LONGEST_WAIT};
pub use engine::{CommitFailure, Engine};
pub use facts::{FactSource, gather};
pub use files::{FileAct, FileWatch, Files};
pub use handles::Handles;
pub use owner::OwnerLock;
pub use random::{random_bits, random_owner};
pub use readers::Readers;
pub use write_lock::WriteLock;
