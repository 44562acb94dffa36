//! The ways out: typed, bounded queries.
//!
//! Bounds are exclusive. A limit of 0 is `Invalid`; one above the store's page limit is served as that limit. A page
//! may end early when its payloads reach 8 MiB; it then has a `next` cursor, and always holds at least one item.

mod changes;
mod cursor;
mod entries;
mod events;
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
pub use records::{OwnerFilter, RecordQuery};
pub use rows::{RowQuery, RowSubject};
pub use runs::RunQuery;
pub use search::{BestHits, Fit, Found, HitPlace, Needle, SearchHit, SearchQuery, Term, words_of};
pub use sessions::{AudienceFilter, SessionOrder, SessionQuery};

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{Limits, PAGE_BYTES};
use crate::mutant;

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

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
    /// How many there are in all, when the query asked.
    pub total: Option<u64>,
}

impl<T> Page<T> {
    /// A page with nothing on it.
    #[must_use]
    pub fn empty() -> Self {
        Self { items: Vec::new(), next: None, total: None }
    }
}

/// Checks a limit and cuts it to the store's page limit.
///
/// # Errors
/// `Invalid` for 0.
pub fn page_limit(limit: u32, limits: &Limits) -> Result<usize> {
    if limit == 0 && !mutant::is("pages/limit-zero-is-served") {
        return Err(Error::new(ErrorKind::Invalid, "a limit of 0 asks for nothing; ask for at least 1"));
    }
    Ok(limit.min(mutant::either("pages/of-any-length", u32::MAX, limits.page_items)) as usize)
}

/// Collects a page within its bounds of items and bytes. For backends: feed it rows in scan order until it is full.
#[derive(Debug)]
pub struct PageBuilder<T> {
    items: Vec<T>,
    limit: usize,
    bytes: usize,
    full: bool,
}

impl<T> PageBuilder<T> {
    /// A page of at most `limit` items.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { items: Vec::with_capacity(limit.min(128)), limit, bytes: 0, full: false }
    }

    /// Adds an item of `bytes`. Answers `false`, without adding, when the page is full: stop scanning.
    pub fn push(&mut self, bytes: usize, item: impl FnOnce() -> T) -> bool {
        let over = self.bytes.saturating_add(bytes) > PAGE_BYTES
            && !self.items.is_empty()
            && !mutant::is("pages/of-any-bytes");
        if self.items.len() >= self.limit || over {
            self.full = true;
            return false;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.items.push(item());
        true
    }

    /// What it means that a row cannot be read: beyond a full page only that more follows, so that whoever reads one by
    /// one gets everything before it. Within the page, and for any other error, it is an error.
    ///
    /// # Errors
    /// The error itself.
    pub fn beyond(&mut self, error: Error) -> Result<bool> {
        if self.items.len() < self.limit || error.kind() != ErrorKind::Corrupt {
            return Err(error);
        }
        self.full = true;
        Ok(false)
    }

    /// Ends the page. `cursor` makes the cursor after the last item in scan order; it is asked only if more follows.
    ///
    /// # Errors
    /// Whatever `cursor` answers.
    pub fn finish(mut self, order: Order, cursor: impl FnOnce(&T) -> Result<Cursor>) -> Result<Page<T>> {
        let next = match (self.full, self.items.last()) {
            (true, Some(last)) if !mutant::is("pages/end-with-the-first") => Some(cursor(last)?),
            _ => None,
        };
        if order == Order::Latest && !mutant::is("pages/latest-is-newest-first") {
            self.items.reverse();
        }
        Ok(Page { items: self.items, next, total: None })
    }
}
