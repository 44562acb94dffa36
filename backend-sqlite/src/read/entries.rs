//! Entries of a session, all or along a path.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use turnkeep_core::id::EntryKey;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Entry, VisibilitySet, entry_kind};
use turnkeep_core::query::{EntryQuery, PageBuilder, PathTo, page_limit};
use turnkeep_core::{Cursor, EntryNo, Error, ErrorKind, Page, Result, SessionRef};

use crate::columns::{ENTRY_COLUMNS, EntryReader, Fields, number_of, row_key};
use crate::error::sql;
use crate::read::sql::{Sql, direction, list};
use crate::read::{Snapshot, find};
use crate::statement::Prepare as _;

pub(crate) fn entries(conn: &Connection, query: &EntryQuery, limits: &Limits) -> Result<Page<Entry>> {
    let page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position: Option<EntryNo> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
    let _snapshot = Snapshot::begin(conn)?;
    let found = find(conn, &query.workspace, &query.session)?;
    let end = path_end(conn, query, found.skey, found.leaf)?;
    let mut scan = Scan::new(conn, query, found.skey, page)?;
    let keyed = |key: &EntryKey| number_with_key(conn, found.skey, key);
    if let Some((low, high)) = query.number_range(position, keyed)? {
        let (low, high) = (low.get(), high.get());
        match end {
            PathEnd::NoPath => {
                scan.range(low, high)?;
            }
            PathEnd::Empty => {}
            PathEnd::At(leaf) => along_path(&mut scan, query, leaf, low, high)?,
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

fn path_end(conn: &Connection, query: &EntryQuery, skey: i64, leaf: Option<u32>) -> Result<PathEnd> {
    match query.path {
        None => Ok(PathEnd::NoPath),
        Some(PathTo::Leaf) => Ok(leaf.map_or(PathEnd::Empty, PathEnd::At)),
        Some(PathTo::Entry(number)) => {
            let on_path: Option<bool> = conn
                .prepared("SELECT on_path FROM entries WHERE rid = ?1")
                .and_then(|mut look| {
                    look.query_row([row_key(skey, number.get())], |row| row.get(0)).optional()
                })
                .map_err(sql)?;
            match on_path {
                Some(true) => Ok(PathEnd::At(number.get())),
                Some(false) => Err(Error::new(
                    ErrorKind::Invalid,
                    "the entry lies on no path; name the entry it stands beside",
                )
                .with("session", &query.session)
                .with("entry", number)),
                None => Err(Error::new(ErrorKind::NotFound, "the session has no such entry")
                    .with("session", &query.session)
                    .with("entry", number)),
            }
        }
    }
}

/// The number of the entry with a key.
pub(crate) fn number_with_key(conn: &Connection, skey: i64, key: &EntryKey) -> Result<Option<EntryNo>> {
    const FIND: &str = "SELECT rid FROM entries WHERE rid >> 32 = ?1 AND key = ?2";
    let rid: Option<i64> = conn
        .prepared(FIND)
        .and_then(|mut find| find.query_row(params![skey, key.as_str()], |row| row.get(0)).optional())
        .map_err(sql)?;
    Ok(rid.map(number_of).and_then(EntryNo::new))
}

/// Visits the ranges of a path. From the newest end it looks up a segment only when the page gets that far; from
/// the root it needs the list of ranges first, but none of their entries.
fn along_path(scan: &mut Scan<'_>, query: &EntryQuery, leaf: u32, low: u32, high: u32) -> Result<()> {
    let mut ranges = Vec::new();
    let mut end = Some(leaf);
    while let Some(last) = end.filter(|last| *last >= low) {
        let (first, parent) = segment(scan.conn, scan.skey, last, &query.session)?;
        let (from, to) = (first.max(low), last.min(high));
        if from <= to {
            if query.order.from_newest() {
                if !scan.range(from, to)? {
                    return Ok(());
                }
            } else {
                ranges.push((from, to));
            }
        }
        end = parent;
    }
    for (from, to) in ranges.into_iter().rev() {
        if !scan.range(from, to)? {
            break;
        }
    }
    Ok(())
}

/// The first number of the segment at a number, and the parent of that entry.
fn segment(conn: &Connection, skey: i64, at: u32, session: &SessionRef) -> Result<(u32, Option<u32>)> {
    const FIND: &str =
        "SELECT first, parent FROM segments WHERE skey = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1";
    let found: Option<(u32, Option<u32>)> = conn
        .prepared(FIND)
        .and_then(|mut find| {
            find.query_row(params![skey, at], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
        .map_err(sql)?;
    match found {
        // A parent that is not older than its child would make the walk endless.
        Some((first, parent)) if parent.is_none_or(|parent| parent < first) => Ok((first, parent)),
        _ => Err(Error::new(
            ErrorKind::Corrupt,
            "the path of the session has no segment here; verify the store",
        )
        .with("session", session)
        .with("entry", at)),
    }
}

/// One prepared scan, run once per range.
struct Scan<'c> {
    conn: &'c Connection,
    skey: i64,
    text: String,
    values: Vec<Value>,
    visible: VisibilitySet,
    only_paths: bool,
    reader: EntryReader,
    page: PageBuilder<Entry>,
}

impl<'c> Scan<'c> {
    fn new(conn: &'c Connection, query: &EntryQuery, skey: i64, page: PageBuilder<Entry>) -> Result<Self> {
        let Sql { text, values } = statement(query, skey)?;
        let (visible, only_paths) = (query.visibility, query.path.is_some());
        Ok(Self { conn, skey, text, values, visible, only_paths, reader: EntryReader::new(), page })
    }

    /// Offers the entries of a range in scan order; `false` when the page takes no more.
    fn range(&mut self, from: u32, to: u32) -> Result<bool> {
        // The first two values are the bounds.
        for (place, number) in self.values.iter_mut().zip([from, to]) {
            *place = Value::Integer(row_key(self.skey, number));
        }
        let mut statement = self.conn.prepared(&self.text).map_err(sql)?;
        let mut rows = statement.query(params_from_iter(&self.values)).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            // What nearly every row passes is compared here and not in the engine, before the content is copied.
            let fits =
                |on_path, visibility| self.visible.contains(visibility) && (on_path || !self.only_paths);
            let Some(entry) = self.reader.read_if(&mut Fields::new("entries", row), fits)? else { continue };
            if !self.page.push(entry) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The scan of a range with the filters of a query. `EntryQuery::admits` says the same in Rust.
fn statement(query: &EntryQuery, skey: i64) -> Result<Sql> {
    let mut text = Sql::new(format!("SELECT {ENTRY_COLUMNS} FROM entries "));
    // Ordinary messages are in no index of kinds: where they are asked for, nearly all entries are anyway.
    let rare = !query.kinds.is_empty() && query.kinds.iter().all(|kind| kind.as_str() != entry_kind::MESSAGE);
    let one = query.kinds.first().filter(|_| query.kinds.len() == 1);
    match (rare, one) {
        (true, Some(kind)) => {
            text.push("INDEXED BY entries_by_kind ");
            range_of(&mut text);
            text.bind("AND rid >> 32 = ? ", skey);
            text.bind("AND kind = ? AND kind <> 'message' ", kind.as_str().to_owned());
        }
        (true, None) => {
            text.push("WHERE rid IN (SELECT rid FROM entries INDEXED BY entries_by_kind ");
            range_of(&mut text);
            text.bind("AND rid >> 32 = ? AND kind <> 'message' ", skey);
            kinds_of(&mut text, query)?;
            text.push(") ");
        }
        (false, _) => {
            text.push("NOT INDEXED ");
            range_of(&mut text);
            if !query.kinds.is_empty() {
                kinds_of(&mut text, query)?;
            }
        }
    }
    if !query.roles.is_empty() {
        let roles = list(query.roles.iter().map(AsRef::as_ref))?;
        text.bind("AND role IN (SELECT value FROM json_each(?)) ", roles);
    }
    text.bind_some("AND run = ? ", query.run.as_ref().map(|run| run.as_str().to_owned()));
    text.bind_some("AND turn = ? ", query.turn.as_ref().map(|turn| turn.as_str().to_owned()));
    text.push("ORDER BY rid ").push(direction(query.order));
    Ok(text)
}

/// The bounds, bound anew for each range.
fn range_of(text: &mut Sql) {
    text.bind("WHERE rid >= ? ", 0_i64);
    text.bind("AND rid <= ? ", 0_i64);
}

fn kinds_of(text: &mut Sql, query: &EntryQuery) -> Result<()> {
    let kinds = list(query.kinds.iter().map(AsRef::as_ref))?;
    text.bind("AND kind IN (SELECT value FROM json_each(?)) ", kinds);
    Ok(())
}

#[cfg(test)]
mod tests {
    use turnkeep_core::id::EntryKind;
    use turnkeep_core::{Incarnation, Order, SessionId, WorkspaceId};

    use super::*;
    use crate::read::plans::check;

    fn query() -> EntryQuery {
        let id = SessionId::new("s").unwrap();
        let session = SessionRef { id, incarnation: Incarnation::from_bytes([0; 16]) };
        EntryQuery::new(WorkspaceId::new("w").unwrap(), session)
    }

    fn kinds(names: &[&str]) -> Vec<EntryKind> {
        names.iter().map(|name| EntryKind::new(name).unwrap()).collect()
    }

    #[test]
    fn a_range_is_one_walk_along_the_row_keys() {
        for order in [Order::Ascending, Order::Descending, Order::Latest] {
            let by_key = &["SEARCH entries USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"];
            check(statement(&EntryQuery { order, ..query() }, 1), by_key);
            let path = Some(PathTo::Leaf);
            check(statement(&EntryQuery { order, path, kinds: kinds(&["message"]), ..query() }, 1), by_key);
        }
    }

    #[test]
    fn a_rare_kind_is_one_walk_along_its_index_within_the_bounds() {
        for order in [Order::Ascending, Order::Descending, Order::Latest] {
            let query = EntryQuery { order, kinds: kinds(&["compaction"]), ..query() };
            check(statement(&query, 1), &["entries_by_kind (<expr>=? AND kind=? AND rowid>? AND rowid<?)"]);
        }
    }

    #[test]
    fn several_rare_kinds_are_looked_up_in_the_index_first() {
        let query = EntryQuery { kinds: kinds(&["turn_start", "turn_end"]), ..query() };
        check(
            statement(&query, 1),
            &["SEARCH entries USING INTEGER PRIMARY KEY", "entries_by_kind (<expr>=?"],
        );
    }
}
