//! Whose a file is, and whether it is whole: looked at before anything is written to it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{DatabaseError, ReadTransaction, ReadableDatabase, TableError, TableHandle};
use turnkeep_core::{Error, ErrorKind, Result};

use crate::error::{self, contained, database};
use crate::medium::{FileMedium, Look, Medium};
use crate::migrate::check_format;
use crate::tables::{self, META};

/// What every file of the engine begins with.
const MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";

/// Files up to this many bytes are checked whole at every opening; it takes a moment. Larger ones are believed, row
/// by row as their check sums hold, until somebody verifies them.
pub(crate) const SMALL_BYTES: u64 = 32 * 1024 * 1024;

/// What a look at a file found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Ours, in the format of this version.
    Ours,
    /// It has to be repaired first, which takes longer than a look should.
    NeedsRepair,
}

/// Looks at a locked file without touching it; at its pages only unless it may be `damaged`.
///
/// # Errors
/// `Invalid` for another program's, `NewerFormat`, `OlderFormat`, `Corrupt`.
pub(crate) fn look(file: &File, path: &Path, damaged: bool) -> Result<Found> {
    let medium =
        FileMedium(file.try_clone().map_err(|error| Error::io("cannot look at the file", path, error))?);
    let mut start = [0; MAGIC.len()];
    match medium.read(0, &mut start) {
        Ok(()) if start == MAGIC => {}
        Ok(()) => return Err(foreign(path)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(foreign(path)),
        Err(error) => return Err(Error::io("cannot read the file of the store", path, error)),
    }
    let small =
        medium.size().map_err(|error| Error::io("cannot look at the file", path, error))? <= SMALL_BYTES;
    let found = contained(|| inspect(Arc::new(medium), small && !damaged));
    found.map_err(|error| error.with("path", path.display()))
}

/// Checks every page of a file, as it would be after a recovery. Nothing is written to it.
pub(crate) fn check_pages(file: &File, path: &Path) -> Result<()> {
    let medium =
        FileMedium(file.try_clone().map_err(|error| Error::io("cannot look at the file", path, error))?);
    contained(|| inspect(Arc::new(medium), true)).map(drop)
}

fn inspect(medium: Arc<dyn Medium>, whole: bool) -> Result<Found> {
    let look = Look::new(medium).map_err(|error| error::storage(error.into()))?;
    let gave_up = Arc::new(AtomicBool::new(false));
    let mut builder = redb::Builder::new();
    builder.set_cache_size(8 * 1024 * 1024).set_check_integrity_on_open(whole);
    if !whole {
        let gave_up = Arc::clone(&gave_up);
        builder.set_repair_callback(move |session| {
            gave_up.store(true, Ordering::Relaxed);
            session.abort();
        });
    }
    let engine = match builder.create_with_backend(look) {
        Ok(engine) => engine,
        Err(DatabaseError::RepairAborted) if gave_up.load(Ordering::Relaxed) => {
            return Ok(Found::NeedsRepair);
        }
        Err(error) => return Err(damaged(database(error))),
    };
    identify(&engine)?;
    Ok(Found::Ours)
}

/// The file has the engine's mark, so whatever else is wrong with it is damage.
fn damaged(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Closed | ErrorKind::Poisoned => {
            Error::new(ErrorKind::Corrupt, "the engine cannot read the file; restore a backup")
                .with_source(error.to_string())
        }
        _ => error,
    }
}

/// Whether a database is a store of ours, in a format that is known, with every table.
pub(crate) fn identify(engine: &redb::Database) -> Result<()> {
    let snapshot = engine.begin_read().map_err(error::transaction)?;
    check_format(format(&snapshot)?)?;
    let names: Vec<String> =
        snapshot.list_tables().map_err(error::storage)?.map(|table| table.name().to_owned()).collect();
    match tables::ALL.iter().find(|table| !names.iter().any(|name| name == table.0)) {
        None => Ok(()),
        Some(missing) => {
            Err(Error::new(ErrorKind::Corrupt, "a table of the store is missing; restore a backup")
                .with("table", missing.0))
        }
    }
}

fn format(snapshot: &ReadTransaction) -> Result<u32> {
    let foreign = || {
        Error::new(
            ErrorKind::Invalid,
            "the file is a redb database of another program; it was not touched: name another file",
        )
    };
    let meta = match snapshot.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::Storage(error)) => return Err(error::storage(error)),
        Err(_) => return Err(foreign()),
    };
    let format = meta.get("format").map_err(error::storage)?.ok_or_else(foreign)?;
    format.value().parse().map_err(|_| foreign())
}

fn foreign(path: &Path) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "the file is no redb database; it was not touched: name another file, or restore a backup if it was one",
    )
    .with("path", path.display())
}
