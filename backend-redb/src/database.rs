//! The engine's database, which ends before its last user does, and steps aside for compaction.

use std::sync::{Arc, PoisonError, RwLock};

use redb::{ReadTransaction, ReadableDatabase};
use turnkeep_core::Result;

use crate::error::{closed, compaction, contained, database, transaction};
use crate::files::Locked;
use crate::source::Source;

/// The open database of a store. Shared by the writer, the readers and long work.
#[derive(Debug)]
pub(crate) struct Database {
    /// Read by everybody, so that compaction and the close, which need it alone, wait for reads under way.
    engine: RwLock<Option<redb::Database>>,
    pub(crate) locked: Arc<Locked>,
    /// Whether each commit records what reopening after a kill would else have to find by reading everything.
    pub(crate) quick_repair: bool,
}

impl Database {
    pub(crate) fn new(engine: redb::Database, locked: Arc<Locked>, quick_repair: bool) -> Self {
        Self { engine: RwLock::new(Some(engine)), locked, quick_repair }
    }

    /// Uses the database; `Closed` once it is closed. What a panic could break lies in transactions, not here.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&redb::Database) -> Result<T>) -> Result<T> {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        work(engine.as_ref().ok_or_else(closed)?)
    }

    /// Reads from the newest snapshot.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&dyn Source) -> Result<T>) -> Result<T> {
        self.with(|engine| {
            contained(|| {
                let snapshot = engine.begin_read().map_err(transaction)?;
                read(&snapshot)
            })
        })
    }

    /// A snapshot for long work, which holds up neither compaction nor the close.
    pub(crate) fn snapshot(&self) -> Result<ReadTransaction> {
        self.with(|engine| engine.begin_read().map_err(transaction))
    }

    /// Gives unused space back. Readers wait meanwhile.
    pub(crate) fn compact(&self) -> Result<()> {
        let mut engine = self.engine.write().unwrap_or_else(PoisonError::into_inner);
        let engine = engine.as_mut().ok_or_else(closed)?;
        contained(|| engine.compact().map(drop).map_err(compaction))
    }

    /// Ends the use of the file and gives it back. Harmless when repeated.
    pub(crate) fn close(&self) -> Result<()> {
        let engine = self.engine.write().unwrap_or_else(PoisonError::into_inner).take();
        let ended = match engine {
            Some(engine) => contained(|| engine.close().map_err(database)),
            None => Ok(()),
        };
        self.locked.release();
        ended
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
