//! How a store is opened.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use turnkeep_core::limits::{GROUP_COMMITS, Limits};
use turnkeep_core::local::{Files, LONGEST_WAIT, aside};
use turnkeep_core::{Clock, Result, SystemClock};

use crate::RedbStore;
use crate::medium::{FileMedium, Medium};

type MakeMedium = dyn Fn(&Path, File) -> Box<dyn Medium> + Send + Sync;

/// What is between the engine and its files.
#[derive(Clone)]
pub(crate) struct Media {
    pub(crate) files: Files,
    medium: Arc<MakeMedium>,
}

impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Media").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Media {
    /// The medium of an open file.
    pub(crate) fn of(&self, path: &Path, file: File) -> Box<dyn Medium> {
        (self.medium)(path, file)
    }
}
type Progress = dyn Fn(f64) + Send + Sync;

/// How to open a [`RedbStore`].
#[derive(Clone)]
pub struct RedbOptions {
    pub(crate) path: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) busy_timeout: Duration,
    pub(crate) readers: usize,
    pub(crate) limits: Limits,
    pub(crate) group: usize,
    pub(crate) cache_bytes: usize,
    pub(crate) quick_repair: bool,
    pub(crate) progress: Option<Arc<Progress>>,
    pub(crate) media: Media,
    pub(crate) damaged: bool,
}

impl fmt::Debug for RedbOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbOptions")
            .field("path", &self.path)
            .field("readers", &self.readers)
            .field("cache_bytes", &self.cache_bytes)
            .finish_non_exhaustive()
    }
}

impl RedbOptions {
    /// The defaults for a file, which is created when absent.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            clock: Arc::new(SystemClock),
            busy_timeout: Duration::from_secs(5),
            readers: 2,
            limits: Limits::default(),
            group: GROUP_COMMITS,
            cache_bytes: 64 * 1024 * 1024,
            quick_repair: true,
            progress: None,
            media: Media { files: Files::default(), medium: Arc::new(|_, file| Box::new(FileMedium(file))) },
            damaged: false,
        }
    }

    /// Reads the time from here.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How long a commit that names no time itself may wait, and an opening for a store that this very process is just
    /// closing. A store that somebody else has is `Busy` at once.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout.min(LONGEST_WAIT);
        self
    }

    /// How many reads may run at once: 1 to 16, each on its own thread.
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

    /// How many bytes of the file may be held in memory; 64 MiB unless said otherwise.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Told from 0 to 1 how far the repair of a file is that opening has to repair first. Hardly ever called: each
    /// commit records what a reopening after a kill needs, but a compaction that was cut short cannot.
    #[must_use]
    pub fn on_repair(mut self, progress: impl Fn(f64) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Switches the record off that makes reopening after a kill quick. For measurements.
    #[doc(hidden)]
    #[must_use]
    pub fn quick_repair(mut self, quick_repair: bool) -> Self {
        self.quick_repair = quick_repair;
        self
    }

    /// Puts something between the engine and the file. For tests of power losses and failing disks.
    #[doc(hidden)]
    #[must_use]
    pub fn medium(mut self, make: impl Fn(&Path, File) -> Box<dyn Medium> + Send + Sync + 'static) -> Self {
        self.media.medium = Arc::new(make);
        self
    }

    /// Watches what is done to files as such, beside the engine. For tests of power losses.
    #[doc(hidden)]
    #[must_use]
    pub fn files(mut self, files: Files) -> Self {
        self.media.files = files;
        self
    }

    /// Opens a file also when a first look finds it damaged, to read what is left of it. What is damaged still answers
    /// `Corrupt` where it is met. Nothing is written to it: a commit is refused (`ReadOnly`), and what the engine mends
    /// when it opens the file stays in memory.
    #[must_use]
    pub fn damaged(mut self, damaged: bool) -> Self {
        self.damaged = damaged;
        self
    }

    /// Opens or creates the store. The work on files happens on a thread of its own, so any executor may wait here.
    ///
    /// # Errors
    /// `Busy` at once when another process has the store, or another opener of this one; `Invalid` for a path that
    /// can be no store of ours, `Corrupt`, `NewerFormat`, `OlderFormat`, `ReadOnly`, `Full`, `Io`. A file that is
    /// refused is not changed.
    pub async fn open(self) -> Result<RedbStore> {
        aside("open", move || self.open_blocking()).await
    }

    /// Opens or creates the store on this thread.
    ///
    /// # Errors
    /// As [`RedbOptions::open`].
    pub fn open_blocking(self) -> Result<RedbStore> {
        crate::open::open(self)
    }

    /// Puts a backup in the place of this store: a copy of it, verified before it gets the name. A store that is there
    /// is replaced only with `keep`, the name beside it under which it goes on. Cut short anywhere, the place has the
    /// old store or the new one, whole. The work happens on a thread of its own.
    ///
    /// # Errors
    /// `AlreadyExists` when there is a store and no `keep`, or something has that name; `Busy` when somebody has the
    /// store or the backup open; `Corrupt` for a backup that is damaged; `Invalid` for a file that is no backup;
    /// `NewerFormat`, `OlderFormat`, `Full`, `Io`. Nothing is changed on an error.
    pub async fn restore(self, backup: impl AsRef<Path>, keep: Option<&Path>) -> Result<()> {
        let (backup, keep) = (backup.as_ref().to_owned(), keep.map(Path::to_owned));
        aside("restore", move || self.restore_blocking(backup, keep.as_deref())).await
    }

    /// As [`RedbOptions::restore`], on this thread.
    ///
    /// # Errors
    /// As [`RedbOptions::restore`].
    pub fn restore_blocking(self, backup: impl AsRef<Path>, keep: Option<&Path>) -> Result<()> {
        crate::maintenance::restore::restore(&self, backup.as_ref(), keep)
    }
}
