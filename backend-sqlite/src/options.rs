//! How a store is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use turnkeep_core::limits::{GROUP_COMMITS, Limits};
use turnkeep_core::local::{Files, LONGEST_WAIT, aside};
use turnkeep_core::{Clock, Durability, Result, SystemClock};

use crate::SqliteStore;
use crate::migrate::{Reporter, UpgradeProgress};

/// When the engine waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// At every commit: D3, an acknowledged commit survives a power loss.
    #[default]
    Full,
    /// At checkpoints only: D2, a power loss takes the newest commits.
    Normal,
    /// Never: D1, a power loss may damage the database.
    Off,
}

impl Synchronous {
    pub(crate) const fn pragma(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
            Self::Off => "OFF",
        }
    }

    pub(crate) const fn durability(self) -> Durability {
        match self {
            Self::Full => Durability::D3,
            Self::Normal => Durability::D2,
            Self::Off => Durability::D1,
        }
    }
}

/// How to open a [`SqliteStore`].
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub(crate) path: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) busy_timeout: Duration,
    pub(crate) readers: usize,
    pub(crate) synchronous: Synchronous,
    pub(crate) limits: Limits,
    pub(crate) group: usize,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) vfs: Option<String>,
    pub(crate) files: Files,
    pub(crate) damaged: bool,
    pub(crate) search_index: bool,
    pub(crate) reporter: Reporter,
}

impl SqliteOptions {
    /// The defaults for a database file, which is created when absent.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            clock: Arc::new(SystemClock),
            busy_timeout: Duration::from_secs(5),
            readers: 2,
            synchronous: Synchronous::Full,
            limits: Limits::default(),
            group: GROUP_COMMITS,
            max_bytes: None,
            vfs: None,
            files: Files::default(),
            damaged: false,
            search_index: true,
            reporter: Reporter::default(),
        }
    }

    /// Reads the time from here. Every process on one file should have the same time.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How long to wait for others before `Busy`: at opening, and in a commit that names no time itself. A day at most.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout.min(LONGEST_WAIT);
        self
    }

    /// How many reads may run at once: 1 to 16, each on its own thread and connection.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers.clamp(1, 16);
        self
    }

    /// Accepts less than the contract allows.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How many commits may share one durable engine commit, at least 1. For measurements; the default serves best.
    #[must_use]
    pub fn group(mut self, commits: usize) -> Self {
        self.group = commits.max(1);
        self
    }

    /// Answers `Full` rather than let the database file grow beyond this many bytes (rounded down to pages).
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Whether this handle keeps the index for searches up, while nobody commits. Without it searches give the same
    /// answers and read all that is not indexed; another handle that indexes catches up.
    #[must_use]
    pub fn search_index(mut self, index: bool) -> Self {
        self.search_index = index;
        self
    }

    /// Told how far the upgrade of a store is that has an older format. Opening upgrades by itself, after a backup
    /// beside the database; nothing is reported where there is nothing to upgrade.
    #[must_use]
    pub fn on_upgrade(mut self, report: impl Fn(&UpgradeProgress) + Send + Sync + 'static) -> Self {
        self.reporter = Reporter::new(report);
        self
    }

    /// Trades durability for speed. `StoreInfo::durability` says what is left of it.
    #[doc(hidden)]
    #[must_use]
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Uses another of the engine's file layers, by name. For tests of file systems that lack something.
    #[doc(hidden)]
    #[must_use]
    pub fn vfs(mut self, name: impl Into<String>) -> Self {
        self.vfs = Some(name.into());
        self
    }

    /// Watches what is done to files as such, beside the engine. For tests of power losses.
    #[doc(hidden)]
    #[must_use]
    pub fn files(mut self, files: Files) -> Self {
        self.files = files;
        self
    }

    /// Opens a database also when a first look finds it damaged, or cut off, to read what is left of it. What is damaged
    /// still answers `Corrupt` where it is met. Nothing is written to it: a commit is refused (`ReadOnly`), an older
    /// format is not upgraded, and what is in the log stays there.
    #[must_use]
    pub fn damaged(mut self, damaged: bool) -> Self {
        self.damaged = damaged;
        self
    }

    /// Opens or creates the store. The work on files happens on a thread of its own, so any executor may wait here.
    ///
    /// # Errors
    /// `Invalid` for a path that can be no database of ours, `Corrupt`, `NewerFormat`, `OlderFormat`, `ReadOnly`,
    /// `Busy` when others hold it for longer than the timeout, `Full`, `Io`. Nothing is changed on an error; one that
    /// an upgrade met names the backup that was made.
    pub async fn open(self) -> Result<SqliteStore> {
        aside("open", move || self.open_blocking()).await
    }

    /// Opens or creates the store on this thread.
    ///
    /// # Errors
    /// As [`SqliteOptions::open`].
    pub fn open_blocking(self) -> Result<SqliteStore> {
        crate::open::open(self)
    }

    /// Puts a backup in the place of this store: a copy of it, verified before it gets the name. A store that is there
    /// is replaced only with `keep`, the name beside it under which it goes on. Cut short anywhere, the place has the
    /// old store or the new one, whole. The work happens on a thread of its own.
    ///
    /// # Errors
    /// `AlreadyExists` when there is a store and no `keep`, or something has that name; `Busy` when another process has
    /// the store open; `Corrupt` for a backup that is damaged; `Invalid` for a file that is no backup; `NewerFormat`,
    /// `OlderFormat`, `Full`, `Io`. Nothing is changed on an error.
    pub async fn restore(self, backup: impl AsRef<Path>, keep: Option<&Path>) -> Result<()> {
        let (backup, keep) = (backup.as_ref().to_owned(), keep.map(Path::to_owned));
        aside("restore", move || self.restore_blocking(backup, keep.as_deref())).await
    }

    /// As [`SqliteOptions::restore`], on this thread.
    ///
    /// # Errors
    /// As [`SqliteOptions::restore`].
    pub fn restore_blocking(self, backup: impl AsRef<Path>, keep: Option<&Path>) -> Result<()> {
        crate::maintenance::restore::restore(&self, backup.as_ref(), keep)
    }
}
