//! From the engine's errors to ours. The one place that knows both.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{CommitError, CompactionError, DatabaseError, StorageError, TableError, TransactionError};
use turnkeep_core::{Error, ErrorKind, Result};

use crate::tables::Table;

fn kind_of_io(error: &io::Error) -> ErrorKind {
    match error.kind() {
        // The engine reads only where it believes to have written.
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => ErrorKind::Corrupt,
        _ => ErrorKind::of_io(error),
    }
}

/// What a caller can do about an error of the storage layer.
fn kind(error: &StorageError) -> ErrorKind {
    match error {
        StorageError::Corrupted(_) => ErrorKind::Corrupt,
        StorageError::ValueTooLarge(_) => ErrorKind::TooLarge,
        StorageError::Io(error) => kind_of_io(error),
        StorageError::PreviousIo => ErrorKind::Poisoned,
        StorageError::DatabaseClosed => ErrorKind::Closed,
        _ => ErrorKind::Io,
    }
}

fn message(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Corrupt => {
            "the store does not hold what it should; verify it, or restore a backup; nothing was changed"
        }
        ErrorKind::Full => "no room is left for the store; free some and try again",
        ErrorKind::ReadOnly => "the store cannot be written",
        ErrorKind::TooLarge => "a value is larger than the engine can hold",
        ErrorKind::Poisoned => "an earlier operation on the file failed; reopen the store",
        ErrorKind::Closed => "the store was closed; open it again",
        _ => "the operating system refused an operation on the file of the store",
    }
}

pub(crate) fn storage(error: StorageError) -> Error {
    let kind = kind(&error);
    Error::new(kind, message(kind)).with_source(error)
}

pub(crate) fn table(error: TableError) -> Error {
    match error {
        TableError::Storage(error) => storage(error),
        error => Error::new(ErrorKind::Corrupt, message(ErrorKind::Corrupt)).with_source(error),
    }
}

pub(crate) fn transaction(error: TransactionError) -> Error {
    match error {
        TransactionError::Storage(error) => storage(error),
        error => Error::new(ErrorKind::Io, "the engine cannot begin a transaction").with_source(error),
    }
}

pub(crate) fn commit(error: CommitError) -> Error {
    match error {
        CommitError::Storage(error) => storage(error),
        error => Error::new(ErrorKind::Io, "the engine gave the transaction up").with_source(error),
    }
}

pub(crate) fn compaction(error: CompactionError) -> Error {
    match error {
        CompactionError::Storage(error) => storage(error),
        CompactionError::TransactionInProgress => {
            Error::new(ErrorKind::Busy, "a backup or a verification reads the store; compact it afterwards")
                .with_source(error)
        }
        error => Error::new(ErrorKind::Io, "the engine cannot compact the store").with_source(error),
    }
}

/// An error at opening.
pub(crate) fn database(error: DatabaseError) -> Error {
    match error {
        DatabaseError::UpgradeRequired(version) => Error::new(
            ErrorKind::OlderFormat,
            "the file was written by an older version of the redb engine and was not touched; copy it, let redb 2.6 \
             upgrade the copy (`Database::upgrade`), and open the copy, or export with the program that wrote it",
        )
        .with("engine_format", version)
        .with_source(error),
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            Error::new(ErrorKind::Busy, "another process has the store open").with_source(error)
        }
        DatabaseError::TransactionInProgress => {
            Error::new(ErrorKind::Busy, "a transaction is still under way").with_source(error)
        }
        DatabaseError::Storage(error) => storage(error),
        error => Error::new(ErrorKind::Io, "the engine cannot open the file").with_source(error),
    }
}

/// What a stored value should have been.
pub(crate) fn damaged(table: Table, what: &'static str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "a stored row is not what was written; verify the store, or restore a backup",
    )
    .with("table", table.0)
    .with("field", what)
}

/// Runs work on the engine, which panics on some damaged files instead of answering.
pub(crate) fn contained<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // What was half done lives in a transaction that is given up after an error.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(Error::new(
            ErrorKind::Corrupt,
            "the engine stumbled over the file; verify it, or restore a backup",
        )
        .with_source(said(panic.as_ref())))
    })
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_error_asks_for_one_decision() {
        let io = |kind: io::ErrorKind| StorageError::Io(kind.into());
        for (error, kind) in [
            (StorageError::Corrupted(String::new()), ErrorKind::Corrupt),
            (io(io::ErrorKind::UnexpectedEof), ErrorKind::Corrupt),
            (io(io::ErrorKind::StorageFull), ErrorKind::Full),
            (io(io::ErrorKind::ReadOnlyFilesystem), ErrorKind::ReadOnly),
            (io(io::ErrorKind::Other), ErrorKind::Io),
            (StorageError::PreviousIo, ErrorKind::Poisoned),
            (StorageError::DatabaseClosed, ErrorKind::Closed),
            (StorageError::ValueTooLarge(1), ErrorKind::TooLarge),
        ] {
            assert_eq!(storage(error).kind(), kind);
        }
        let older = database(DatabaseError::UpgradeRequired(2));
        assert_eq!(older.kind(), ErrorKind::OlderFormat);
    }

    #[test]
    fn a_panic_of_the_engine_is_damage() {
        let answer: Result<()> = contained(|| panic!("bad page"));
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
