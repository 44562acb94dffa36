//! Removing what was deleted or has expired, in slices that never hold the writer up for long.

use redb::WriteTransaction;
use turnkeep_core::limits::SLICE_ROWS;
use turnkeep_core::mutant;
use turnkeep_core::store::PurgeReport;
use turnkeep_core::{Result, Timestamp};

use crate::codec::{Fields, Key};
use crate::rows::session_key;
use crate::source::{Source as _, Span, Toward, first};
use crate::tables::{self, Table};
use crate::write::apply::{remove_request, unlist};
use crate::write::rows::{open, remove, remove_some};

/// Bytes of entries after which a slice ends early: large rows take longer to give back.
const SLICE_BYTES: usize = 2 * 1024 * 1024;

/// Tables whose keys begin with the session and that no index points into.
const PLAIN: [Table; 10] = [
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
    let below = || Span::within(Key::new().u64(skey));
    let most = SLICE_ROWS as usize;
    let mut left = most.saturating_sub(entries(from, &below(), most)?);
    for table in PLAIN {
        left -= remove_some(from, table, &below(), left)?;
    }
    if !mutant::is("redb/purge-forgets-records") {
        left -= owned_records(from, &below(), left)?;
    }
    left -= requests(from, tables::REQUESTS, skey, left)?;
    left -= requests(from, tables::REQUESTS_BY_OWNER, skey, left)?;
    let mut report = PurgeReport { sessions: 0, rows: (most - left) as u64 };
    // Room was left, so every table had its turn; but large entries end a slice early.
    if left > 0 && first(from, tables::ENTRIES, &below(), Toward::Higher)?.is_none() {
        remove(from, tables::PROFILES, &session_key(skey))?;
        remove(from, tables::TOMBSTONES, &session_key(skey))?;
        report.sessions = 1;
        report.rows += 1;
    }
    Ok(Some(report))
}

/// Removes entries from the first on, until there are enough rows or bytes.
fn entries(from: &WriteTransaction, span: &Span, most: usize) -> Result<usize> {
    let (mut keys, mut bytes) = (Vec::new(), 0);
    from.scan(tables::ENTRIES, span, Toward::Higher, &mut |key, body| {
        keys.push(key.to_vec());
        bytes += body.len();
        Ok(keys.len() < most && bytes < SLICE_BYTES)
    })?;
    let mut table = open(from, tables::ENTRIES)?;
    for key in &keys {
        table.remove(key)?;
    }
    Ok(keys.len())
}

fn owned_records(from: &WriteTransaction, span: &Span, most: usize) -> Result<usize> {
    let places = some_keys(from, tables::RECORD_KEYS_OF_OWNER, span, most)?;
    for place in &places {
        let mut fields = Fields::of_key(tables::RECORD_KEYS_OF_OWNER, place);
        fields.u64()?;
        let wkey = fields.u64()?;
        let (collection, key) = (fields.text()?, fields.tail()?);
        let key = Key::new().u64(wkey).text(collection).tail(key);
        unlist(from, wkey, &key)?;
        remove(from, tables::RECORDS, &key)?;
    }
    Ok(places.len())
}

/// Removes stored receipts: of the scope of a session, or of the workspace and owned by one.
fn requests(from: &WriteTransaction, by: Table, skey: u64, most: usize) -> Result<usize> {
    let places = some_keys(from, by, &Span::within(Key::new().u64(skey)), most)?;
    for place in &places {
        let mut fields = Fields::of_key(by, place);
        let (session, wkey, id) = (fields.u64()?, fields.u64()?, fields.tail()?);
        let scope = if by == tables::REQUESTS { session } else { 0 };
        remove_request(from, &Key::new().u64(scope).u64(wkey).tail(id))?;
    }
    Ok(places.len())
}

fn some_keys(from: &WriteTransaction, table: Table, span: &Span, most: usize) -> Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    if most > 0 {
        from.scan(table, span, Toward::Higher, &mut |key, _| {
            keys.push(key.to_vec());
            Ok(keys.len() < most)
        })?;
    }
    Ok(keys)
}

/// Removes at most one slice of receipts that nobody can ask for any more. At the moment of its expiry one can still be
/// asked for. Answers how many.
pub(super) fn expired_slice(from: &WriteTransaction, now: Timestamp) -> Result<usize> {
    let span = Span::all().before(Key::new().time(now));
    let places = some_keys(from, tables::REQUESTS_EXPIRING, &span, SLICE_ROWS as usize)?;
    for place in &places {
        let mut fields = Fields::of_key(tables::REQUESTS_EXPIRING, place);
        fields.u64()?;
        let (skey, wkey, id) = (fields.u64()?, fields.u64()?, fields.tail()?);
        remove_request(from, &Key::new().u64(skey).u64(wkey).tail(id))?;
    }
    Ok(places.len())
}
