//! Sessions: one by id, or a list.

use rusqlite::{Connection, params, params_from_iter};
use turnkeep_core::id::SessionId;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Audience, SessionRow};
use turnkeep_core::query::{AudienceFilter, PageBuilder, SessionOrder, SessionQuery, page_limit};
use turnkeep_core::{Order, Page, Result, SessionKey};

use crate::columns::{
    Fields, SESSION_COLUMNS, audience_name, int, session as session_row, session_state_name,
};
use crate::error::sql;
use crate::read::sql::Sql;
use crate::read::{Snapshot, workspace_key};
use crate::statement::Prepare as _;

/// A place in either order: the activity number, 0 in the order by id, and the id.
type Place = (u64, SessionId);

pub(crate) fn session(conn: &Connection, key: &SessionKey) -> Result<Option<SessionRow>> {
    let _snapshot = Snapshot::begin(conn)?;
    let Some(wkey) = workspace_key(conn, &key.workspace)? else { return Ok(None) };
    let text = format!(
        "SELECT {SESSION_COLUMNS} FROM sessions s INDEXED BY sessions_by_id
         LEFT JOIN session_meta m ON m.skey = s.skey
         WHERE s.wkey = ?1 AND s.id = ?2 AND s.state <> 'deleted' AND s.state = 'active'"
    );
    let mut find = conn.prepared(&text).map_err(sql)?;
    let mut rows = find.query(params![wkey, key.id.as_str()]).map_err(sql)?;
    match rows.next().map_err(sql)? {
        Some(row) => Ok(Some(session_row(&key.workspace, &mut Fields::new("sessions", row))?.1)),
        None => Ok(None),
    }
}

pub(crate) fn sessions(conn: &Connection, query: &SessionQuery, limits: &Limits) -> Result<Page<SessionRow>> {
    let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position = query.position()?;
    let _snapshot = Snapshot::begin(conn)?;
    let Some(wkey) = workspace_key(conn, &query.workspace)? else {
        return Ok(Page { total: query.total.then_some(0), ..Page::empty() });
    };
    let text = list(query, wkey, position)?;
    let mut statement = conn.prepared(&text.text).map_err(sql)?;
    let mut rows = statement.query(params_from_iter(&text.values)).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        let (_, row) = session_row(&query.workspace, &mut Fields::new("sessions", row))?;
        if !page.push(row) {
            break;
        }
    }
    let mut page = page.finish(Order::Ascending, |last| query.cursor_after(last))?;
    if query.total {
        page.total = Some(count(conn, query, wkey)?);
    }
    Ok(page)
}

fn list(query: &SessionQuery, wkey: i64, position: Option<Place>) -> Result<Sql> {
    let index = index(query);
    let mut text = Sql::new(format!(
        "SELECT {SESSION_COLUMNS} FROM sessions s {index} LEFT JOIN session_meta m ON m.skey = s.skey "
    ));
    filters(&mut text, query, wkey);
    match query.order {
        SessionOrder::Id => {
            text.bind_some("AND s.id > ? ", position.map(|(_, id)| id.as_str().to_owned()));
            text.push("ORDER BY s.id ");
        }
        SessionOrder::RecentFirst => {
            if let Some((activity, id)) = position {
                let activity = int(activity)?;
                text.bind("AND s.activity <= ? ", activity);
                text.bind("AND (s.activity < ? ", activity);
                text.bind("OR s.id > ?) ", id.as_str().to_owned());
            }
            text.push("ORDER BY s.activity DESC, s.id ");
        }
    }
    // What comes after the page is never computed: the reader stops when the page is full.
    text.bind("LIMIT -1 OFFSET ?", int(query.offset).unwrap_or(i64::MAX));
    Ok(text)
}

fn count(conn: &Connection, query: &SessionQuery, wkey: i64) -> Result<u64> {
    let mut text = Sql::new(format!("SELECT count(*) FROM sessions s {} ", index(query)));
    filters(&mut text, query, wkey);
    let mut statement = conn.prepared(&text.text).map_err(sql)?;
    let mut rows = statement.query(params_from_iter(&text.values)).map_err(sql)?;
    match rows.next().map_err(sql)? {
        Some(row) => Fields::new("sessions", row).u64(),
        None => Ok(0),
    }
}

/// The index in the order that is asked for. One parent has few children, so there the order is sorted.
fn index(query: &SessionQuery) -> &'static str {
    match (query.order, &query.parent) {
        (_, Some(_)) => "INDEXED BY sessions_by_parent",
        (SessionOrder::RecentFirst, None) if query.id_prefix.is_none() => "INDEXED BY sessions_by_activity",
        _ => "INDEXED BY sessions_by_id",
    }
}

fn filters(text: &mut Sql, query: &SessionQuery, wkey: i64) {
    text.bind("WHERE s.wkey = ? AND s.state <> 'deleted' ", wkey);
    text.bind("AND s.state = ? ", session_state_name(query.state).to_owned());
    let audience = match query.audience {
        AudienceFilter::User => Some(Audience::User),
        AudienceFilter::SubAgent => Some(Audience::SubAgent),
        AudienceFilter::Any => None,
    };
    text.bind_some("AND s.audience = ? ", audience.map(|audience| audience_name(audience).to_owned()));
    text.bind_some("AND s.cwd = ? ", query.cwd.clone());
    if let Some(prefix) = &query.id_prefix {
        text.bind("AND s.id >= ? ", prefix.clone());
        text.bind_some("AND s.id < ? ", after_prefix(prefix));
    }
    if query.with_messages {
        text.push("AND s.messages > 0 ");
    }
    text.bind_some("AND s.archived = ? ", query.archived);
    text.bind_some("AND s.pinned = ? ", query.pinned);
    text.bind_some("AND s.project = ? ", query.project.clone());
    let parent = query.parent.as_ref().map(|parent| parent.as_str().to_owned());
    text.bind_some("AND s.parent = ? ", parent);
    if let Some(words) = &query.text {
        // The engine's lower() knows ASCII only, as the contract says.
        let words = text.value(words.to_ascii_lowercase());
        let columns = ["s.id", "s.cwd", "s.channel_kind", "s.channel_id", "s.title"];
        let own = columns.map(|column| format!("instr(lower({column}), {words}) > 0")).join(" OR ");
        text.push(&format!(
            "AND ({own} OR EXISTS (SELECT 1 FROM entries e WHERE e.rid > s.skey << 32 \
             AND e.rid <= ((s.skey << 32) | 4294967295) AND instr(lower(e.text), {words}) > 0)) "
        ));
    }
}

/// The first text, bytewise, that is above every text with this prefix; `None` when there is no such text.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // UTF-8 orders as its characters do. Surrogates are no characters, so the count steps over them.
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use turnkeep_core::WorkspaceId;

    use super::*;
    use crate::read::plans::{check, plan};

    fn query() -> SessionQuery {
        SessionQuery::new(WorkspaceId::new("w").unwrap())
    }

    #[test]
    fn case_49_a_list_walks_its_index_and_reads_no_bodies() {
        let position = || Some((7, SessionId::new("s").unwrap()));
        for position in [None, position()] {
            let recent = list(&query(), 1, position.clone());
            check(recent, &["SEARCH s USING INDEX sessions_by_activity"]);
            let by_id = SessionQuery { order: SessionOrder::Id, ..query() };
            check(list(&by_id, 1, position.clone()), &["SEARCH s USING INDEX sessions_by_id"]);
            let filtered = SessionQuery { with_messages: true, pinned: Some(true), ..query() };
            assert!(!plan(list(&filtered, 1, position)).contains("entries"));
        }
    }

    #[test]
    fn a_prefix_and_a_parent_are_found_by_index() {
        let by_prefix = "sessions_by_id (wkey=? AND id>? AND id<?)";
        let prefix = |order| SessionQuery { id_prefix: Some("ab".to_owned()), order, ..query() };
        check(list(&prefix(SessionOrder::Id), 1, None), &[by_prefix]);
        // Few begin alike, so they are sorted.
        assert!(plan(list(&prefix(SessionOrder::RecentFirst), 1, None)).contains(by_prefix));
        let parent = SessionQuery { parent: Some(SessionId::new("p").unwrap()), ..query() };
        assert!(plan(list(&parent, 1, None)).contains("sessions_by_parent (wkey=? AND parent=?)"));
    }

    #[test]
    fn the_text_after_a_prefix_is_the_next_one() {
        for (prefix, after) in [
            ("a", Some("b")),
            ("az", Some("a{")),
            ("a\u{d7ff}", Some("a\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
            ("", None),
            ("%", Some("&")),
        ] {
            assert_eq!(after_prefix(prefix).as_deref(), after, "{prefix:?}");
        }
    }
}
