//! The ways out, one file per query. Each runs on a reader's connection, in one short transaction.

mod changes;
mod entries;
mod events;
mod lease;
#[cfg(test)]
mod plans;
mod records;
mod rows;
mod runs;
mod search;
mod sessions;
mod sql;

use rusqlite::{Connection, OptionalExtension, params};
use turnkeep_core::mutant;
use turnkeep_core::query::no_session;
use turnkeep_core::{Result, SessionRef, WorkspaceId};

pub(crate) use changes::changes;
pub(crate) use entries::{entries, number_with_key};
pub(crate) use events::{events, stream_key};
pub(crate) use lease::{lease, stored as stored_lease};
pub(crate) use records::records;
pub(crate) use rows::rows;
pub(crate) use runs::runs;
pub(crate) use search::search;
pub(crate) use sessions::{session, sessions};

use crate::error::sql;
use crate::statement::Prepare as _;

/// Everything read while it lives is of one moment. It never outlives the job of a reader's thread.
pub(crate) struct Snapshot<'c> {
    conn: &'c Connection,
}

impl<'c> Snapshot<'c> {
    pub(crate) fn begin(conn: &'c Connection) -> Result<Self> {
        if !conn.is_autocommit() && mutant::is("sqlite/snapshot-outlives-its-page") {
            return Ok(Self { conn });
        }
        conn.prepared("BEGIN").and_then(|mut begin| begin.execute([])).map_err(sql)?;
        Ok(Self { conn })
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // Nothing was written. An error that ended the transaction has been answered already.
        if !mutant::is("sqlite/snapshot-outlives-its-page") {
            let _ = self.conn.prepared("COMMIT").and_then(|mut end| end.execute([]));
        }
    }
}

/// The key of a workspace; `None` while nothing was ever written to it.
pub(crate) fn workspace_key(conn: &Connection, workspace: &WorkspaceId) -> Result<Option<i64>> {
    conn.prepared("SELECT wkey FROM workspaces WHERE id = ?1")
        .and_then(|mut find| find.query_row([workspace.as_str()], |row| row.get(0)).optional())
        .map_err(sql)
}

/// A session in use, as reads need it.
pub(crate) struct Found {
    pub(crate) skey: i64,
    pub(crate) leaf: Option<u32>,
    pub(crate) revision: i64,
    pub(crate) head: Option<u32>,
}

/// The key of a session in use. Lives that are over or still being built are not found.
pub(crate) fn find(conn: &Connection, workspace: &WorkspaceId, session: &SessionRef) -> Result<Found> {
    const FIND: &str = "SELECT s.skey, s.leaf, s.revision, s.head FROM workspaces w CROSS JOIN sessions s INDEXED BY sessions_by_id
         ON s.wkey = w.wkey AND s.id = ?2 AND s.state <> 'deleted'
         WHERE w.id = ?1 AND s.incarnation = ?3 AND s.state = 'active'";
    conn.prepared(FIND)
        .and_then(|mut find| {
            let named = params![workspace.as_str(), session.id.as_str(), session.incarnation.as_bytes()];
            find.query_row(named, |row| {
                Ok(Found { skey: row.get(0)?, leaf: row.get(1)?, revision: row.get(2)?, head: row.get(3)? })
            })
            .optional()
        })
        .map_err(sql)?
        .ok_or_else(|| no_session(workspace, session))
}
