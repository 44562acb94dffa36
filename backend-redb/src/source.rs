//! Reading rows, alike in a read snapshot and in the write transaction.

use std::ops::Bound;

use redb::{ReadTransaction, ReadableTable, WriteTransaction};
use turnkeep_core::Result;
use turnkeep_core::mutant;

use crate::codec::{Key, unseal};
use crate::error::{storage, table};
use crate::tables::Table;

/// Keys from one bound to another.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
}

impl Span {
    /// Every key of a table.
    pub(crate) fn all() -> Self {
        Self { low: Bound::Unbounded, high: Bound::Unbounded }
    }

    /// Every key that begins with a prefix.
    pub(crate) fn within(prefix: Key) -> Self {
        let prefix = prefix.into_bytes();
        let mut after = prefix.clone();
        while let Some(last) = after.pop() {
            if last < u8::MAX {
                after.push(last + 1);
                break;
            }
        }
        let open = after.is_empty() || mutant::is("redb/prefix-has-no-end");
        let high = if open { Bound::Unbounded } else { Bound::Excluded(after) };
        Self { low: Bound::Included(prefix), high }
    }

    /// From this key on.
    pub(crate) fn from(mut self, key: Key) -> Self {
        self.low = Bound::Included(key.into_bytes());
        self
    }

    /// Beyond this key.
    pub(crate) fn after(mut self, key: Key) -> Self {
        self.low = Bound::Excluded(key.into_bytes());
        self
    }

    /// Up to this key.
    pub(crate) fn through(mut self, key: Key) -> Self {
        self.high = Bound::Included(key.into_bytes());
        self
    }

    /// Short of this key.
    pub(crate) fn before(mut self, key: Key) -> Self {
        self.high = Bound::Excluded(key.into_bytes());
        self
    }

    /// The engine takes bounds that cross for a bug of its caller.
    fn is_empty(&self) -> bool {
        match (&self.low, &self.high) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(low), Bound::Included(high)) => low > high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
                low >= high
            }
        }
    }
}

/// In which direction a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Higher,
    Lower,
}

impl Toward {
    pub(crate) fn newest_first(newest: bool) -> Self {
        if newest { Self::Lower } else { Self::Higher }
    }
}

/// Whether a scan goes on.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// Where rows are read from. Check sums are compared on the way, so what arrives is what was written.
pub(crate) trait Source {
    /// The body of the row with a key.
    fn get(&self, table: Table, key: &Key) -> Result<Option<Vec<u8>>>;

    /// Visits rows in order, as keys and bodies; `false` when the visitor ended it. The visitor may read other tables.
    fn scan(&self, table: Table, span: &Span, toward: Toward, visit: Visit<'_>) -> Result<bool>;

    /// How many rows a table has.
    fn count(&self, table: Table) -> Result<u64>;
}

fn get_in(from: &impl Rows, table: Table, key: &Key) -> Result<Option<Vec<u8>>> {
    let Some(found) = from.get(key.as_bytes()).map_err(storage)? else { return Ok(None) };
    unseal(table, key.as_bytes(), found.value()).map(|body| Some(body.to_vec()))
}

fn scan_in(from: &impl Rows, table: Table, span: &Span, toward: Toward, visit: Visit<'_>) -> Result<bool> {
    if span.is_empty() {
        return Ok(true);
    }
    let bounds = (span.low.as_ref().map(Vec::as_slice), span.high.as_ref().map(Vec::as_slice));
    let mut rows = from.range::<&[u8]>(bounds).map_err(storage)?;
    loop {
        let row = match toward {
            Toward::Higher => rows.next(),
            Toward::Lower => rows.next_back(),
        };
        let Some(row) = row else { return Ok(true) };
        let (key, stored) = row.map_err(storage)?;
        let body = unseal(table, key.value(), stored.value())?;
        if !visit(key.value(), body)? {
            return Ok(false);
        }
    }
}

trait Rows: ReadableTable<&'static [u8], &'static [u8]> {}
impl<T: ReadableTable<&'static [u8], &'static [u8]>> Rows for T {}

macro_rules! source {
    ($transaction:ty) => {
        impl Source for $transaction {
            fn get(&self, from: Table, key: &Key) -> Result<Option<Vec<u8>>> {
                get_in(&self.open_table(from.definition()).map_err(table)?, from, key)
            }

            fn scan(&self, from: Table, span: &Span, toward: Toward, visit: Visit<'_>) -> Result<bool> {
                scan_in(&self.open_table(from.definition()).map_err(table)?, from, span, toward, visit)
            }

            fn count(&self, from: Table) -> Result<u64> {
                use redb::ReadableTableMetadata;
                self.open_table(from.definition()).map_err(table)?.len().map_err(storage)
            }
        }
    };
}

source!(ReadTransaction);
source!(WriteTransaction);

/// The first row of a scan.
pub(crate) fn first(
    source: &dyn Source,
    table: Table,
    span: &Span,
    toward: Toward,
) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut found = None;
    source.scan(table, span, toward, &mut |key, body| {
        found = Some((key.to_vec(), body.to_vec()));
        Ok(false)
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(span: &Span, key: &[u8]) -> bool {
        use std::ops::RangeBounds;
        (span.low.clone(), span.high.clone()).contains(&key.to_vec())
    }

    #[test]
    fn a_prefix_holds_its_keys_and_no_others() {
        let span = Span::within(Key::new().u32(0xFF));
        assert!(holds(&span, &[0, 0, 0, 0xFF]) && holds(&span, &[0, 0, 0, 0xFF, 0xFF, 9]));
        assert!(!holds(&span, &[0, 0, 1]) && !holds(&span, &[0, 0, 0, 0xFE, 9]));
        let last = Span::within(Key::new().u32(u32::MAX));
        assert!(holds(&last, &[0xFF; 9]) && !holds(&last, &[0xFF, 0xFF, 0xFF]));
    }

    #[test]
    fn crossed_bounds_are_empty() {
        let span = |low: u32, high: u32| Span::all().from(Key::new().u32(low)).before(Key::new().u32(high));
        assert!(span(2, 1).is_empty() && span(1, 1).is_empty());
        assert!(!span(1, 2).is_empty());
        assert!(!Span::all().from(Key::new().u32(1)).through(Key::new().u32(1)).is_empty());
    }
}
