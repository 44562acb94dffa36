//! Puts a backup in the place of a store, whole or not at all.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, OpenFlags};
use turnkeep_core::local::backup::{self, Restore};
use turnkeep_core::local::{WriteLock, owner, place};
use turnkeep_core::store::VerifyReport;
use turnkeep_core::{Error, ErrorKind, Result};

use super::verify;
use crate::connection;
use crate::error::sql;
use crate::files::Files;
use crate::options::SqliteOptions;
use crate::probe::{self, Found};

/// What every database file begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";

pub(crate) fn restore(options: &SqliteOptions, from: &Path, keep: Option<&Path>) -> Result<()> {
    restore_steps(options, from, keep).map_err(|error| error.with_operation("restore"))
}

fn restore_steps(options: &SqliteOptions, from: &Path, keep: Option<&Path>) -> Result<()> {
    check_source(from)?;
    let files = Files::locate(&options.path)?;
    // Everybody who opens a store that is not in its usual journal waits for this lock: see `shut`.
    let turn = WriteLock::open(&files.write_lock)?;
    if !turn.lock_until(Instant::now() + options.busy_timeout)? || owner::anybody_lives(&files.owners) {
        return Err(busy(&files.db));
    }
    let keep = backup::kept(&files.db, keep)?;
    if keep.is_none() {
        files.check_no_orphan()?;
    }
    let shut = |keep: &Path| match shut(options, &files) {
        Ok(conn) => Ok(Some(conn)),
        Err(error) if error.kind() == ErrorKind::Busy => Err(busy(&files.db)),
        // Too damaged for the engine. Its log would be taken for that of the backup, so it goes first.
        Err(_) => move_log_along(&files, keep).map(|()| None),
    };
    let restore = Restore { files: &options.files, from, to: &files.db, keep, engine: "SQLite" };
    place::tidy(&files.db);
    restore.put(|_, copy| check(copy), shut)
}

/// A backup is one whole file.
fn check_source(from: &Path) -> Result<()> {
    // Not asked of the engine, which knows no difference between another file and a damaged one.
    let mut start = Vec::new();
    let read = backup::open(from)?.take(MAGIC.len() as u64).read_to_end(&mut start);
    read.map_err(|error| Error::io("cannot read the backup", from, error))?;
    if start != MAGIC {
        return Err(backup::none(from, "SQLite"));
    }
    if fs::metadata(place::beside(from, "-wal")).is_ok_and(|log| log.len() > 0) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "the file has a log beside it, so it is a store and no backup, and alone it may lack the newest commits; \
             make a backup of it first",
        )
        .with("path", from.display()));
    }
    Ok(())
}

/// What is damaged in a copy of a store of ours.
fn check(copy: &Path) -> Result<VerifyReport> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(probe::immutable(copy), flags).map_err(sql)?;
    if probe::inspect(&conn, copy)? == Found::Empty {
        return Err(Error::new(ErrorKind::Invalid, "the file holds nothing"));
    }
    verify::verify(&conn)
}

/// Shuts a store: nobody else has it open, and its log is in it. Whoever opens it now finds it without a log, waits for
/// the right to write, and then looks again what is there.
fn shut(options: &SqliteOptions, files: &Files) -> Result<Connection> {
    let conn = connection::open(&files.db, options, true)?;
    conn.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(())).map_err(sql)?;
    let mode: String = conn.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0)).map_err(sql)?;
    if mode.eq_ignore_ascii_case("delete") { Ok(conn) } else { Err(busy(&files.db)) }
}

fn move_log_along(files: &Files, keep: &Path) -> Result<()> {
    for (path, suffix) in [(&files.wal, "-wal"), (&files.journal, "-journal")] {
        match fs::rename(path, place::beside(keep, suffix)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("cannot move the log of the damaged store", path, error)),
        }
    }
    match fs::remove_file(&files.shm) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("cannot remove the index of the log", &files.shm, error))
        }
        _ => Ok(()),
    }
}

fn busy(db: &Path) -> Error {
    Error::new(ErrorKind::Busy, "another process has the store open; end it, and restore then")
        .with("path", db.display())
}
