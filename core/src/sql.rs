//! SQL for auditors, in types of our own, where the store is an SQL database.
//!
//! [`read`] runs queries in one transaction that sees one moment of the store; a statement that writes is refused. [`write()`]
//! runs statements in one transaction of the store's own writer: all or nothing, in line with every commit of this and other
//! processes. It may make and change tables whose names begin with `audit_`, their indexes and views, and nothing else: the
//! tables of the store, triggers, other databases and settings are refused, so that no promise of the contract can be
//! broken by the way. [`Maintenance::sql`](crate::Maintenance::sql) of a store without SQL answers `Unsupported`.
//!
//! ```no_run
//! # async fn example(store: &dyn turnkeep_core::Store) -> turnkeep_core::Result<()> {
//! let found = turnkeep_core::sql::read(store, |sql| {
//!     sql.query("SELECT id, messages FROM sessions WHERE messages > ?", &[100.into()], 1_000)
//! })
//! .await?;
//! assert_eq!(found.columns, ["id", "messages"]);
//! # Ok(()) }
//! ```

use std::sync::mpsc;

use crate::error::{Error, ErrorKind, Result};
use crate::store::Store;

/// A value of a column or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// No value.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<f64> for SqlValue {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for SqlValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u8>> for SqlValue {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Blob(bytes)
    }
}

impl<T: Into<Self>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// What a query found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SqlRows {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a value per column.
    pub rows: Vec<Vec<SqlValue>>,
    /// Whether there were more than the limit.
    pub more: bool,
}

/// A transaction that takes SQL.
pub trait Sql {
    /// Runs one statement that writes nothing, with a value for each `?`, and gives at most `limit` rows.
    ///
    /// # Errors
    /// `ReadOnly` for a statement that writes; `Invalid` for one that is wrong, or for several.
    fn query(&mut self, statement: &str, values: &[SqlValue], limit: usize) -> Result<SqlRows>;

    /// Runs one statement that may write, with a value for each `?`, and answers how many rows it changed.
    ///
    /// # Errors
    /// `ReadOnly` in a transaction for reading, and for what auditors may not change; `Invalid` for a statement that is
    /// wrong, or for several.
    fn execute(&mut self, statement: &str, values: &[SqlValue]) -> Result<u64>;
}

/// What a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlAccess {
    /// Only read.
    Read,
    /// Also write the tables of auditors.
    Write,
}

/// Work in a transaction. An error undoes all of it.
pub type SqlWork = Box<dyn FnOnce(&mut dyn Sql) -> Result<()> + Send>;

/// Runs queries in one transaction that sees one moment of the store.
///
/// # Errors
/// What the work answers; `Unsupported` where there is no SQL.
pub async fn read<T: Send + 'static>(
    store: &dyn Store,
    work: impl FnOnce(&mut dyn Sql) -> Result<T> + Send + 'static,
) -> Result<T> {
    run(store, SqlAccess::Read, work).await
}

/// Runs statements in one transaction of the store's writer. Every commit of the store waits for it, so keep it short.
///
/// # Errors
/// What the work answers, and then nothing was written; `Unsupported` where there is no SQL; `Busy` when another process
/// keeps the store busy.
pub async fn write<T: Send + 'static>(
    store: &dyn Store,
    work: impl FnOnce(&mut dyn Sql) -> Result<T> + Send + 'static,
) -> Result<T> {
    run(store, SqlAccess::Write, work).await
}

async fn run<T: Send + 'static>(
    store: &dyn Store,
    access: SqlAccess,
    work: impl FnOnce(&mut dyn Sql) -> Result<T> + Send + 'static,
) -> Result<T> {
    let maintenance = store.maintenance().ok_or_else(|| Error::unsupported("sql"))?;
    let (reply, answer) = mpsc::sync_channel(1);
    let work: SqlWork = Box::new(move |sql| {
        let done = work(sql)?;
        // Whoever asked may have gone away.
        let _ = reply.send(done);
        Ok(())
    });
    maintenance.sql(access, work).await?;
    answer
        .try_recv()
        .map_err(|_| Error::new(ErrorKind::Io, "the store did not run the work").with_operation("sql"))
}
