//! The backends of this project as the conformance suite opens them: each harness says what its backend claims, and
//! how to make, open, count, damage and remove a store of it. The backends' tests and `turnkeep certify` use the same.

#[cfg(feature = "redb")]
mod medium;
#[cfg(feature = "memory")]
mod memory;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(any(feature = "redb", feature = "sqlite"))]
mod folder;
#[cfg(any(feature = "redb", feature = "sqlite"))]
mod golden;

#[cfg(feature = "mutants")]
pub mod mutants;
#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "memory")]
pub use memory::{MemoryHarness, NamedMemoryHarness};
#[cfg(feature = "redb")]
pub use redb::RedbHarness;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteHarness;
