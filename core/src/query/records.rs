//! Reading records.

use serde::Serialize;

use crate::id::{Collection, RecordKey, SessionRef, Status, WorkspaceId};
use crate::query::{Cursor, DEFAULT_LIMIT, Order};

/// Whose records to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub enum OwnerFilter {
    /// Everybody's and nobody's.
    #[default]
    Any,
    /// Nobody's.
    Unowned,
    /// This session's (`NotFound` if this life of it is over).
    Session(SessionRef),
}

/// Which records of a collection to read: by ordinal, then by key (bytewise). Records of deleted or hidden sessions
/// read as absent.
#[derive(Clone, Debug, Serialize)]
pub struct RecordQuery {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The collection.
    pub collection: Collection,
    /// Only the record with this key.
    pub key: Option<RecordKey>,
    /// Whose.
    pub owner: OwnerFilter,
    /// Only in this status.
    pub status: Option<Status>,
    /// The order.
    pub order: Order,
    /// At most this many.
    #[serde(skip)]
    pub limit: u32,
    /// Where to go on.
    #[serde(skip)]
    pub cursor: Option<Cursor>,
}

impl RecordQuery {
    /// All of a collection, ascending.
    #[must_use]
    pub fn new(workspace: WorkspaceId, collection: Collection) -> Self {
        Self {
            workspace,
            collection,
            key: None,
            owner: OwnerFilter::Any,
            status: None,
            order: Order::Ascending,
            limit: DEFAULT_LIMIT,
            cursor: None,
        }
    }
}
