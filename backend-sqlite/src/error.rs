//! From the engine's errors to ours. The one place that knows both.

use rusqlite::ffi;
use turnkeep_core::{Error, ErrorKind};

/// What a caller can do about an engine error.
pub(crate) fn kind(error: &rusqlite::Error) -> ErrorKind {
    match error {
        rusqlite::Error::SqliteFailure(failure, _)
        | rusqlite::Error::SqlInputError { error: failure, .. } => kind_of_code(failure.extended_code),
        // A value of the wrong type or an absent row means that the tables do not hold what we wrote.
        _ => ErrorKind::Corrupt,
    }
}

fn kind_of_code(extended: i32) -> ErrorKind {
    match extended & 0xff {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL => ErrorKind::Busy,
        ffi::SQLITE_FULL => ErrorKind::Full,
        ffi::SQLITE_READONLY => ErrorKind::ReadOnly,
        ffi::SQLITE_TOOBIG => ErrorKind::TooLarge,
        ffi::SQLITE_INTERRUPT => ErrorKind::Cancelled,
        ffi::SQLITE_CORRUPT
        | ffi::SQLITE_NOTADB
        | ffi::SQLITE_SCHEMA
        | ffi::SQLITE_CONSTRAINT
        | ffi::SQLITE_MISMATCH
        | ffi::SQLITE_ERROR => ErrorKind::Corrupt,
        _ => ErrorKind::Io,
    }
}

/// The engine's extended code, when the error came from the engine.
pub(crate) fn code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|failure| failure.extended_code)
}

/// Turns an engine error into ours.
pub(crate) fn sql(error: rusqlite::Error) -> Error {
    let kind = kind(&error);
    let message = match kind {
        ErrorKind::Busy => "another connection kept the database locked; try again",
        ErrorKind::Full => "no room is left for the database; free some and try again",
        ErrorKind::ReadOnly => "the database cannot be written",
        ErrorKind::TooLarge => "a value is larger than the engine can hold",
        ErrorKind::Cancelled => "the work was cancelled",
        ErrorKind::Corrupt => {
            "the database does not hold what it should; verify it, or restore a backup; nothing was changed"
        }
        _ => "the operating system refused an operation on the database files",
    };
    let code = code(&error);
    let ours = Error::new(kind, message);
    let ours = match code {
        Some(code) => ours.with("sqlite_code", code),
        None => ours,
    };
    ours.with_source(error)
}

/// Whether a failed COMMIT can still be proved to have written nothing, once its transaction is rolled back.
///
/// A failed sync proves nothing: the pages may be on the disk or not. A full disk, a lock or a failed write happen
/// before the record that makes the transaction count is complete.
pub(crate) fn commit_is_undoable(error: &rusqlite::Error) -> bool {
    match code(error) {
        Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_NOMEM) => true,
        Some(extended) => {
            matches!(
                extended & 0xff,
                ffi::SQLITE_FULL
                    | ffi::SQLITE_BUSY
                    | ffi::SQLITE_LOCKED
                    | ffi::SQLITE_NOMEM
                    | ffi::SQLITE_CONSTRAINT
                    | ffi::SQLITE_READONLY
            )
        }
        None => false,
    }
}

/// Whether the engine failed to use shared memory or locks, which write-ahead logging stands on.
pub(crate) fn is_wal_impossible(error: &rusqlite::Error) -> bool {
    match code(error) {
        Some(extended) => {
            matches!(
                extended,
                ffi::SQLITE_IOERR_SHMOPEN
                    | ffi::SQLITE_IOERR_SHMSIZE
                    | ffi::SQLITE_IOERR_SHMLOCK
                    | ffi::SQLITE_IOERR_SHMMAP
                    | ffi::SQLITE_IOERR_LOCK
            ) || matches!(extended & 0xff, ffi::SQLITE_CANTOPEN | ffi::SQLITE_PROTOCOL)
        }
        None => false,
    }
}

/// What a stored value should have been.
pub(crate) fn damaged(table: &'static str, column: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "a stored value is not what it should be; verify the store, or restore a backup",
    )
    .with("table", table)
    .with("column", column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn each_engine_code_asks_for_one_decision() {
        for (code, kind) in [
            (ffi::SQLITE_CORRUPT, ErrorKind::Corrupt),
            (ffi::SQLITE_CORRUPT_INDEX, ErrorKind::Corrupt),
            (ffi::SQLITE_NOTADB, ErrorKind::Corrupt),
            (ffi::SQLITE_FULL, ErrorKind::Full),
            (ffi::SQLITE_READONLY, ErrorKind::ReadOnly),
            (ffi::SQLITE_READONLY_DBMOVED, ErrorKind::ReadOnly),
            (ffi::SQLITE_BUSY, ErrorKind::Busy),
            (ffi::SQLITE_BUSY_SNAPSHOT, ErrorKind::Busy),
            (ffi::SQLITE_LOCKED, ErrorKind::Busy),
            (ffi::SQLITE_IOERR_FSYNC, ErrorKind::Io),
            (ffi::SQLITE_IOERR_READ, ErrorKind::Io),
            (ffi::SQLITE_CANTOPEN, ErrorKind::Io),
            (ffi::SQLITE_INTERRUPT, ErrorKind::Cancelled),
        ] {
            assert_eq!(sql(failure(code)).kind(), kind, "code {code}");
        }
    }

    #[test]
    fn a_failed_sync_proves_nothing_and_a_full_disk_does() {
        assert!(!commit_is_undoable(&failure(ffi::SQLITE_IOERR_FSYNC)));
        assert!(!commit_is_undoable(&failure(ffi::SQLITE_IOERR_DIR_FSYNC)));
        assert!(!commit_is_undoable(&failure(ffi::SQLITE_CORRUPT)));
        assert!(commit_is_undoable(&failure(ffi::SQLITE_FULL)));
        assert!(commit_is_undoable(&failure(ffi::SQLITE_IOERR_WRITE)));
    }
}
