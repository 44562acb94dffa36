//! Did anything move?

use rusqlite::Connection;
use turnkeep_core::query::{Mark, Scope};
use turnkeep_core::{Result, SessionRef, WorkspaceId};

use crate::error::sql;
use crate::read::{Snapshot, find};
use crate::statement::Prepare as _;

pub(crate) fn changes(conn: &Connection, scope: &Scope) -> Result<Mark> {
    let _snapshot = Snapshot::begin(conn)?;
    match scope {
        Scope::Session { workspace, session } => of_session(conn, workspace, session),
        Scope::Workspace(workspace) => of_workspace(conn, workspace),
    }
}

fn of_session(conn: &Connection, workspace: &WorkspaceId, session: &SessionRef) -> Result<Mark> {
    let found = find(conn, workspace, session)?;
    Ok(Mark::new(found.revision.cast_unsigned()))
}

/// Both numbers only grow, so their sum differs whenever one of them moved: sessions move the activity, all else
/// the count of touches.
fn of_workspace(conn: &Connection, workspace: &WorkspaceId) -> Result<Mark> {
    const READ: &str = "SELECT w.touches + max(w.activity_floor, coalesce((
             SELECT s.activity FROM sessions s INDEXED BY sessions_by_activity
             WHERE s.wkey = w.wkey AND s.state <> 'deleted' ORDER BY s.activity DESC LIMIT 1), 0))
         FROM workspaces w WHERE w.id = ?1";
    let mut read = conn.prepared(READ).map_err(sql)?;
    let mut rows = read.query([workspace.as_str()]).map_err(sql)?;
    match rows.next().map_err(sql)? {
        Some(row) => {
            let moved: i64 = row.get(0).map_err(sql)?;
            Ok(Mark::new(moved.cast_unsigned()))
        }
        None => Ok(Mark::START),
    }
}
