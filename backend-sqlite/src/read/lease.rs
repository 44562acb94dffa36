//! One lease.

use rusqlite::{Connection, OptionalExtension, params};
use turnkeep_core::model::{LeaseKey, LeaseName, LeaseView};
use turnkeep_core::rules::LeaseRow;
use turnkeep_core::{Result, Timestamp};

use crate::columns::{Fields, lease_row};
use crate::error::sql;
use crate::owners::Owners;
use crate::read::{Snapshot, workspace_key};
use crate::statement::Prepare as _;

/// A lease with its owner's liveness. Sessions that are being built are seen too: their builder may be dead.
pub(crate) fn lease(
    conn: &Connection,
    key: &LeaseKey,
    now: Timestamp,
    owners: &Owners,
) -> Result<Option<LeaseView>> {
    let _snapshot = Snapshot::begin(conn)?;
    let wkey = workspace_key(conn, &key.workspace)?;
    let row = match (&key.name, wkey) {
        (LeaseName::Named(id), Some(wkey)) => stored(conn, wkey, 0, id.as_str())?,
        (LeaseName::Named(_), None) => None,
        (LeaseName::Session(session), Some(wkey)) => {
            const FIND: &str = "SELECT skey FROM sessions INDEXED BY sessions_by_id
                 WHERE wkey = ?1 AND id = ?2 AND state <> 'deleted' AND incarnation = ?3";
            let skey: Option<i64> = conn
                .prepared(FIND)
                .and_then(|mut find| {
                    let named = params![wkey, session.id.as_str(), session.incarnation.as_bytes()];
                    find.query_row(named, |row| row.get(0)).optional()
                })
                .map_err(sql)?;
            skey.map(|skey| stored(conn, wkey, skey, "")).transpose()?.flatten()
        }
        (LeaseName::Session(_), None) => None,
    };
    Ok(row.map(|row| row.view(now, owners.liveness(&row))))
}

/// The row of a lease: by session key, or by name with the key 0.
pub(crate) fn stored(conn: &Connection, wkey: i64, skey: i64, name: &str) -> Result<Option<LeaseRow>> {
    const FIND: &str = "SELECT state, owner, token, epoch, purpose, acquired_at, expires_at FROM leases
         WHERE skey = ?1 AND wkey = ?2 AND name = ?3";
    let mut find = conn.prepared(FIND).map_err(sql)?;
    let mut rows = find.query(params![skey, wkey, name]).map_err(sql)?;
    match rows.next().map_err(sql)? {
        Some(row) => Ok(Some(lease_row(&mut Fields::new("leases", row))?)),
        None => Ok(None),
    }
}
