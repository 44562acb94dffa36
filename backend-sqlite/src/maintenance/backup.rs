//! A copy of one moment, whole or not there at all.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use turnkeep_core::local::owner::private;
use turnkeep_core::local::{Files, backup, place};
use turnkeep_core::{Error, ErrorKind, Result};

use crate::error::sql;
use crate::probe::{self, Found};

pub(super) fn backup(conn: &Connection, files: &Files, to: &Path) -> Result<()> {
    place::tidy(to);
    backup::make(files, to, |unfinished| {
        let create = files.create(unfinished);
        let file = create.map_err(|error| Error::io("cannot create the backup", unfinished, error))?;
        // Says to a tidying neighbour that somebody is at it.
        let _ = file.try_lock();
        fill(conn, files, unfinished)
    })
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
    let file =
        private().open(unfinished).map_err(|error| Error::io("cannot open the backup", unfinished, error))?;
    files.sync(&file, unfinished).map_err(|error| Error::io("cannot sync the backup", unfinished, error))
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
