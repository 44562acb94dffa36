//! Reading everything that a session is, in the order in which it is restored: for copies and exports.

use serde::Serialize;

use crate::id::{SessionRef, WorkspaceId};
use crate::model::RowKind;
use crate::query::{Cursor, DEFAULT_LIMIT};

/// Whose rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum RowSubject {
    /// A session: its image, entries, runs, streams, events and records, in that order (`RowKind`).
    Session(SessionRef),
    /// The records of a workspace that no session owns, by collection and key (both bytewise).
    Unowned,
}

/// Which rows to read, always ascending.
#[derive(Clone, Debug, Serialize)]
pub struct RowQuery {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Whose rows.
    pub subject: RowSubject,
    /// Only these kinds; empty means all.
    pub kinds: Vec<RowKind>,
    /// At most this many.
    #[serde(skip)]
    pub limit: u32,
    /// Where to go on.
    #[serde(skip)]
    pub cursor: Option<Cursor>,
}

impl RowQuery {
    /// Everything of a session.
    #[must_use]
    pub fn session(workspace: WorkspaceId, session: SessionRef) -> Self {
        let subject = RowSubject::Session(session);
        Self { workspace, subject, kinds: Vec::new(), limit: DEFAULT_LIMIT, cursor: None }
    }

    /// The records that nobody owns.
    #[must_use]
    pub fn unowned(workspace: WorkspaceId) -> Self {
        Self {
            workspace,
            subject: RowSubject::Unowned,
            kinds: Vec::new(),
            limit: DEFAULT_LIMIT,
            cursor: None,
        }
    }

    /// Whether rows of this kind are asked for.
    #[must_use]
    pub fn wants(&self, kind: RowKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}
