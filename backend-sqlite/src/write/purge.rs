//! Removing what was deleted or has expired, in slices that never hold the writer up for long.

use rusqlite::{Connection, OptionalExtension, params};
use turnkeep_core::commit::RequestId;
use turnkeep_core::limits::REQUEST_MS;
use turnkeep_core::local::Slice;
use turnkeep_core::store::PurgeReport;
use turnkeep_core::{Result, Timestamp};

use crate::columns::row_key;
use crate::error::sql;
use crate::statement::Prepare as _;

/// Removes at most one slice of rows of the oldest deleted session, within a write transaction. `None` when no
/// deleted session is left.
pub(super) fn deleted_slice(conn: &Connection) -> Result<Option<PurgeReport>> {
    const OLDEST: &str = "SELECT skey FROM sessions INDEXED BY sessions_deleted
         WHERE state = 'deleted' ORDER BY skey LIMIT 1";
    let oldest: Option<i64> = conn
        .prepared(OLDEST)
        .and_then(|mut find| find.query_row([], |row| row.get(0)).optional())
        .map_err(sql)?;
    let Some(skey) = oldest else { return Ok(None) };
    let mut slice = Slice::default();
    entries(conn, skey, &mut slice)?;
    // Each table in turn, and the next one when there was room for all: streams find their events, and the session
    // row, the last, finds the rest.
    for text in [
        "DELETE FROM events WHERE ekey IN (SELECT e.ekey FROM streams t CROSS JOIN events e ON e.stkey = t.stkey
         WHERE t.skey = ?1 LIMIT ?2)",
        "DELETE FROM streams WHERE stkey IN (SELECT stkey FROM streams WHERE skey = ?1 LIMIT ?2)",
        "DELETE FROM segments WHERE (skey, first) IN (SELECT skey, first FROM segments WHERE skey = ?1 LIMIT ?2)",
        "DELETE FROM runs WHERE rkey IN (SELECT rkey FROM runs WHERE rkey > ?1 << 32
         AND rkey <= ((?1 << 32) | 4294967295) LIMIT ?2)",
        "DELETE FROM records WHERE reckey IN (SELECT reckey FROM records WHERE owner = ?1 LIMIT ?2)",
        "DELETE FROM ordinals WHERE (owner, wkey, collection) IN (SELECT owner, wkey, collection FROM ordinals
         WHERE owner = ?1 LIMIT ?2)",
        "DELETE FROM requests WHERE (skey, wkey, id) IN (SELECT skey, wkey, id FROM requests
         WHERE skey = ?1 LIMIT ?2)",
        // Without the hint every receipt of the workspace is passed over.
        "DELETE FROM requests INDEXED BY requests_by_owner WHERE owner = ?1 AND (skey, wkey, id) IN (
         SELECT skey, wkey, id FROM requests WHERE owner = ?1 LIMIT ?2)",
        "DELETE FROM leases WHERE (skey, wkey, name) IN (SELECT skey, wkey, name FROM leases
         WHERE skey = ?1 LIMIT ?2)",
        "DELETE FROM indexed WHERE skey IN (SELECT skey FROM indexed WHERE skey = ?1 LIMIT ?2)",
        "DELETE FROM session_meta WHERE skey IN (SELECT skey FROM session_meta WHERE skey = ?1 LIMIT ?2)",
    ] {
        let removed = conn
            .prepared(text)
            .and_then(|mut delete| delete.execute(params![skey, slice.room()]))
            .map_err(sql)?;
        slice.took(removed);
    }
    // Room is left, so every table had its turn.
    let gone = slice.take(0);
    if gone {
        conn.prepared("DELETE FROM sessions WHERE skey = ?1")
            .and_then(|mut delete| delete.execute([skey]))
            .map_err(sql)?;
    }
    Ok(Some(PurgeReport { sessions: gone.into(), rows: slice.taken() }))
}

/// Removes entries from the first on, as many as fit.
fn entries(conn: &Connection, skey: i64, slice: &mut Slice) -> Result<()> {
    const SIZES: &str = "SELECT rid, octet_length(payload) + coalesce(octet_length(text), 0) FROM entries
         WHERE rid > ?1 AND rid <= ?2 ORDER BY rid";
    let low = row_key(skey, 0);
    let mut last = low;
    {
        let mut sizes = conn.prepared(SIZES).map_err(sql)?;
        let mut rows = sizes.query([low, row_key(skey, u32::MAX)]).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            let (rid, bytes) = (row.get(0).map_err(sql)?, row.get::<_, u32>(1).map_err(sql)?);
            if !slice.take(bytes as usize) {
                break;
            }
            last = rid;
        }
    }
    for text in [
        "DELETE FROM search WHERE rowid > ?1 AND rowid <= ?2",
        "DELETE FROM entries WHERE rid > ?1 AND rid <= ?2",
    ] {
        conn.prepared(text).and_then(|mut delete| delete.execute([low, last])).map_err(sql)?;
    }
    Ok(())
}

/// Where the removal of expired requests stands: the scope looked at last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExpiryWalk {
    after: (i64, i64),
}

/// Removes at most one slice of expired requests, within a write transaction. Answers the walk to go on with;
/// `None` at its end.
///
/// Generated ids begin with their time, so the expired ones of a scope are one range of its ids; those that a host gave
/// come after it.
pub(super) fn expired_slice(
    conn: &Connection,
    now: Timestamp,
    walk: ExpiryWalk,
) -> Result<Option<ExpiryWalk>> {
    const NEXT: &str =
        "SELECT skey, wkey FROM requests WHERE (skey, wkey) > (?1, ?2) ORDER BY skey, wkey LIMIT 1";
    const DELETE: &str =
        "DELETE FROM requests WHERE skey = ?1 AND wkey = ?2 AND id IN (SELECT id FROM requests
         WHERE skey = ?1 AND wkey = ?2 AND id < ?3 LIMIT ?4)";
    let oldest_kept = RequestId::generated(now.plus_ms(-REQUEST_MS), [0; 10]).to_string();
    let (mut slice, mut after) = (Slice::of_rows(), walk.after);
    // A look at a scope costs about as much as the removal of a row.
    while slice.take(0) {
        let next: Option<(i64, i64)> = conn
            .prepared(NEXT)
            .and_then(|mut next| next.query_row(after, |row| Ok((row.get(0)?, row.get(1)?))).optional())
            .map_err(sql)?;
        let Some((skey, wkey)) = next else { return Ok(None) };
        let removed = conn
            .prepared(DELETE)
            .and_then(|mut delete| delete.execute(params![skey, wkey, oldest_kept, slice.room()]))
            .map_err(sql)?;
        slice.took(removed);
        if slice.is_full() {
            // The scope may have more.
            break;
        }
        after = (skey, wkey);
    }
    Ok(Some(ExpiryWalk { after }))
}
