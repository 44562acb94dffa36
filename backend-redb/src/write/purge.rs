//! Removing what was deleted or has expired, in slices that never hold the writer up for long.

use redb::WriteTransaction;
use turnkeep_core::local::Slice;
use turnkeep_core::mutant;
use turnkeep_core::store::PurgeReport;
use turnkeep_core::{Result, Timestamp};

use crate::codec::{Fields, Key};
use crate::rows::session_key;
use crate::source::{Span, Toward, first};
use crate::tables::{self, Table};
use crate::write::apply::{remove_request, unlist};
use crate::write::rows::{keys, remove, remove_keys};

/// Tables whose keys begin with the session and that no index points into.
const PLAIN: [Table; 11] = [
    tables::ENTRIES,
    tables::ENTRY_KEYS,
    tables::ENTRY_KINDS,
    tables::SEGMENTS,
    tables::RUNS,
    tables::RUN_IDS,
    tables::RUN_INTENTS,
    tables::STREAMS,
    tables::EVENTS,
    tables::ORDINALS,
    tables::LEASES,
];

/// Removes at most one slice of rows of the oldest deleted session. `None` when no deleted session is left.
pub(super) fn deleted_slice(from: &WriteTransaction) -> Result<Option<PurgeReport>> {
    let Some((grave, _)) = first(from, tables::TOMBSTONES, &Span::all(), Toward::Higher)? else {
        return Ok(None);
    };
    let skey = Fields::of_key(tables::TOMBSTONES, &grave).u64()?;
    let below = Span::within(Key::new().u64(skey));
    let mut slice = Slice::default();
    for table in PLAIN {
        remove_keys(from, table, &some_keys(from, table, &below, &mut slice)?)?;
    }
    if !mutant::is("redb/purge-forgets-records") {
        owned_records(from, &below, &mut slice)?;
    }
    requests(from, tables::REQUESTS, &below, &mut slice)?;
    requests(from, tables::REQUESTS_BY_OWNER, &below, &mut slice)?;
    // Room is left, so every table had its turn.
    let gone = slice.take(0);
    if gone {
        remove(from, tables::PROFILES, &session_key(skey))?;
        remove(from, tables::TOMBSTONES, &session_key(skey))?;
    }
    Ok(Some(PurgeReport { sessions: gone.into(), rows: slice.taken() }))
}

/// The keys of a span, as many as fit.
fn some_keys(from: &WriteTransaction, table: Table, span: &Span, slice: &mut Slice) -> Result<Vec<Vec<u8>>> {
    keys(from, table, span, |bytes| slice.take(bytes))
}

fn owned_records(from: &WriteTransaction, span: &Span, slice: &mut Slice) -> Result<()> {
    for place in &some_keys(from, tables::RECORD_KEYS_OF_OWNER, span, slice)? {
        let mut fields = Fields::of_key(tables::RECORD_KEYS_OF_OWNER, place);
        fields.u64()?;
        let wkey = fields.u64()?;
        let (collection, key) = (fields.text()?, fields.tail()?);
        let key = Key::new().u64(wkey).text(collection).tail(key);
        unlist(from, wkey, &key)?;
        remove(from, tables::RECORDS, &key)?;
    }
    Ok(())
}

/// Removes stored receipts: of the scope of a session, or of the workspace and owned by one.
fn requests(from: &WriteTransaction, by: Table, span: &Span, slice: &mut Slice) -> Result<()> {
    for place in &some_keys(from, by, span, slice)? {
        let mut fields = Fields::of_key(by, place);
        let (session, wkey, id) = (fields.u64()?, fields.u64()?, fields.tail()?);
        let scope = if by == tables::REQUESTS { session } else { 0 };
        remove_request(from, &Key::new().u64(scope).u64(wkey).tail(id))?;
    }
    Ok(())
}

/// Removes at most one slice of receipts that nobody can ask for any more. At the moment of its expiry one can still be
/// asked for. Answers whether there were any.
pub(super) fn expired_slice(from: &WriteTransaction, now: Timestamp) -> Result<bool> {
    let span = Span::all().before(Key::new().time(now));
    let places = some_keys(from, tables::REQUESTS_EXPIRING, &span, &mut Slice::of_rows())?;
    for place in &places {
        let mut fields = Fields::of_key(tables::REQUESTS_EXPIRING, place);
        fields.u64()?;
        let (skey, wkey, id) = (fields.u64()?, fields.u64()?, fields.tail()?);
        remove_request(from, &Key::new().u64(skey).u64(wkey).tail(id))?;
    }
    Ok(!places.is_empty())
}
