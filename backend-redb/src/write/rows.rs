//! Writing single rows.

use redb::{ReadableTable, WriteTransaction};
use turnkeep_core::Result;

use crate::codec::{Key, Value};
use crate::error::{storage, table};
use crate::source::{Source, Span, Toward};
use crate::tables::{META, Table};

/// A table open for writing.
pub(super) struct Open<'t>(redb::Table<'t, &'static [u8], &'static [u8]>);

pub(super) fn open(to: &WriteTransaction, into: Table) -> Result<Open<'_>> {
    to.open_table(into.definition()).map(Open).map_err(table)
}

impl Open<'_> {
    pub(super) fn put(&mut self, key: &Key, value: Value) -> Result<()> {
        let stored = value.seal(key.as_bytes());
        self.0.insert(key.as_bytes(), stored.as_slice()).map(drop).map_err(storage)
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.0.remove(key).map(|old| old.is_some()).map_err(storage)
    }
}

pub(super) fn put(to: &WriteTransaction, into: Table, key: &Key, value: Value) -> Result<()> {
    open(to, into)?.put(key, value)
}

pub(super) fn remove(from: &WriteTransaction, table: Table, key: &Key) -> Result<bool> {
    open(from, table)?.remove(key.as_bytes())
}

/// Removes the rows with these keys.
pub(super) fn remove_keys(from: &WriteTransaction, table: Table, keys: &[Vec<u8>]) -> Result<()> {
    let mut table = open(from, table)?;
    keys.iter().try_for_each(|key| table.remove(key).map(drop))
}

/// Removes every row of a span.
pub(super) fn remove_span(from: &WriteTransaction, table: Table, span: &Span) -> Result<()> {
    remove_keys(from, table, &keys(from, table, span, |_| true)?)
}

/// The keys of a span, from the lowest to the one whose row, of so many bytes, does not fit.
pub(super) fn keys(
    from: &WriteTransaction,
    table: Table,
    span: &Span,
    mut fits: impl FnMut(usize) -> bool,
) -> Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    from.scan(table, span, Toward::Higher, &mut |key, body| {
        let fits = fits(body.len());
        if fits {
            keys.push(key.to_vec());
        }
        Ok(fits)
    })?;
    Ok(keys)
}

/// The next number of a counter that never gives one twice.
pub(super) fn count_up(to: &WriteTransaction, counter: &str) -> Result<u64> {
    let mut meta = to.open_table(META).map_err(table)?;
    let next = match meta.get(counter).map_err(storage)? {
        Some(next) => next.value().parse::<u64>().map_err(|_| {
            turnkeep_core::Error::new(
                turnkeep_core::ErrorKind::Corrupt,
                "a counter of the store is no number; verify the store, or restore a backup",
            )
            .with("counter", counter)
        })?,
        None => 1,
    };
    meta.insert(counter, (next + 1).to_string().as_str()).map_err(storage)?;
    Ok(next)
}
