//! Pages, and how backends fill them.

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{Limits, PAGE_BYTES};
use crate::model::{Entry, Event, Record, Row, Run, SessionImage, SessionRow};
use crate::mutant;
use crate::payload::Payload;
use crate::query::{Cursor, Order};

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

/// What a page is made of.
pub trait PageItem {
    /// How much it fills a page: the bytes of its payloads and texts, roughly.
    fn bytes(&self) -> usize;
}

fn payload_bytes(payload: Option<&Payload>) -> usize {
    payload.map_or(0, |payload| payload.as_str().len())
}

impl PageItem for Entry {
    fn bytes(&self) -> usize {
        self.payload.as_str().len() + self.text.as_ref().map_or(0, String::len)
    }
}

impl PageItem for Run {
    fn bytes(&self) -> usize {
        [&self.error, &self.progress, &self.context_usage]
            .map(|json| payload_bytes(json.as_ref()))
            .iter()
            .sum()
    }
}

impl PageItem for SessionRow {
    fn bytes(&self) -> usize {
        payload_bytes(self.profile.meta.as_ref())
    }
}

impl PageItem for SessionImage {
    fn bytes(&self) -> usize {
        payload_bytes(self.profile.meta.as_ref())
    }
}

impl PageItem for Event {
    fn bytes(&self) -> usize {
        self.payload.as_str().len()
    }
}

impl PageItem for Record {
    fn bytes(&self) -> usize {
        self.payload.as_str().len()
    }
}

impl PageItem for Row {
    fn bytes(&self) -> usize {
        match self {
            Self::Session(image) => image.bytes(),
            Self::Entry(entry) => entry.bytes(),
            Self::Run(run) => run.bytes(),
            Self::Stream(_) => 0,
            Self::Event { event, .. } => event.bytes(),
            Self::Record(record) => record.bytes(),
        }
    }
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

    /// Adds an item. Answers `false`, without adding, when the page is full: stop scanning.
    pub fn push(&mut self, item: T) -> bool
    where
        T: PageItem,
    {
        self.push_with(item.bytes(), || item)
    }

    /// Adds an item of `bytes` that is made only if there is room. Answers `false`, without adding, when the page is
    /// full: stop scanning.
    pub fn push_with(&mut self, bytes: usize, item: impl FnOnce() -> T) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Clauses damage nothing, so they do not come past this.
    #[test]
    fn a_row_that_cannot_be_read_ends_a_full_page_and_fails_any_other() {
        let corrupt = || Error::new(ErrorKind::Corrupt, "damaged");
        let mut page = PageBuilder::new(1);
        assert!(page.beyond(corrupt()).is_err(), "there is room for it");
        assert!(page.push_with(1, || 1));
        let error = page.beyond(Error::new(ErrorKind::Io, "gone")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(!page.full);
        assert!(!page.beyond(corrupt()).unwrap());
        assert!(page.full && page.items == [1]);
        // More than full, as a page over its bytes is.
        let mut page = PageBuilder { items: vec![1, 2], limit: 1, bytes: 0, full: false };
        assert!(!page.beyond(corrupt()).unwrap());
    }
}
