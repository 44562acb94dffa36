//! Records of a collection, in their order.

use rusqlite::{Connection, params_from_iter};
use turnkeep_core::id::RecordKey;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::Record;
use turnkeep_core::query::{OwnerFilter, PageBuilder, RecordQuery, page_limit};
use turnkeep_core::{Cursor, Page, Result};

use crate::columns::{Fields, RECORD_COLUMNS, int, record};
use crate::error::sql;
use crate::read::sql::{Sql, beyond, direction};
use crate::read::{Snapshot, find, workspace_key};
use crate::statement::Prepare as _;

/// A place in a list of records.
type Place = (u64, RecordKey);

pub(crate) fn records(conn: &Connection, query: &RecordQuery, limits: &Limits) -> Result<Page<Record>> {
    let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position: Option<Place> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
    let _snapshot = Snapshot::begin(conn)?;
    let owner = match &query.owner {
        OwnerFilter::Session(session) => Some(find(conn, &query.workspace, session)?.skey),
        OwnerFilter::Any | OwnerFilter::Unowned => None,
    };
    let Some(wkey) = workspace_key(conn, &query.workspace)? else { return Ok(Page::empty()) };
    let text = statement(query, wkey, owner, position)?;
    let mut statement = conn.prepared(&text.text).map_err(sql)?;
    let mut rows = statement.query(params_from_iter(&text.values)).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        let record = match record(&mut Fields::new("records", row)) {
            Ok(found) => found.record,
            Err(error) => {
                page.beyond(error)?;
                break;
            }
        };
        if !page.push(record) {
            break;
        }
    }
    page.finish(query.order, |last| Cursor::seal(query, &(last.ordinal, &last.key)))
}

fn statement(query: &RecordQuery, wkey: i64, owner: Option<i64>, position: Option<Place>) -> Result<Sql> {
    let (way, next) = (direction(query.order), beyond(query.order));
    // Each list has an index in its order; named here, because the planner knows nothing of how many rows fit.
    let index = match (&query.key, owner, &query.status) {
        (Some(_), _, _) => "",
        (None, Some(_), _) => "INDEXED BY records_by_owner",
        (None, None, Some(_)) => "INDEXED BY records_by_status",
        (None, None, None) => "INDEXED BY records_in_order",
    };
    let mut text = Sql::new(format!(
        "SELECT {RECORD_COLUMNS} FROM records r {index} LEFT JOIN sessions o ON o.skey = r.owner "
    ));
    text.bind("WHERE r.wkey = ? ", wkey);
    text.bind("AND r.collection = ? ", query.collection.as_str().to_owned());
    text.push("AND (r.owner IS NULL OR o.state = 'active') ");
    text.bind_some("AND r.key = ? ", query.key.as_ref().map(|key| key.as_str().to_owned()));
    text.bind_some("AND r.owner = ? ", owner);
    if query.owner == OwnerFilter::Unowned {
        text.push("AND r.owner IS NULL ");
    }
    let status = query.status.as_ref().map(|status| status.as_str().to_owned());
    text.bind_some("AND r.status = ? ", status);
    if let Some((ordinal, key)) = position {
        text.bind(&format!("AND (r.ordinal, r.key) {next} (?, "), int(ordinal)?);
        text.bind("?) ", key.as_str().to_owned());
    }
    text.push(&format!("ORDER BY r.ordinal {way}, r.key {way}"));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use turnkeep_core::id::{Collection, Status};
    use turnkeep_core::{Order, WorkspaceId};

    use super::*;
    use crate::read::plans::check;

    fn query() -> RecordQuery {
        RecordQuery::new(WorkspaceId::new("w").unwrap(), Collection::new("c").unwrap())
    }

    #[test]
    fn each_list_of_records_walks_its_index() {
        let place = || Some((7, RecordKey::new("k").unwrap()));
        for order in [Order::Ascending, Order::Descending] {
            for position in [None, place()] {
                let all = RecordQuery { order, ..query() };
                check(statement(&all, 1, None, position.clone()), &["r USING INDEX records_in_order"]);
                check(statement(&all, 1, Some(5), position.clone()), &["r USING INDEX records_by_owner"]);
                let status = RecordQuery { status: Some(Status::new("open").unwrap()), ..all.clone() };
                check(statement(&status, 1, None, position.clone()), &["r USING INDEX records_by_status"]);
                let one = RecordQuery { key: Some(RecordKey::new("k").unwrap()), ..all };
                check(statement(&one, 1, None, position.clone()), &["(wkey=? AND collection=? AND key=?)"]);
            }
        }
    }
}
