//! Session rows that the writer has at hand.
//!
//! Nearly every commit needs a session row that an earlier commit of this handle wrote. They are dropped when
//! another connection changed the database, and after a rollback.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use turnkeep_core::id::SessionId;
use turnkeep_core::local::{SessionsAtHand, StoredSession};
use turnkeep_core::{Result, SessionRef, WorkspaceId};

use crate::columns::{Fields, SESSION_COLUMNS, session};
use crate::error::sql;
use crate::read::workspace_key;
use crate::statement::Prepare as _;

#[derive(Debug, Default)]
pub(crate) struct Cache {
    workspaces: HashMap<WorkspaceId, i64>,
    sessions: SessionsAtHand<i64>,
}

/// A session that is not deleted, with its key.
pub(crate) type Cached = StoredSession<i64>;

impl Cache {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.workspaces.is_empty()
    }

    /// The key of a workspace, if it was ever written to.
    pub(crate) fn workspace(&mut self, conn: &Connection, workspace: &WorkspaceId) -> Result<Option<i64>> {
        if let Some(wkey) = self.workspaces.get(workspace) {
            return Ok(Some(*wkey));
        }
        let found = workspace_key(conn, workspace)?;
        if let Some(wkey) = found {
            self.workspaces.insert(workspace.clone(), wkey);
        }
        Ok(found)
    }

    /// The key of a workspace, which is made when needed.
    pub(crate) fn workspace_or_new(&mut self, conn: &Connection, workspace: &WorkspaceId) -> Result<i64> {
        if let Some(wkey) = self.workspace(conn, workspace)? {
            return Ok(wkey);
        }
        conn.prepared("INSERT INTO workspaces (id, touches, activity_floor) VALUES (?1, 0, 0)")
            .and_then(|mut insert| insert.execute([workspace.as_str()]))
            .map_err(sql)?;
        let wkey = conn.last_insert_rowid();
        self.workspaces.insert(workspace.clone(), wkey);
        Ok(wkey)
    }

    /// A session in use or being built.
    pub(crate) fn session(
        &mut self,
        conn: &Connection,
        wkey: i64,
        workspace: &WorkspaceId,
        id: &SessionId,
    ) -> Result<Option<&mut Cached>> {
        self.sessions.get(wkey, id, || load(conn, wkey, workspace, id))
    }

    /// The key of one life of a session; `None` when it is over.
    pub(crate) fn life(
        &mut self,
        conn: &Connection,
        wkey: i64,
        workspace: &WorkspaceId,
        session: &SessionRef,
    ) -> Result<Option<i64>> {
        let found = self.session(conn, wkey, workspace, &session.id)?;
        Ok(found.and_then(|found| found.key_of(session)))
    }

    pub(crate) fn put(&mut self, wkey: i64, session: Cached) {
        self.sessions.put(wkey, session);
    }

    pub(crate) fn forget(&mut self, wkey: i64, id: &SessionId) {
        self.sessions.forget(wkey, id);
    }
}

fn load(conn: &Connection, wkey: i64, workspace: &WorkspaceId, id: &SessionId) -> Result<Option<Cached>> {
    let text = format!(
        "SELECT {SESSION_COLUMNS} FROM sessions s INDEXED BY sessions_by_id
         LEFT JOIN session_meta m ON m.skey = s.skey
         WHERE s.wkey = ?1 AND s.id = ?2 AND s.state <> 'deleted'"
    );
    let mut find = conn.prepared(&text).map_err(sql)?;
    let mut rows = find.query(params![wkey, id.as_str()]).map_err(sql)?;
    match rows.next().map_err(sql)? {
        Some(row) => {
            let (skey, row) = session(workspace, &mut Fields::new("sessions", row))?;
            Ok(Some(Cached { skey, row }))
        }
        None => Ok(None),
    }
}

/// The highest activity number that any session ever had.
pub(crate) fn last_activity(conn: &Connection) -> Result<i64> {
    const READ: &str = "SELECT max(max(w.activity_floor, coalesce((
             SELECT s.activity FROM sessions s INDEXED BY sessions_by_activity
             WHERE s.wkey = w.wkey AND s.state <> 'deleted' ORDER BY s.activity DESC LIMIT 1), 0)))
         FROM workspaces w";
    let last: Option<Option<i64>> = conn
        .prepared(READ)
        .and_then(|mut read| read.query_row([], |row| row.get(0)).optional())
        .map_err(sql)?;
    Ok(last.flatten().unwrap_or(0))
}
