//! Which formats this version can use. Format 1 is the first, so there is none to come from yet.

use rusqlite::Connection;
use turnkeep_core::mutant;
use turnkeep_core::{Error, ErrorKind, Result};

use crate::error::sql;
use crate::schema::{APPLICATION_ID, FORMAT};

/// Whether a format is ours to use.
///
/// # Errors
/// `NewerFormat` or `OlderFormat`.
pub(crate) fn check_format(found: i32) -> Result<()> {
    match found.cmp(&FORMAT) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater if mutant::is("sqlite/newer-format-opened") => Ok(()),
        std::cmp::Ordering::Greater => Err(Error::new(
            ErrorKind::NewerFormat,
            "the database was written by a newer version of turnkeep; it was not touched: upgrade this program",
        )
        .with("found", found)
        .with("known", FORMAT)),
        std::cmp::Ordering::Less => Err(Error::new(
            ErrorKind::OlderFormat,
            "the database has a format that no released version of turnkeep wrote; it was not touched",
        )
        .with("found", found)
        .with("known", FORMAT)),
    }
}

/// Re-reads whose the database is and its format, within a transaction: another process may have upgraded it.
pub(crate) fn check_version(conn: &Connection) -> Result<()> {
    let (id, format) = identity(conn).map_err(sql)?;
    if id != APPLICATION_ID {
        return Err(Error::new(
            ErrorKind::Corrupt,
            "the database stopped being one of turnkeep while it was open",
        )
        .with("application_id", id));
    }
    check_format(format)
}

/// The marks in the header: whose it is, and its format.
pub(crate) fn identity(conn: &Connection) -> rusqlite::Result<(i32, i32)> {
    let read = |text: &str| conn.prepare_cached(text)?.query_row([], |row| row.get(0));
    Ok((read("PRAGMA application_id")?, read("PRAGMA user_version")?))
}
