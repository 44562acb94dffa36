//! Whose a database file is, and whether it is whole.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use turnkeep_core::{Error, ErrorKind, Result};

use crate::error::sql;
use crate::files::Files;
use crate::migrate::{check_format, identity};
use crate::schema::{self, APPLICATION_ID, FORMAT};

/// The oldest engine without the fault that could damage a database when its log was begun anew.
pub(crate) const OLDEST_ENGINE: i32 = 3_051_003;

/// Refuses an engine with a known fault.
pub(crate) fn check_engine(version: i32) -> Result<()> {
    if version >= OLDEST_ENGINE {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        "this program is linked with a SQLite before 3.51.3, which can damage a database; build it with the bundled one",
    )
    .with("version", version))
}

/// Looks at the marks in the header without touching anything: no lock, no log, no recovery.
///
/// Only a clear "not ours" counts. Whatever else looks wrong may be a moment of another process at work, and is
/// looked at again with locks.
///
/// The engine has to do this reading: a file that this process opens and closes by itself would drop the locks that
/// other connections of the process hold on it.
pub(crate) fn peek(path: &Path) -> Result<()> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let Ok(conn) = Connection::open_with_flags(immutable(path), flags) else { return Ok(()) };
    let Ok((id, format)) = identity(&conn) else { return Ok(()) };
    if id == APPLICATION_ID {
        // An older or missing format may be a database in the making, or one whose log has more.
        return if format > FORMAT { check_format(format) } else { Ok(()) };
    }
    if id != 0 { Err(foreign(path, id)) } else { Ok(()) }
}

/// A name that makes the engine read the file as it lies there.
pub(crate) fn immutable(path: &Path) -> String {
    use std::fmt::Write as _;
    let bytes = path.as_os_str().as_encoded_bytes();
    let mut name = String::with_capacity(bytes.len() + 32);
    name.push_str("file:");
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                name.push(char::from(*byte))
            }
            _ => {
                let _ = write!(name, "%{byte:02X}");
            }
        }
    }
    name.push_str("?immutable=1&mode=ro");
    name
}

fn foreign(path: &Path, id: i32) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "the database belongs to another program; it was not touched: name another file",
    )
    .with("path", path.display())
    .with("application_id", id)
}

/// What a database is, as a transaction sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing is in it yet.
    Empty,
    /// Ours, in the format of this version.
    Ours,
    /// Ours, in an older format that can be upgraded.
    Older(i32),
}

/// Looks at a database under its locks, log included.
///
/// # Errors
/// `Invalid` for another program's, `NewerFormat`, `OlderFormat` for one that nobody knows, `Corrupt`.
pub(crate) fn inspect(conn: &Connection, path: &Path) -> Result<Found> {
    conn.execute_batch("BEGIN").map_err(|error| unreadable(error, path))?;
    let found = inspect_within(conn, path);
    if !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK").map_err(sql)?;
    }
    found
}

/// As [`inspect`], in a transaction that is open.
pub(crate) fn inspect_within(conn: &Connection, path: &Path) -> Result<Found> {
    let (id, format) = identity(conn).map_err(|error| unreadable(error, path))?;
    if id == APPLICATION_ID {
        let at = |error: Error| error.with("path", path.display());
        let older = (1..FORMAT).contains(&format);
        if !older {
            check_format(format).map_err(at)?;
        }
        schema::check(conn, format.min(FORMAT)).map_err(at)?;
        return Ok(if older { Found::Older(format) } else { Found::Ours });
    }
    let objects: i64 = conn
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| unreadable(error, path))?;
    if id != 0 || format != 0 || objects > 0 { Err(foreign(path, id)) } else { Ok(Found::Empty) }
}

fn unreadable(error: rusqlite::Error, path: &Path) -> Error {
    let ours = sql(error);
    let ours = if ours.kind() == ErrorKind::Corrupt {
        let message = "the file is damaged, or is no database at all; it was not touched: restore a backup, or name \
                       another file";
        let again = Error::new(ErrorKind::Corrupt, message);
        again.with_source(ours)
    } else {
        ours
    };
    ours.with("path", path.display())
}

/// Cheap looks at the structure: the length of the file and the edge of each table. A page that is damaged deeper
/// inside answers `Corrupt` where it is met, and everything else stays readable; `verify` looks at every page.
///
/// # Errors
/// `Corrupt`, with the first thing found.
pub(crate) fn check_structure(conn: &Connection, files: &Files) -> Result<()> {
    let path = &files.db;
    check_length(conn, files)?;
    for edge in [
        "SELECT max(rid) FROM entries",
        "SELECT max(skey) FROM sessions",
        "SELECT max(rkey) FROM runs",
        "SELECT max(ekey) FROM events",
        "SELECT max(reckey) FROM records",
        "SELECT max(skey) FROM requests",
        "SELECT max(skey) FROM segments",
        "SELECT max(skey) FROM leases",
    ] {
        conn.query_row(edge, [], |_| Ok(())).map_err(|error| unreadable(error, path))?;
    }
    Ok(())
}

/// A file ends with a whole page. The engine would read a cut one with zeros at its end.
fn check_length(conn: &Connection, files: &Files) -> Result<()> {
    let page: i64 = conn.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(sql)?;
    let length = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    // A page that another process moves out of the log grows in steps, so a cut is looked at more than once. What a
    // log still holds may be cut in the file: it is written anew from there.
    for _ in 0..20 {
        if length(&files.db) % page.unsigned_abs().max(1) == 0
            || length(&files.wal) + length(&files.journal) > 0
        {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Err(Error::new(
        ErrorKind::Corrupt,
        "the database file was cut off within a page; nothing was changed: restore a backup",
    )
    .with("path", files.db.display())
    .with("bytes", length(&files.db)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_with_the_log_fault_is_refused() {
        assert_eq!(check_engine(3_051_002).unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(check_engine(OLDEST_ENGINE).is_ok());
        assert!(check_engine(rusqlite::version_number()).is_ok(), "the linked one");
    }

    #[test]
    fn a_name_for_reading_survives_any_path() {
        assert_eq!(immutable(Path::new("/a b/?#%.db")), "file:/a%20b/%3F%23%25.db?immutable=1&mode=ro");
    }
}
