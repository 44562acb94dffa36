//! How a store is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use turnkeep_core::local::aside;
use turnkeep_core::{Clock, Result, SystemClock};

use crate::ToyStore;
use crate::medium::{FileSystem, Medium};

/// How to open a [`ToyStore`].
#[derive(Clone, Debug)]
pub struct ToyOptions {
    pub(crate) path: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) patience: Duration,
    pub(crate) medium: Arc<dyn Medium>,
}

impl ToyOptions {
    /// The defaults for a log file, which is made when it is absent.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        let (path, clock) = (path.as_ref().to_owned(), Arc::new(SystemClock));
        Self { path, clock, patience: Duration::from_millis(500), medium: Arc::new(FileSystem) }
    }

    /// Reads the time from here.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How long opening waits for whoever has the store, half a second unless said otherwise: a handle that was
    /// dropped gives it back a moment later.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Puts something between the store and its files. For tests of power losses and failing disks.
    #[must_use]
    pub fn medium(mut self, medium: Arc<dyn Medium>) -> Self {
        self.medium = medium;
        self
    }

    /// Opens or makes the store, on a thread of its own, so that any executor may wait here.
    ///
    /// # Errors
    /// `Busy` when somebody has it, `NewerFormat`, `Corrupt`, `Invalid`, `Io`. What is refused is not changed.
    pub async fn open(self) -> Result<ToyStore> {
        // Should nobody be waiting any more, the store is closed again by its drop.
        aside("open", move || self.open_blocking()).await
    }

    /// Opens or makes the store on this thread.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_blocking(self) -> Result<ToyStore> {
        crate::open::open(self).map_err(|error| error.with_operation("open"))
    }
}
