//! The redb backend of turnkeep: pure Rust, one file, full durability shared by everyone who commits at once.
//!
//! One process at a time has the file; whoever comes second is told `Busy` at once. Where several processes share a
//! store, take the SQLite backend.
//!
//! ```
//! use turnkeep_core::commit::{Commit, NewSession, Op};
//! use turnkeep_core::{Incarnation, SessionId, Store, WorkspaceId};
//! use turnkeep_redb::RedbStore;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("state.redb");
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let store = RedbStore::open(&path).await?;
//! let id = SessionId::new("first")?;
//! let incarnation = Incarnation::from_bytes([7; 16]); // draw random bits here
//! let new = NewSession { id, incarnation, state: Default::default(), profile: Default::default() };
//! let receipt = store.commit(Commit::new(WorkspaceId::new("w")?).op(Op::CreateSession(new))).await?;
//! assert_eq!(receipt.sessions[0].revision, 1); // on the disk, synced
//! store.close().await
//! # }).unwrap();
//! ```
//!
//! The README of this crate describes the file, and why it is as it is.

mod codec;
mod database;
mod error;
mod files;
mod maintenance;
mod medium;
mod migrate;
mod open;
mod options;
mod probe;
mod read;
mod rows;
mod source;
mod store;
mod tables;
mod write;

#[doc(hidden)]
pub use medium::Medium;
pub use options::RedbOptions;
pub use store::RedbStore;
