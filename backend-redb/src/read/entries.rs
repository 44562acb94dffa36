//! Entries of a session, all or along a path.

use std::collections::BTreeSet;

use turnkeep_core::id::EntryKey;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Entry, entry_kind};
use turnkeep_core::query::{EntryQuery, PageBuilder, PathTo, page_limit};
use turnkeep_core::{Cursor, EntryNo, Error, ErrorKind, Page, Result};

use crate::codec::{Fields, Key};
use crate::error::damaged;
use crate::read::{find, number_with_key, segment_at};
use crate::rows::{Head, entry_key, read_entry};
use crate::source::{Source, Span, Toward};
use crate::tables;

pub(crate) fn entries(source: &dyn Source, query: &EntryQuery, limits: &Limits) -> Result<Page<Entry>> {
    let page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position: Option<EntryNo> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
    let (skey, head) = find(source, &query.workspace, &query.session)?;
    let end = path_end(source, query, skey, &head)?;
    let mut scan = Scan { source, query, skey, last: head.head.map_or(0, EntryNo::get), page };
    let keyed = |key: &EntryKey| number_with_key(source, skey, key.as_str());
    if let Some((low, high)) = query.number_range(position, keyed)? {
        let (low, high) = (low.get(), high.get());
        match end {
            PathEnd::NoPath => {
                scan.range(low, high)?;
            }
            PathEnd::Empty => {}
            PathEnd::At(leaf) => along_path(&mut scan, leaf, low, high)?,
        }
    }
    scan.page.finish(query.order, |last| Cursor::seal(query, &last.number))
}

/// Where the path that is asked for ends.
enum PathEnd {
    NoPath,
    Empty,
    At(u32),
}

fn path_end(source: &dyn Source, query: &EntryQuery, skey: u64, head: &Head) -> Result<PathEnd> {
    match query.path {
        None => Ok(PathEnd::NoPath),
        Some(PathTo::Leaf) => Ok(head.path.leaf.map_or(PathEnd::Empty, |leaf| PathEnd::At(leaf.get()))),
        Some(PathTo::Entry(number)) => {
            let key = entry_key(skey, number.get());
            let Some(body) = source.get(tables::ENTRIES, &key)? else {
                return Err(Error::new(ErrorKind::NotFound, "the session has no such entry")
                    .with("session", &query.session)
                    .with("entry", number));
            };
            if read_entry(key.as_bytes(), &body)?.on_path {
                return Ok(PathEnd::At(number.get()));
            }
            Err(Error::new(ErrorKind::Invalid, "the entry lies on no path; name the entry it stands beside")
                .with("session", &query.session)
                .with("entry", number))
        }
    }
}

/// Visits the ranges of a path. From the newest end it looks up a segment only when the page gets that far; from the
/// root it needs the list of ranges first, but none of their entries.
fn along_path(scan: &mut Scan<'_>, leaf: u32, low: u32, high: u32) -> Result<()> {
    let newest_first = scan.query.order.from_newest();
    let mut ranges = Vec::new();
    let mut end = Some(leaf);
    while let Some(last) = end.filter(|last| *last >= low) {
        let segment = segment_at(scan.source, scan.skey, last)?.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "the path of the session has no segment here; verify the store")
                .with("session", &scan.query.session)
                .with("entry", last)
        })?;
        let (from, to) = (segment.first.max(low), last.min(high));
        if from <= to {
            if !newest_first {
                ranges.push((from, to));
            } else if !scan.range(from, to)? {
                return Ok(());
            }
        }
        end = segment.parent.map(EntryNo::get);
    }
    for (from, to) in ranges.into_iter().rev() {
        if !scan.range(from, to)? {
            break;
        }
    }
    Ok(())
}

/// Offers entries to a page.
struct Scan<'a> {
    source: &'a dyn Source,
    query: &'a EntryQuery,
    skey: u64,
    /// The head of the session: numbers up to here have no gap.
    last: u32,
    page: PageBuilder<Entry>,
}

impl Scan<'_> {
    /// Offers the entries of a range in scan order; `false` when the page takes no more.
    fn range(&mut self, from: u32, to: u32) -> Result<bool> {
        let to = to.min(self.last);
        if from > to {
            return Ok(true);
        }
        // Ordinary messages are in no index of kinds: where they are asked for, nearly all entries are anyway.
        let kinds = &self.query.kinds;
        if kinds.is_empty() || kinds.iter().any(|kind| kind.as_str() == entry_kind::MESSAGE) {
            self.every(from, to)
        } else {
            self.of_kinds(from, to)
        }
    }

    fn every(&mut self, from: u32, to: u32) -> Result<bool> {
        let span = Span::all().from(entry_key(self.skey, from)).through(entry_key(self.skey, to));
        let newest_first = self.query.order.from_newest();
        let mut expected = if newest_first { to } else { from };
        let mut seen = 0;
        let (query, page) = (self.query, &mut self.page);
        let open = self.source.scan(
            tables::ENTRIES,
            &span,
            Toward::newest_first(newest_first),
            &mut |key, body| {
                let entry = read_entry(key, body)?;
                // The numbers of a session have no gap, so one that is missed was lost.
                if entry.number.get() != expected {
                    return Err(lost(query, expected));
                }
                seen += 1;
                expected = if newest_first { expected.wrapping_sub(1) } else { expected.wrapping_add(1) };
                Ok(offer(query, page, entry))
            },
        )?;
        if open && seen != to - from + 1 {
            return Err(lost(query, expected));
        }
        Ok(open)
    }

    fn of_kinds(&mut self, from: u32, to: u32) -> Result<bool> {
        let mut numbers = BTreeSet::new();
        for kind in &self.query.kinds {
            let prefix = || Key::new().u64(self.skey).text(kind.as_str());
            let span = Span::all().from(prefix().u32(from)).through(prefix().u32(to));
            self.source.scan(tables::ENTRY_KINDS, &span, Toward::Higher, &mut |key, _| {
                let mut fields = Fields::of_key(tables::ENTRY_KINDS, key);
                fields.u64()?;
                fields.text()?;
                numbers.insert(fields.u32()?);
                Ok(true)
            })?;
        }
        let numbers: Vec<u32> = match self.query.order.from_newest() {
            true => numbers.into_iter().rev().collect(),
            false => numbers.into_iter().collect(),
        };
        for number in numbers {
            let key = entry_key(self.skey, number);
            let body = self.source.get(tables::ENTRIES, &key)?.ok_or_else(|| lost(self.query, number))?;
            let entry = read_entry(key.as_bytes(), &body)?;
            if !self.query.kinds.contains(&entry.kind) {
                return Err(damaged(tables::ENTRY_KINDS, "kind"));
            }
            if !offer(self.query, &mut self.page, entry) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn offer(query: &EntryQuery, page: &mut PageBuilder<Entry>, entry: Entry) -> bool {
    let fits = query.admits(&entry) && (query.path.is_none() || entry.on_path);
    !fits || page.push(entry)
}

fn lost(query: &EntryQuery, number: u32) -> Error {
    Error::new(ErrorKind::Corrupt, "an entry of the session is lost; verify the store, or restore a backup")
        .with("session", &query.session)
        .with("entry", number)
}
