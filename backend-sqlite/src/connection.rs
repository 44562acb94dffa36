//! Connections and their settings.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use turnkeep_core::{Error, ErrorKind, Result};

use crate::error::{is_wal_impossible, kind, sql};
use crate::options::SqliteOptions;
use crate::schema::PAGE_SIZE;

/// Statements that a connection keeps prepared.
const STATEMENTS: usize = 256;

/// Bytes to which the log is cut when it begins anew.
const LOG_BYTES: i64 = 64 * 1024 * 1024;

/// How commits are kept apart from the database until they are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Journal {
    /// A write-ahead log: readers and the writer do not disturb each other.
    Wal,
    /// A rollback journal, where the file system cannot share memory.
    Rollback,
}

/// Opens a connection, waits for others from its first statement on, and leaves the log alone when it is closed again
/// before it was accepted.
pub(crate) fn open(path: &Path, options: &SqliteOptions, write: bool) -> Result<Connection> {
    let access = if write { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = match &options.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str()),
        None => Connection::open_with_flags(path, flags),
    };
    let conn = opened.map_err(|error| sql(error).with("path", path.display()))?;
    conn.busy_timeout(options.busy_timeout).map_err(sql)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(sql)?;
    if options.damaged {
        // Otherwise nothing is read of a file that lost its end.
        conn.pragma_update(None, "writable_schema", true).map_err(sql)?;
    }
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(conn)
}

/// Settings of every connection: nothing in the file may call or change what it should not.
fn harden(conn: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    // It would take back what `open` allows for a damaged file, of which no connection may write anything.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, !options.damaged)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
    // Otherwise a statement is prepared anew whenever a value is bound that a partial index might be about.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "mmap_size", 0)?;
    // Sorting spills into memory and not into files that others might read.
    conn.pragma_update(None, "temp_store", "MEMORY")
}

/// Prepares an accepted connection for writing.
pub(crate) fn prepare_writer(conn: &Connection, options: &SqliteOptions) -> Result<()> {
    let prepare = || -> rusqlite::Result<()> {
        harden(conn, options)?;
        if options.damaged {
            // Nothing of it is changed, and its log stays what it is.
            return conn.pragma_update(None, "query_only", true);
        }
        conn.pragma_update(None, "synchronous", options.synchronous.pragma())?;
        conn.pragma_update(None, "cache_size", -32_000)?;
        conn.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))?;
        // The writer checkpoints by itself, after it has answered.
        conn.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
        if let Some(bytes) = options.max_bytes {
            let page: i64 = conn.query_row("PRAGMA page_size", [], |row| row.get(0))?;
            let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page.max(1);
            conn.pragma_update_and_check(None, "max_page_count", pages.max(1), |_| Ok(()))?;
        }
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        Ok(())
    };
    prepare().map_err(sql)
}

/// Opens and prepares a connection for reading.
pub(crate) fn open_reader(path: &Path, options: &SqliteOptions) -> Result<Connection> {
    let conn = open(path, options, false)?;
    let prepare = || -> rusqlite::Result<()> {
        harden(&conn, options)?;
        conn.pragma_update(None, "cache_size", -16_000)?;
        conn.pragma_update(None, "query_only", true)?;
        // The first statement reads the tables, so that an unreadable store is found now.
        conn.query_row("SELECT count(*) FROM meta", [], |_| Ok(()))
    };
    prepare().map_err(sql)?;
    Ok(conn)
}

/// The journal a database is in now.
pub(crate) fn journal(conn: &Connection) -> rusqlite::Result<Journal> {
    let mode: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    Ok(if mode.eq_ignore_ascii_case("wal") { Journal::Wal } else { Journal::Rollback })
}

/// Puts an empty database on our page size. Has no effect once anything is in it.
pub(crate) fn set_page_size(conn: &Connection) -> Result<()> {
    conn.pragma_update(None, "page_size", PAGE_SIZE).map_err(sql)
}

/// Turns write-ahead logging on, where it is possible. The engine does not wait for others here, so this does.
///
/// # Errors
/// `Busy` at the deadline.
pub(crate) fn use_wal(conn: &Connection, deadline: Instant) -> Result<Journal> {
    loop {
        let mode: rusqlite::Result<String> =
            conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(Journal::Wal),
            Ok(_) => return Ok(Journal::Rollback),
            Err(error) if is_wal_impossible(&error) => return Ok(Journal::Rollback),
            Err(error) if kind(&error) == ErrorKind::Busy && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(sql(error)),
        }
    }
}

/// Falls back to a rollback journal. A database that has a log is emptied of it with the database to ourselves, for
/// that needs no shared memory.
///
/// # Errors
/// What the engine answers; `Busy` when another process has the database open.
pub(crate) fn use_rollback(conn: &Connection) -> Result<()> {
    let set = |value: &str| conn.pragma_update_and_check(None, "locking_mode", value, |_| Ok(()));
    let fall_back = || -> rusqlite::Result<String> {
        let has_log = !matches!(journal(conn), Ok(Journal::Rollback));
        if has_log {
            set("EXCLUSIVE")?;
        }
        let mode = conn.query_row("PRAGMA journal_mode = PERSIST", [], |row| row.get(0))?;
        if has_log {
            set("NORMAL")?;
            // The lock is given back with the next read.
            conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        }
        Ok(mode)
    };
    let mode = fall_back().map_err(sql)?;
    if mode.eq_ignore_ascii_case("persist") {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Io, "this file system allows neither a write-ahead log nor a rollback journal; keep the store on a local disk, under \
         another path or state home")
        .with("journal_mode", mode))
}

/// Proves that a commit can be made: some file systems agree to a log and then fail the first write.
///
/// # Errors
/// The engine's own, so that the caller can tell an impossible log from a full disk.
pub(crate) fn probe_write(conn: &Connection) -> rusqlite::Result<()> {
    const PROBE: &str = "INSERT INTO meta (name, value) VALUES ('journal', ?1)
         ON CONFLICT DO UPDATE SET value = excluded.value";
    let mode: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    conn.execute(PROBE, [mode]).map(drop)
}
