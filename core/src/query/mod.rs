//! The ways out: typed, bounded queries.
//!
//! Bounds are exclusive. A limit of 0 is `Invalid`; one above the store's page limit is served as that limit. A page
//! may end early when its payloads reach 8 MiB; it then has a `next` cursor, and always holds at least one item.

mod changes;
mod cursor;
mod entries;
mod events;
mod page;
mod records;
mod rows;
mod runs;
mod search;
mod sessions;

use serde::{Deserialize, Serialize};

pub use changes::{Mark, Scope};
pub use cursor::Cursor;
pub use entries::{EntryQuery, PathTo};
pub use events::EventQuery;
pub use page::{Page, PageBuilder, PageItem, page_limit};
pub use records::{OwnerFilter, RecordQuery};
pub use rows::{RowPlace, RowQuery, RowSubject};
pub use runs::RunQuery;
pub use search::{BestHits, Fit, Found, HitPlace, Needle, SearchHit, SearchQuery, Term, words_of};
pub use sessions::{AudienceFilter, SessionOrder, SessionQuery};

use crate::error::{Error, ErrorKind};
use crate::id::{SessionRef, WorkspaceId};

/// The default limit of a query.
pub const DEFAULT_LIMIT: u32 = 100;

/// In which direction, and from which end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// From the first, ascending.
    #[default]
    Ascending,
    /// From the newest, descending.
    Descending,
    /// The newest `limit`, given ascending. The next page holds those before them, ascending too.
    Latest,
}

impl Order {
    /// Whether rows are taken from the newest end.
    #[must_use]
    pub const fn from_newest(self) -> bool {
        !matches!(self, Self::Ascending)
    }
}

/// What a read of an unknown session answers, and of a life that is over.
#[must_use]
pub fn no_session(workspace: &WorkspaceId, session: &SessionRef) -> Error {
    Error::new(ErrorKind::NotFound, "there is no such session, or this life of it is over")
        .with("workspace", workspace)
        .with("session", session)
}
