//! Reading runs.

use serde::Serialize;

use crate::id::{IntentId, RunId, SessionRef, WorkspaceId};
use crate::model::RunStates;
use crate::query::{Cursor, DEFAULT_LIMIT, Order};

/// Which runs to read: by session id (bytewise), then by their number in the session.
#[derive(Clone, Debug, Serialize)]
pub struct RunQuery {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Only of this session (`NotFound` if this life of it is over); `None` reads the whole workspace.
    pub session: Option<SessionRef>,
    /// Only the run with this id.
    pub id: Option<RunId>,
    /// Only in these states.
    pub states: RunStates,
    /// Only attempts at this request.
    pub intent: Option<IntentId>,
    /// The order.
    pub order: Order,
    /// At most this many.
    #[serde(skip)]
    pub limit: u32,
    /// Where to go on.
    #[serde(skip)]
    pub cursor: Option<Cursor>,
}

impl RunQuery {
    /// All runs of a workspace, ascending.
    #[must_use]
    pub fn new(workspace: WorkspaceId) -> Self {
        Self {
            workspace,
            session: None,
            id: None,
            states: RunStates::ALL,
            intent: None,
            order: Order::Ascending,
            limit: DEFAULT_LIMIT,
            cursor: None,
        }
    }
}
