//! What a backend author writes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use turnkeep_core::limits::Limits;
use turnkeep_core::{Capabilities, Clock, Durability, Result, Store};

use crate::disk::{Disk, Image};

/// Where a store is: a path, a DSN, a name. Text, so that another process can open it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Site(String);

impl Site {
    /// Wraps the text of a place.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Site {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(Self::new(text))
    }
}

/// Choices that a backend is free to make, and clauses have to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policies {
    /// `open` honours the clock it is given. Else leases are tested with short real times.
    pub clock: bool,
}

/// What a backend says of itself, before anything is opened. Checked against `StoreInfo` in every clause.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The name of the backend, as `StoreInfo` gives it.
    pub name: &'static str,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What it accepts.
    pub limits: Limits,
    /// What survives what.
    pub durability: Durability,
    /// Choices it made.
    pub policies: Policies,
}

/// How to open a store.
#[derive(Clone, Debug, Default)]
pub struct OpenWith {
    /// The clock that the store reads; `None` means the machine's.
    pub clock: Option<Arc<dyn Clock>>,
}

/// A kind of damage. The harness does it to a closed store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The data loses its last part.
    Truncate,
    /// Bits in the middle of the data are turned over, where the engine keeps structure or checksums: in a place where
    /// damage can be told from other words.
    FlipBits,
    /// The format version says one more than this software knows.
    NewerFormat,
}

/// Rows that a store has in one table, whoever they belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableCount {
    /// The table.
    pub table: String,
    /// Its rows, deleted ones that are not purged yet included.
    pub rows: u64,
}

/// A golden store of some format, ready to be opened.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The format version.
    pub format: u32,
    /// Where a fresh copy of it is.
    pub site: Site,
    /// What [`golden::read`](crate::golden::read) gave of it when it was written, line by line.
    pub lines: Vec<String>,
}

/// All that a backend author writes to be tested.
///
/// A site is provisioned for each clause and destroyed after it. `open` may be called many times for one site, also at
/// the same time and from other processes; each call is one client with an owner id of its own.
#[async_trait]
pub trait Harness: fmt::Debug + Send + Sync + 'static {
    /// What the backend says of itself. Must not open anything.
    fn manifest(&self) -> Manifest;

    /// Makes a fresh place that no store uses yet.
    ///
    /// # Errors
    /// When there is none to be had.
    async fn provision(&self) -> Result<Site>;

    /// Opens the store there, creating it if it is not there yet.
    ///
    /// # Errors
    /// What the backend answers.
    async fn open(&self, site: &Site, with: OpenWith) -> Result<Arc<dyn Store>>;

    /// Removes the place with all that is there. Every handle of this process is closed by then.
    ///
    /// # Errors
    /// When something could not be removed.
    async fn destroy(&self, site: &Site) -> Result<()>;

    /// Optional: counts rows of every table, bypassing the store. `None`: not offered.
    ///
    /// # Errors
    /// When counting failed.
    async fn residue(&self, _site: &Site) -> Result<Option<Vec<TableCount>>> {
        Ok(None)
    }

    /// Optional: damages a closed store. `false`: not offered.
    ///
    /// # Errors
    /// When the damage could not be done.
    async fn damage(&self, _site: &Site, _damage: Damage) -> Result<bool> {
        Ok(false)
    }

    /// Optional: a digest over all bytes of a closed store. `None`: not offered.
    ///
    /// # Errors
    /// When reading failed.
    async fn image(&self, _site: &Site) -> Result<Option<[u8; 32]>> {
        Ok(None)
    }

    /// Optional: opens the store as [`open`](Self::open) does, but so that whatever the engine does to its files goes
    /// through a disk, which notes it and may let it fail. The disk calls the files as [`Names`](crate::disk::Names)
    /// says. Without this and [`lay_out`](Self::lay_out) nothing can be said about power losses. `None`: not offered.
    ///
    /// # Errors
    /// What the backend answers.
    async fn open_on(&self, _site: &Site, _disk: &Disk, _with: OpenWith) -> Result<Option<Arc<dyn Store>>> {
        Ok(None)
    }

    /// Optional: makes a fresh site with the files of an image, where an ordinary open finds them. Best where a sync
    /// costs nothing, for there are many. `None`: not offered.
    ///
    /// # Errors
    /// When the files could not be written.
    async fn lay_out(&self, _image: &Image) -> Result<Option<Site>> {
        Ok(None)
    }

    /// Optional: a fresh copy of a [golden store](crate::golden) of each format that was ever written, today's
    /// included. `None`: not offered.
    ///
    /// # Errors
    /// When they could not be laid out.
    async fn fixtures(&self) -> Result<Option<Vec<Fixture>>> {
        Ok(None)
    }
}
