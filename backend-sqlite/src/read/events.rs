//! Events of one stream.

use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use turnkeep_core::limits::Limits;
use turnkeep_core::model::Event;
use turnkeep_core::query::{EventQuery, PageBuilder, page_limit};
use turnkeep_core::{Cursor, Page, Result};

use crate::columns::{EVENT_COLUMNS, Fields, event};
use crate::error::sql;
use crate::read::sql::{Sql, direction};
use crate::read::{Snapshot, find};
use crate::statement::Prepare as _;

pub(crate) fn events(conn: &Connection, query: &EventQuery, limits: &Limits) -> Result<Page<Event>> {
    let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position: Option<u64> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
    let _snapshot = Snapshot::begin(conn)?;
    let found = find(conn, &query.workspace, &query.session)?;
    let Some(stkey) = stream_key(conn, found.skey, query.stream.as_str())? else { return Ok(Page::empty()) };
    let (mut above, mut below) = (query.after, query.before);
    if query.order.from_newest() {
        below = [below, position].into_iter().flatten().min();
    } else {
        above = above.max(position);
    }
    let mut text = Sql::new(format!("SELECT {EVENT_COLUMNS} FROM events "));
    text.bind("WHERE stkey = ? ", stkey);
    // Numbers beyond the engine's integers exist in no stream.
    text.bind_some("AND number > ? ", above.map(|above| i64::try_from(above).unwrap_or(i64::MAX)));
    text.bind_some("AND number < ? ", below.and_then(|below| i64::try_from(below).ok()));
    text.bind_some("AND run = ? ", query.run.as_ref().map(|run| run.as_str().to_owned()));
    text.push("ORDER BY number ").push(direction(query.order));
    let mut statement = conn.prepared(&text.text).map_err(sql)?;
    let mut rows = statement.query(params_from_iter(&text.values)).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        let event = event(&mut Fields::new("events", row))?;
        if !page.push(event) {
            break;
        }
    }
    page.finish(query.order, |last| Cursor::seal(query, &last.number))
}

/// The key of a stream; `None` while nobody wrote to it.
pub(crate) fn stream_key(conn: &Connection, skey: i64, name: &str) -> Result<Option<i64>> {
    conn.prepared("SELECT stkey FROM streams WHERE skey = ?1 AND name = ?2")
        .and_then(|mut find| find.query_row(params![skey, name], |row| row.get(0)).optional())
        .map_err(sql)
}
