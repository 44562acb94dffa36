//! Puts a backup in the place of a store, whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::{Connection, OpenFlags};
use turnkeep_core::local::{WriteLock, owner};
use turnkeep_core::{Error, ErrorKind, Result};

use super::{backup, verify};
use crate::connection;
use crate::error::{io, sql};
use crate::files::Files;
use crate::options::SqliteOptions;
use crate::probe::{self, Found};

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
    let there = fs::symlink_metadata(&files.db).is_ok();
    match keep {
        None if there => return Err(taken(&files.db)),
        _ if !there => files.check_no_orphan()?,
        _ => {}
    }
    let (Some(folder), Some(name)) = (files.db.parent(), files.db.file_name()) else {
        return Err(Error::new(ErrorKind::Invalid, "the path of the store names no file"));
    };
    let unfinished = folder.join(backup::unfinished(name)?);
    let done = put(options, &files, from, &unfinished, keep.filter(|_| there));
    if done.is_err() {
        // Best effort: the error that is answered says more than this one would.
        let _ = options.files.remove(&unfinished);
    }
    done
}

fn put(
    options: &SqliteOptions,
    files: &Files,
    from: &Path,
    unfinished: &Path,
    keep: Option<&Path>,
) -> Result<()> {
    let copied = options.files.copy(from, unfinished);
    copied.map_err(|error| io("copy the backup", from, error))?;
    // The copy is what is looked at: nobody changes that one.
    check(unfinished).map_err(|error| match error.kind() {
        ErrorKind::Invalid => no_backup(from),
        _ => error.with("backup", from.display()),
    })?;
    let Some(keep) = keep else {
        let published = options.files.publish(unfinished, &files.db);
        let published = published.map_err(|error| io("name the store", &files.db, error))?;
        return if published { Ok(()) } else { Err(taken(&files.db)) };
    };
    if fs::symlink_metadata(keep).is_ok() {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            "something has the name already under which the store was to be kept; nothing was changed",
        )
        .with("path", keep.display()));
    }
    // Held until the store has been replaced.
    let _shut = match shut(options, files) {
        Ok(conn) => Some(conn),
        Err(error) if error.kind() == ErrorKind::Busy => return Err(busy(&files.db)),
        // Too damaged for the engine. Its log would be taken for that of the backup, so it goes first.
        Err(_) => {
            move_log_along(files, keep)?;
            None
        }
    };
    options
        .files
        .replace(unfinished, &files.db, keep)
        .map_err(|error| io("put the backup in the place of the store", &files.db, error))
}

/// A backup is one whole file.
fn check_source(from: &Path) -> Result<()> {
    let found = fs::metadata(from).map_err(|error| io("read the backup", from, error))?;
    if !found.is_file() {
        return Err(
            Error::new(ErrorKind::Invalid, "the backup is no ordinary file").with("path", from.display())
        );
    }
    let mut log = from.as_os_str().to_owned();
    log.push("-wal");
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "the file has a log beside it, so it is a store and no backup, and alone it may lack the newest commits; \
             make a backup of it first",
        )
        .with("path", from.display()));
    }
    Ok(())
}

/// Whether a copy is a whole store of ours.
fn check(copy: &Path) -> Result<()> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(probe::immutable(copy), flags).map_err(sql)?;
    if probe::inspect(&conn, copy)? == Found::Empty {
        return Err(no_backup(copy));
    }
    match verify::verify(&conn)?.damage.into_iter().next() {
        None => Ok(()),
        Some(damage) => {
            let message =
                "the backup is damaged, and nothing was changed; restore another, or repair this one";
            Err(Error::new(ErrorKind::Corrupt, message).with("place", damage.place).with("what", damage.what))
        }
    }
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
        let mut to = keep.as_os_str().to_owned();
        to.push(suffix);
        let to = PathBuf::from(to);
        match fs::rename(path, &to) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(io("move the log of the damaged store", path, error)),
        }
    }
    match fs::remove_file(&files.shm) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io("remove the index of the log", &files.shm, error))
        }
        _ => Ok(()),
    }
}

fn no_backup(from: &Path) -> Error {
    Error::new(ErrorKind::Invalid, "the file is no backup of a SQLite store; nothing was changed")
        .with("backup", from.display())
}

fn busy(db: &Path) -> Error {
    Error::new(ErrorKind::Busy, "another process has the store open; end it, and restore then")
        .with("path", db.display())
}

fn taken(db: &Path) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        "there is a store already, and it was not touched; say under which name it is to be kept",
    )
    .with("path", db.display())
}
