//! The SQLite backend of turnkeep: one file, several processes, full durability shared by everyone who commits at once.
//!
//! ```
//! use turnkeep_core::commit::{Commit, NewSession, Op};
//! use turnkeep_core::{Incarnation, SessionId, Store, WorkspaceId};
//! use turnkeep_sqlite::SqliteStore;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("state.sqlite3");
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let store = SqliteStore::open(&path).await?;
//! let id = SessionId::new("first")?;
//! let incarnation = Incarnation::from_bytes([7; 16]); // draw random bits here
//! let new = NewSession { id, incarnation, state: Default::default(), profile: Default::default() };
//! let receipt = store.commit(Commit::new(WorkspaceId::new("w")?).op(Op::CreateSession(new))).await?;
//! assert_eq!(receipt.sessions[0].revision, 1); // on the disk, synced
//! store.close().await
//! # }).unwrap();
//! ```
//!
//! `docs/format.md` describes the tables, for the `sqlite3` shell too.

mod audit;
mod columns;
mod connection;
mod error;
#[cfg(feature = "mutants")]
mod faults;
mod files;
mod maintenance;
mod migrate;
mod open;
mod options;
mod owners;
mod probe;
mod read;
mod schema;
mod statement;
mod store;
mod write;

pub use audit::{SqliteReader, close_all};
pub use migrate::{UpgradeProgress, UpgradeStep};
pub use options::{SqliteOptions, Synchronous};
pub use store::SqliteStore;
