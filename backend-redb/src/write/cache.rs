//! Session rows that the writer has at hand.
//!
//! Nearly every commit needs a session row that an earlier commit of this store wrote. They are dropped after a
//! rollback.

use std::collections::HashMap;

use redb::WriteTransaction;
use turnkeep_core::id::SessionId;
use turnkeep_core::local::{SessionsAtHand, StoredSession};
use turnkeep_core::{Result, SessionRef, WorkspaceId};

use crate::codec::Value;
use crate::read::{WorkspaceRow, head_by_id, profile, workspace, workspace_key};
use crate::tables;
use crate::write::rows::{count_up, put};

#[derive(Debug, Default)]
pub(super) struct Cache {
    workspaces: HashMap<WorkspaceId, WorkspaceRow>,
    sessions: SessionsAtHand<u64>,
}

/// A session that is not deleted, with its key.
pub(super) type Cached = StoredSession<u64>;

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
        let found = self.sessions.get(wkey, id, || {
            let Some((skey, head)) = head_by_id(from, wkey, id)? else { return Ok(None) };
            Ok(Some(Cached { skey, row: head.with(workspace, profile(from, skey)?) }))
        })?;
        Ok(found.map(|found| &*found))
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
        Ok(found.and_then(|found| found.key_of(session)))
    }

    pub(super) fn put(&mut self, wkey: u64, session: Cached) {
        self.sessions.put(wkey, session);
    }

    pub(super) fn forget(&mut self, wkey: u64, id: &SessionId) {
        self.sessions.forget(wkey, id);
    }
}
