//! Ranked full-text search: a capability.

use serde::Serialize;

use crate::id::{EntryNo, SessionRef, WorkspaceId};
use crate::query::{Cursor, DEFAULT_LIMIT};

/// What to search for. The text is literal: no operator in it means anything.
#[derive(Clone, Debug, Serialize)]
pub struct SearchQuery {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The words.
    pub text: String,
    /// Only in this session.
    pub session: Option<SessionRef>,
    /// At most this many.
    #[serde(skip)]
    pub limit: u32,
    /// Where to go on.
    #[serde(skip)]
    pub cursor: Option<Cursor>,
}

impl SearchQuery {
    /// Everything in a workspace that has these words.
    #[must_use]
    pub fn new(workspace: WorkspaceId, text: impl Into<String>) -> Self {
        Self { workspace, text: text.into(), session: None, limit: DEFAULT_LIMIT, cursor: None }
    }
}

/// An entry that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// The session.
    pub session: SessionRef,
    /// The entry.
    pub entry: EntryNo,
    /// Higher fits better.
    pub score: f64,
    /// The place in the text.
    pub snippet: String,
}
