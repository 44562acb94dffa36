//! The best hits of a scan, within bounds. For backends.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::limits::Limits;
use crate::mutant;
use crate::query::search::{Fit, SearchHit, SearchQuery};
use crate::query::{Cursor, Page, page_limit};

/// Where a hit stands in the ranking; the greatest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HitPlace {
    /// How well it fits.
    pub fit: Fit,
    /// A number of the session that grows with every session made in the store.
    pub session: u64,
    /// The number of the entry.
    pub entry: u32,
}

impl HitPlace {
    fn numbers(self) -> (u8, u64, u32) {
        (self.fit as u8, self.session, self.entry)
    }
}

/// Keeps the best hits that follow a cursor, no more than a page of them.
#[derive(Debug)]
pub struct BestHits {
    limit: usize,
    after: Option<(u8, u64, u32)>,
    /// One more than the page has, to know whether more follows.
    kept: BTreeMap<HitPlace, SearchHit>,
}

impl BestHits {
    /// Nothing yet.
    ///
    /// # Errors
    /// `Invalid` for a limit of 0 or a cursor that is not of this query.
    pub fn new(query: &SearchQuery, limits: &Limits) -> Result<Self> {
        let limit = page_limit(query.limit, limits)?;
        let after = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
        Ok(Self { limit, after, kept: BTreeMap::new() })
    }

    /// Whether a hit at this place would be kept.
    #[must_use]
    pub fn wants(&self, place: HitPlace) -> bool {
        let beyond = self.after.is_none_or(|after| place.numbers() < after);
        let better =
            self.kept.len() <= self.limit || self.kept.keys().next().is_some_and(|least| place > *least);
        beyond && better
    }

    /// Whether the page is full of better hits than one at this place, or than all that can follow it in order.
    #[must_use]
    pub fn is_full_before(&self, place: HitPlace) -> bool {
        self.kept.len() > self.limit && self.kept.keys().next().is_some_and(|least| place < *least)
    }

    /// Takes a hit in, if it is wanted; one that is there already is there once.
    pub fn offer(&mut self, place: HitPlace, hit: impl FnOnce() -> SearchHit) {
        if !self.wants(place) {
            return;
        }
        self.kept.insert(place, hit());
        if self.kept.len() > self.limit.saturating_add(1) {
            self.kept.pop_first();
        }
    }

    /// The page.
    ///
    /// # Errors
    /// When the cursor cannot be made.
    pub fn page(mut self, query: &SearchQuery) -> Result<Page<SearchHit>> {
        let more = self.kept.len() > self.limit;
        if more {
            self.kept.pop_first();
        }
        let last = self.kept.keys().next().copied();
        let next = match last {
            Some(last) if more => Some(Cursor::seal(query, &last.numbers())?),
            _ => None,
        };
        let mut items: Vec<SearchHit> = self.kept.into_values().rev().collect();
        if mutant::is("search/oldest-first") {
            items.reverse();
        }
        Ok(Page { items, next, total: None })
    }
}
