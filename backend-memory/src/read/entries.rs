//! Entries of a session, all or along a path.

use turnkeep_core::limits::Limits;
use turnkeep_core::model::Entry;
use turnkeep_core::mutant;
use turnkeep_core::query::{EntryQuery, PageBuilder, PageItem as _, PathTo, page_limit};
use turnkeep_core::{Cursor, EntryNo, Error, ErrorKind, Page, Result};

use crate::tables::{Life, Tables};

impl Tables {
    /// Entries of a session, all or along a path.
    ///
    /// # Errors
    /// `NotFound`, and `Invalid` for a limit of 0 or a cursor that is not of this query.
    pub fn entries(&self, query: &EntryQuery, limits: &Limits) -> Result<Page<Entry>> {
        let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
        let position: Option<EntryNo> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
        let life = self.session(&query.workspace, &query.session)?;
        let ranges = ranges(life, query, position)?;
        let scan = ranges.iter().flat_map(|&(first, last)| life.entries.range(first..=last));
        let mut add = |entry: &Entry| {
            let fits = query.admits(entry)
                && (query.path.is_none() || entry.on_path || mutant::is("memory/labels-on-the-path"));
            !fits || page.push_with(entry.bytes(), || entry.clone())
        };
        if query.order.from_newest() {
            let _ = scan.rev().all(|(_, entry)| add(entry));
        } else {
            let mut scan = scan;
            let _ = scan.all(|(_, entry)| add(entry));
        }
        page.finish(query.order, |last| Cursor::seal(query, &last.number))
    }
}

/// The number ranges to scan, ascending, narrowed by bounds, key and cursor. Costs one step per branch point.
fn ranges(life: &Life, query: &EntryQuery, position: Option<EntryNo>) -> Result<Vec<(EntryNo, EntryNo)>> {
    let Some((low, high)) = query.number_range(position, |key| Ok(life.keys.get(key).copied()))? else {
        // The path is still looked at, so that an unknown end is found whatever the bounds.
        path_end(life, query)?;
        return Ok(Vec::new());
    };
    let mut ranges = match path_end(life, query)? {
        PathEnd::NoPath => vec![(EntryNo::FIRST, EntryNo::MAX)],
        PathEnd::Empty => Vec::new(),
        PathEnd::At(leaf) => life.path_ranges(leaf, low.get())?,
    };
    ranges.reverse();
    ranges.retain_mut(|(first, last)| {
        *first = (*first).max(low);
        *last = (*last).min(high);
        first <= last
    });
    Ok(ranges)
}

enum PathEnd {
    NoPath,
    Empty,
    At(EntryNo),
}

fn path_end(life: &Life, query: &EntryQuery) -> Result<PathEnd> {
    match query.path {
        None => Ok(PathEnd::NoPath),
        Some(PathTo::Leaf) => Ok(life.row.path.leaf.map_or(PathEnd::Empty, PathEnd::At)),
        Some(PathTo::Entry(number)) => match life.entries.get(&number) {
            Some(entry) if entry.on_path || mutant::is("memory/path-from-anywhere") => {
                Ok(PathEnd::At(number))
            }
            Some(_) => Err(Error::new(
                ErrorKind::Invalid,
                "the entry lies on no path; name the entry it stands beside",
            )
            .with("session", &query.session)
            .with("entry", number)),
            None => Err(Error::new(ErrorKind::NotFound, "the session has no such entry")
                .with("session", &query.session)
                .with("entry", number)),
        },
    }
}
