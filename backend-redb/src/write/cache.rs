//! Session rows that the writer has at hand.
//!
//! Nearly every commit needs a session row that an earlier commit of this store wrote. They are dropped after a
//! rollback.

use std::collections::HashMap;

use redb::WriteTransaction;
use turnkeep_core::id::SessionId;
use turnkeep_core::model::SessionRow;
use turnkeep_core::{Result, SessionRef, WorkspaceId};

use crate::codec::Value;
use crate::read::{WorkspaceRow, head_by_id, profile, workspace, workspace_key};
use crate::tables;
use crate::write::rows::{count_up, put};

/// Bytes, roughly, that the rows at hand may take.
const MOST_BYTES: usize = 32 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Cache {
    workspaces: HashMap<WorkspaceId, WorkspaceRow>,
    sessions: HashMap<(u64, SessionId), Cached>,
    bytes: usize,
}

/// A session that is not deleted, with its key.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    pub(super) skey: u64,
    pub(super) row: SessionRow,
}

impl Cache {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The key of a workspace, if it was ever written to.
    pub(super) fn workspace(&mut self, from: &WriteTransaction, id: &WorkspaceId) -> Result<Option<u64>> {
        if let Some(row) = self.workspaces.get(id) {
            return Ok(Some(row.wkey));
        }
        let found = workspace(from, id)?;
        if let Some(row) = found {
            self.workspaces.insert(id.clone(), row);
        }
        Ok(found.map(|row| row.wkey))
    }

    /// The key of a workspace, which is made when needed.
    pub(super) fn workspace_or_new(&mut self, to: &WriteTransaction, id: &WorkspaceId) -> Result<u64> {
        if let Some(wkey) = self.workspace(to, id)? {
            return Ok(wkey);
        }
        let wkey = count_up(to, "next_workspace")?;
        self.write_workspace(to, id, WorkspaceRow { wkey, mark: 0 })?;
        Ok(wkey)
    }

    /// Moves the mark of a workspace.
    pub(super) fn mark(&mut self, to: &WriteTransaction, id: &WorkspaceId, mark: u64) -> Result<()> {
        let wkey = self.workspace_or_new(to, id)?;
        self.write_workspace(to, id, WorkspaceRow { wkey, mark })
    }

    fn write_workspace(&mut self, to: &WriteTransaction, id: &WorkspaceId, row: WorkspaceRow) -> Result<()> {
        let value = Value::new().u64(row.wkey).u64(row.mark);
        put(to, tables::WORKSPACES, &workspace_key(id), value)?;
        self.workspaces.insert(id.clone(), row);
        Ok(())
    }

    /// A session in use or being built.
    pub(super) fn session(
        &mut self,
        from: &WriteTransaction,
        wkey: u64,
        workspace: &WorkspaceId,
        id: &SessionId,
    ) -> Result<Option<&Cached>> {
        let key = (wkey, id.clone());
        if !self.sessions.contains_key(&key) {
            let Some((skey, head)) = head_by_id(from, wkey, id)? else { return Ok(None) };
            let row = head.with(workspace, profile(from, skey)?);
            self.put(wkey, Cached { skey, row });
        }
        Ok(self.sessions.get(&key))
    }

    /// The key of one life of a session; `None` when it is over.
    pub(super) fn life(
        &mut self,
        from: &WriteTransaction,
        wkey: u64,
        workspace: &WorkspaceId,
        session: &SessionRef,
    ) -> Result<Option<u64>> {
        let found = self.session(from, wkey, workspace, &session.id)?;
        Ok(found.filter(|found| found.row.incarnation == session.incarnation).map(|found| found.skey))
    }

    pub(super) fn put(&mut self, wkey: u64, session: Cached) {
        let meta = session.row.profile.meta.as_ref().map_or(0, |meta| meta.as_str().len());
        self.bytes = self.bytes.saturating_add(meta + 1024);
        if self.bytes > MOST_BYTES {
            self.sessions.clear();
            self.bytes = meta + 1024;
        }
        self.sessions.insert((wkey, session.row.id.clone()), session);
    }

    pub(super) fn forget(&mut self, wkey: u64, id: &SessionId) {
        self.sessions.remove(&(wkey, id.clone()));
    }
}
