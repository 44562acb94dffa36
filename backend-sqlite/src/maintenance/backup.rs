//! A copy of one moment, whole or not there at all.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use turnkeep_core::local::Files;
use turnkeep_core::local::owner::private;
use turnkeep_core::local::random_bits;
use turnkeep_core::mutant;
use turnkeep_core::{Error, ErrorKind, Result};

use crate::error::{io, sql};
use crate::probe::{self, Found};

pub(super) fn backup(conn: &Connection, files: &Files, to: &Path) -> Result<()> {
    if mutant::is("sqlite/backup-over-something") {
        let _ = std::fs::remove_file(to);
    }
    if to.exists() {
        return Err(taken(to));
    }
    let (Some(folder), Some(name)) = (to.parent(), to.file_name()) else {
        return Err(
            Error::new(ErrorKind::Invalid, "the path of the backup names no file").with("path", to.display())
        );
    };
    // Unfinished under a name of its own: a copy that was cut short must never be taken for one.
    let unfinished = folder.join(unfinished(name)?);
    files.create(&unfinished).map_err(|error| io("create the backup", &unfinished, error))?;
    let published = |()| files.publish(&unfinished, to).map_err(|error| io("name the backup", to, error));
    let done = fill(conn, files, &unfinished).and_then(published);
    if !matches!(done, Ok(true)) {
        // Best effort: the error that is answered says more than this one would.
        let _ = files.remove(&unfinished);
    }
    if done? { Ok(()) } else { Err(taken(to)) }
}

/// The name of a file that is to be `name` when it is whole.
pub(super) fn unfinished(name: &OsStr) -> Result<OsString> {
    let mut unfinished = name.to_owned();
    unfinished.push(format!(".{:016x}.unfinished", random_bits()?));
    Ok(unfinished)
}

fn taken(to: &Path) -> Error {
    Error::new(ErrorKind::AlreadyExists, "something has the name of the backup already; it was not touched")
        .with("path", to.display())
}

fn fill(conn: &Connection, files: &Files, unfinished: &Path) -> Result<()> {
    let Some(name) = unfinished.to_str() else {
        return Err(Error::new(ErrorKind::Invalid, "the path of the backup is not UTF-8; choose another")
            .with("path", unfinished.display()));
    };
    // The copy is another file; the store itself is open for reading only, whatever this says.
    conn.pragma_update(None, "query_only", false).map_err(sql)?;
    conn.execute("VACUUM INTO ?1", [name]).map_err(sql)?;
    check(unfinished)?;
    let file = private().open(unfinished).map_err(|error| io("open the backup", unfinished, error))?;
    files.sync(&file, unfinished).map_err(|error| io("sync the backup", unfinished, error))
}

/// A copy that cannot be opened is no backup.
fn check(unfinished: &Path) -> Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copy = Connection::open_with_flags(unfinished, flags).map_err(sql)?;
    let found = probe::inspect(&copy, unfinished)?;
    let state: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(sql)?;
    if found == Found::Ours && state == "ok" {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Corrupt, "the copy is not whole, so the store may be damaged: verify it")
        .with("found", state))
}
