//! Opening a store, step by step. Nothing of a database that is not accepted is changed.

use std::fs;
use std::time::Instant;

use rusqlite::Connection;
use turnkeep_core::local::{
    CommitterOptions, GroupCommitter, OwnerLock, Readers, WriteLock, place, random_owner,
};
use turnkeep_core::{Capabilities, Error, ErrorKind, Result, StoreInfo};

use crate::connection::{self, Journal};
use crate::error::{is_wal_impossible, sql};
use crate::files::Files;
use crate::migrate;
use crate::options::SqliteOptions;
use crate::owners::Owners;
use crate::probe::{self, Found};
use crate::schema;
use crate::store::SqliteStore;
use crate::write::Writer;

pub(crate) fn open(options: SqliteOptions) -> Result<SqliteStore> {
    open_steps(options).map_err(|error| error.with_operation("open"))
}

fn open_steps(options: SqliteOptions) -> Result<SqliteStore> {
    let deadline = Instant::now() + options.busy_timeout;
    probe::check_engine(rusqlite::version_number())?;
    let files = Files::locate(&options.path)?;
    let (conn, journal) = accepted(&files, &options, deadline)?;
    // Known only now that the first page was read: the file itself may say that it is not to be written.
    check_writable(&conn, &files)?;
    connection::prepare_writer(&conn, &options)?;
    if !options.damaged {
        probe::check_structure(&conn, &files)?;
    }
    let readers = (0..options.readers)
        .map(|_| connection::open_reader(&files.db, &options))
        .collect::<Result<Vec<_>>>()?;
    let owners = Owners { folder: files.owners.clone(), me: random_owner()? };
    // A file system without file locks leaves owners unknown; their leases then end by expiry.
    let owner_lock = OwnerLock::acquire(&owners.folder, owners.me).ok();
    let info = info(&options, &files, journal, &owners, owner_lock.is_some());
    let turn = WriteLock::open(&files.write_lock)?;
    let writer = Writer::new(conn, &options, owners.clone(), owner_lock, turn)?;
    let mut settings = CommitterOptions::new("turnkeep-write");
    settings.busy = options.busy_timeout;
    settings.group = options.group;
    settings.limits = options.limits.clone();
    settings.write_lock = Some(WriteLock::open(&files.write_lock)?);
    let committer = GroupCommitter::start(writer, settings)?;
    Ok(SqliteStore::new(info, committer, Readers::start(readers)?, files, owners, options))
}

/// A connection to a database that is ours and in a journal that works.
fn accepted(files: &Files, options: &SqliteOptions, deadline: Instant) -> Result<(Connection, Journal)> {
    // Making a store of an empty file would hide that everything is lost.
    if options.damaged && fs::metadata(&files.db).is_ok_and(|found| found.len() == 0) {
        return Err(place::empty(&files.db));
    }
    if !files.is_fresh()? {
        probe::peek(&files.db)?;
        let conn = open_for_writing(files, options)?;
        match probe::inspect(&conn, &files.db) {
            Ok(Found::Ours) if matches!(connection::journal(&conn), Ok(Journal::Wal)) => {
                return Ok((conn, Journal::Wal));
            }
            // A database in the making, a restored backup, or a log that cannot be used here.
            // What is left of a damaged one is read as it lies there: in its journal and its format.
            Ok(Found::Ours | Found::Older(_)) if options.damaged => {
                let journal = connection::journal(&conn).map_err(sql)?;
                return Ok((conn, journal));
            }
            Ok(Found::Empty) if options.damaged => return Err(place::empty(&files.db)),
            Ok(_) => {}
            Err(error) if wal_is_impossible(&error) => {}
            Err(error) => return Err(error),
        }
    }
    in_turn(files, options, deadline)
}

fn wal_is_impossible(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<rusqlite::Error>())
        .is_some_and(is_wal_impossible)
}

/// Makes or completes a database while every other opener waits in line.
fn in_turn(files: &Files, options: &SqliteOptions, deadline: Instant) -> Result<(Connection, Journal)> {
    let turn = WriteLock::open(&files.write_lock)?;
    if !turn.lock_until(deadline)? {
        return Err(Error::new(
            ErrorKind::Busy,
            "another process is making or writing the database and did not finish in time; try again",
        )
        .with("path", files.db.display()));
    }
    // Whoever was first in line may have made it meanwhile.
    if files.is_fresh()? {
        files.check_no_orphan()?;
        files.create(&options.files)?;
    }
    let mut conn = open_for_writing(files, options)?;
    let found = match probe::inspect(&conn, &files.db) {
        Ok(found) => found,
        Err(error) if wal_is_impossible(&error) => {
            connection::use_rollback(&conn)?;
            probe::inspect(&conn, &files.db)?
        }
        Err(error) => return Err(error),
    };
    if found == Found::Empty {
        connection::set_page_size(&conn)?;
    }
    let journal = connection::use_wal(&conn, deadline)?;
    if journal == Journal::Wal {
        match make(&mut conn, found, files, options) {
            Ok(()) => return Ok((conn, Journal::Wal)),
            Err(error) if wal_is_impossible(&error) => {}
            Err(error) => return Err(error),
        }
    }
    connection::use_rollback(&conn)?;
    make(&mut conn, found, files, options)?;
    Ok((conn, Journal::Rollback))
}

/// Writes the tables, or brings them up to date, and then a mark: the proof that commits work in this journal.
fn make(conn: &mut Connection, found: Found, files: &Files, options: &SqliteOptions) -> Result<()> {
    conn.pragma_update(None, "synchronous", "FULL").map_err(sql)?;
    match found {
        Found::Empty => {
            let transaction =
                conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(sql)?;
            schema::create(&transaction)?;
            transaction.commit().map_err(sql)?;
        }
        Found::Older(_) => migrate::upgrade(conn, files, options)?,
        Found::Ours => {}
    }
    connection::probe_write(conn).map_err(sql)
}

fn open_for_writing(files: &Files, options: &SqliteOptions) -> Result<Connection> {
    let conn = connection::open(&files.db, options, true)?;
    // The engine opens for reading alone what it may not write.
    check_writable(&conn, files)?;
    Ok(conn)
}

fn check_writable(conn: &Connection, files: &Files) -> Result<()> {
    if conn.is_readonly(rusqlite::MAIN_DB).map_err(sql)? {
        return Err(Error::new(ErrorKind::ReadOnly, "the database cannot be opened for writing")
            .with("path", files.db.display()));
    }
    Ok(())
}

fn info(
    options: &SqliteOptions,
    files: &Files,
    journal: Journal,
    owners: &Owners,
    liveness: bool,
) -> StoreInfo {
    let durability = options.synchronous.durability();
    let mut info = StoreInfo::new("sqlite", env!("CARGO_PKG_VERSION"), durability, owners.me);
    let journal = match journal {
        Journal::Wal => "write-ahead log",
        Journal::Rollback => {
            "rollback journal, because this file system refuses a write-ahead log: a local disk is faster"
        }
    };
    let (version, sync) = (rusqlite::version(), options.synchronous.pragma());
    info.engine = format!("SQLite {version}, {journal}, synchronous={sync}");
    info.location = files.db.display().to_string();
    info.format = schema::FORMAT.unsigned_abs();
    info.limits = options.limits.clone();
    let mut capabilities = Capabilities::NONE;
    capabilities.search = true;
    capabilities.multi_process = true;
    capabilities.persistent = true;
    capabilities.owner_liveness = liveness;
    capabilities.backup = true;
    capabilities.compact = true;
    info.capabilities = capabilities;
    info
}
