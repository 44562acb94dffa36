//! The engine's database, which ends before its last user does, and steps aside for compaction.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use redb::{ReadTransaction, ReadableDatabase, StorageError, TransactionError, WriteTransaction};
use turnkeep_core::local::Permit;
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
    pub(crate) syncs: Arc<Syncs>,
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

    /// Uses the database; `Closed` once it is closed, `Corrupt` where the engine panics. What a panic could break lies in
    /// transactions, not here.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&redb::Database) -> Result<T>) -> Result<T> {
        let is_broken = |engine: &Engine| matches!(engine, Engine::Broken);
        if is_broken(&self.engine.read().unwrap_or_else(PoisonError::into_inner)) {
            self.open_anew(is_broken)?;
        }
        match &*self.engine.read().unwrap_or_else(PoisonError::into_inner) {
            Engine::Open(engine) => contained(|| work(engine)),
            Engine::Broken | Engine::Closed => Err(Error::closed()),
        }
    }

    /// Whether anything may be written. Not any more once a sync failed, or a commit in a way that leaves its outcome
    /// open.
    pub(crate) fn permit(&self) -> &Permit {
        &self.syncs.permit
    }

    /// Begins to write. An engine that met an error of the file, perhaps while somebody read, does nothing more: it is
    /// opened anew. Only for the writer, and while no transaction of its is open.
    ///
    /// # Errors
    /// What the engine answers, or its opening.
    pub(crate) fn begin_write(&self) -> Result<WriteTransaction> {
        let begin = || self.with(|engine| Ok(engine.begin_write()));
        let begun = match begin()? {
            Err(TransactionError::Storage(StorageError::PreviousIo)) => {
                self.open_anew(|engine| matches!(engine, Engine::Open(_)))?;
                begin()?
            }
            begun => begun,
        };
        begun.map_err(transaction)
    }

    /// Opens the engine anew, if it is `still` what the caller saw. Snapshots of before fail from now on.
    ///
    /// # Errors
    /// What opening answers; the next use tries again. `Poisoned` for good where nothing may be written any more: what
    /// the engine would read then may be lost with the power.
    fn open_anew(&self, still: impl Fn(&Engine) -> bool) -> Result<()> {
        let mut engine = self.engine.write().unwrap_or_else(PoisonError::into_inner);
        if !still(&engine) {
            return Ok(());
        }
        self.permit().check()?;
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
            let snapshot = engine.begin_read().map_err(transaction)?;
            read(&snapshot)
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
