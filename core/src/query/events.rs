//! Reading events.

use serde::Serialize;

use crate::id::{RunId, SessionRef, StreamName, WorkspaceId};
use crate::query::{Cursor, DEFAULT_LIMIT, Order};

/// Which events of one stream to read. A stream that nobody wrote to is empty.
#[derive(Clone, Debug, Serialize)]
pub struct EventQuery {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The session; `NotFound` if this life of it is over.
    pub session: SessionRef,
    /// The stream.
    pub stream: StreamName,
    /// Only numbers above this.
    pub after: Option<u64>,
    /// Only numbers below this.
    pub before: Option<u64>,
    /// Only of this run.
    pub run: Option<RunId>,
    /// The order.
    pub order: Order,
    /// At most this many.
    #[serde(skip)]
    pub limit: u32,
    /// Where to go on.
    #[serde(skip)]
    pub cursor: Option<Cursor>,
}

impl EventQuery {
    /// All of a stream, ascending.
    #[must_use]
    pub fn new(workspace: WorkspaceId, session: SessionRef, stream: StreamName) -> Self {
        Self {
            workspace,
            session,
            stream,
            after: None,
            before: None,
            run: None,
            order: Order::Ascending,
            limit: DEFAULT_LIMIT,
            cursor: None,
        }
    }
}
