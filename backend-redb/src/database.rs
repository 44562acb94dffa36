//! The engine's database, which ends before its last user does, and steps aside for compaction.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use redb::{ReadTransaction, ReadableDatabase};
use turnkeep_core::{Error, Result};

use crate::error::{compaction, contained, database, transaction};
use crate::files::Locked;
use crate::medium::Syncs;
use crate::options::Media;
use crate::source::Source;

/// The open database of a store. Shared by the writer, the readers and long work.
pub(crate) struct Database {
    /// Read by everybody, so that compaction and the close, which need it alone, wait for reads under way.
    engine: RwLock<Engine>,
    pub(crate) locked: Arc<Locked>,
    /// Whether each commit records what reopening after a kill would else have to find by reading everything.
    pub(crate) quick_repair: bool,
    syncs: Arc<Syncs>,
    open: Box<Open>,
    /// For further files, such as backups.
    pub(crate) media: Media,
}

/// Opens the engine on the locked file.
type Open = dyn Fn() -> Result<redb::Database> + Send + Sync;

#[derive(Debug)]
enum Engine {
    Open(redb::Database),
    /// It met an error of the file and does nothing more; the file is as the last commit left it.
    Broken,
    Closed,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("engine", &self.engine).field("locked", &self.locked).finish()
    }
}

impl Database {
    /// Opens the engine, by `open` also later when it has to be opened again. Its syncs are counted in `syncs`.
    pub(crate) fn open(
        open: Box<Open>,
        locked: Arc<Locked>,
        quick_repair: bool,
        syncs: Arc<Syncs>,
        media: Media,
    ) -> Result<Self> {
        let engine = RwLock::new(Engine::Open(contained(&open)?));
        Ok(Self { engine, locked, quick_repair, syncs, open, media })
    }

    /// How many syncs worked so far, and how many failed.
    pub(crate) fn syncs(&self) -> (u64, u64) {
        self.syncs.count()
    }

    /// Uses the database; `Closed` once it is closed. What a panic could break lies in transactions, not here.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&redb::Database) -> Result<T>) -> Result<T> {
        if matches!(*self.engine.read().unwrap_or_else(PoisonError::into_inner), Engine::Broken) {
            self.revive()?;
        }
        match &*self.engine.read().unwrap_or_else(PoisonError::into_inner) {
            Engine::Open(engine) => work(engine),
            Engine::Broken | Engine::Closed => Err(Error::closed()),
        }
    }

    /// Opens the engine anew after an error of the file. Only when the file is known to be as the last commit left
    /// it. Snapshots of before fail from now on.
    ///
    /// # Errors
    /// What opening answers; the next use tries again.
    pub(crate) fn revive(&self) -> Result<()> {
        let mut engine = self.engine.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*engine, Engine::Closed) {
            return Err(Error::closed());
        }
        // An engine that met an error touches the file no more, nor does its end.
        let broken = std::mem::replace(&mut *engine, Engine::Broken);
        contained(|| {
            drop(broken);
            Ok(())
        })?;
        *engine = Engine::Open(contained(&self.open)?);
        Ok(())
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
        let Engine::Open(engine) = &mut *engine else { return Err(Error::closed()) };
        contained(|| engine.compact().map(drop).map_err(compaction))
    }

    /// Ends the use of the file and gives it back. Harmless when repeated.
    pub(crate) fn close(&self) -> Result<()> {
        let mut engine = self.engine.write().unwrap_or_else(PoisonError::into_inner);
        let ended = match std::mem::replace(&mut *engine, Engine::Closed) {
            Engine::Open(engine) => contained(|| engine.close().map_err(database)),
            Engine::Broken | Engine::Closed => Ok(()),
        };
        drop(engine);
        self.locked.release();
        ended
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
