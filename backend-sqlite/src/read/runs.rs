//! Runs of a session or a workspace.

use rusqlite::{Connection, params_from_iter};
use turnkeep_core::id::{SessionId, SessionRef};
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Run, RunState, RunStates};
use turnkeep_core::query::{PageBuilder, RunQuery, page_limit};
use turnkeep_core::{Cursor, Incarnation, Page, Result};

use crate::columns::{Fields, RUN_COLUMNS, row_key, run};
use crate::error::sql;
use crate::read::sql::{Sql, beyond, direction, list};
use crate::read::{Snapshot, find, workspace_key};
use crate::schema::active_states;
use crate::statement::Prepare as _;

/// A place in the order of runs: by session, then by number.
type Place = (SessionId, u32);

pub(crate) fn runs(conn: &Connection, query: &RunQuery, limits: &Limits) -> Result<Page<Run>> {
    let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position: Option<Place> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
    let _snapshot = Snapshot::begin(conn)?;
    let text = match &query.session {
        Some(session) => {
            let found = find(conn, &query.workspace, session)?;
            of_session(query, found.skey, position.as_ref())?
        }
        None => match workspace_key(conn, &query.workspace)? {
            Some(wkey) => of_workspace(query, wkey, position.as_ref())?,
            None => return Ok(Page::empty()),
        },
    };
    let mut statement = conn.prepared(&text.text).map_err(sql)?;
    let mut rows = statement.query(params_from_iter(&text.values)).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        let fields = &mut Fields::new("runs", row);
        let session = SessionRef { id: fields.id()?, incarnation: Incarnation::from_bytes(fields.bytes()?) };
        let run = match run(&session, fields) {
            Ok(run) => run,
            Err(error) => {
                page.beyond(error)?;
                break;
            }
        };
        if !page.push(run) {
            break;
        }
    }
    page.finish(query.order, |last| Cursor::seal(query, &(&last.session.id, last.number)))
}

fn of_session(query: &RunQuery, skey: i64, position: Option<&Place>) -> Result<Sql> {
    let (mut low, mut high) = (row_key(skey, 0), row_key(skey, u32::MAX));
    if let Some((_, number)) = position {
        if query.order.from_newest() {
            high = row_key(skey, *number) - 1;
        } else {
            low = row_key(skey, *number) + 1;
        }
    }
    let mut text =
        Sql::new(format!("SELECT s.id, s.incarnation, {RUN_COLUMNS} FROM sessions s CROSS JOIN runs r "));
    text.bind("WHERE s.skey = ? ", skey);
    text.bind("AND r.rkey >= ? ", low);
    text.bind("AND r.rkey <= ? ", high);
    filters(&mut text, query)?;
    text.push("ORDER BY r.rkey ").push(direction(query.order));
    Ok(text)
}

fn of_workspace(query: &RunQuery, wkey: i64, position: Option<&Place>) -> Result<Sql> {
    let (way, next) = (direction(query.order), beyond(query.order));
    let only_active = query.states.iter().all(|state| RunStates::ACTIVE.contains(state));
    // Few runs are active, so recovery starts from their index; else from the sessions in order.
    let (tables, indexed) = if only_active {
        (
            "runs r INDEXED BY runs_active CROSS JOIN sessions s ON s.skey = r.rkey >> 32",
            concat!("AND r.", active_states!(), " "),
        )
    } else if query.id.is_some() || query.intent.is_some() {
        ("runs r CROSS JOIN sessions s ON s.skey = r.rkey >> 32", "")
    } else {
        (
            "sessions s INDEXED BY sessions_by_id CROSS JOIN runs r \
             ON r.rkey > s.skey << 32 AND r.rkey <= ((s.skey << 32) | 4294967295)",
            "AND s.state <> 'deleted' ",
        )
    };
    let mut text = Sql::new(format!("SELECT s.id, s.incarnation, {RUN_COLUMNS} FROM {tables} "));
    text.bind("WHERE s.wkey = ? AND s.state = 'active' ", wkey);
    // What an index leaves out by itself has to be left out here too, or it is not used.
    text.push(indexed);
    if let Some((id, number)) = position {
        text.bind(&format!("AND (s.id, r.rkey & 4294967295) {next} (?, "), id.as_str().to_owned());
        text.bind("?) ", i64::from(*number));
    }
    filters(&mut text, query)?;
    text.push(&format!("ORDER BY s.id {way}, r.rkey {way}"));
    Ok(text)
}

fn filters(text: &mut Sql, query: &RunQuery) -> Result<()> {
    text.bind_some("AND r.id = ? ", query.id.as_ref().map(|id| id.as_str().to_owned()));
    let intent = query.intent.as_ref().map(|intent| intent.as_str().to_owned());
    text.bind_some("AND r.intent = ? ", intent);
    if query.states != RunStates::ALL {
        let states = list(query.states.iter().map(RunState::as_str))?;
        text.bind("AND r.state IN (SELECT value FROM json_each(?)) ", states);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use turnkeep_core::id::IntentId;
    use turnkeep_core::{RunId, WorkspaceId};

    use super::*;
    use crate::read::plans::{check, plan};

    fn query() -> RunQuery {
        RunQuery::new(WorkspaceId::new("w").unwrap())
    }

    #[test]
    fn runs_of_a_session_and_of_a_workspace_are_walked_in_order() {
        let place = || (SessionId::new("s").unwrap(), 3);
        for position in [None, Some(place())] {
            let position = position.as_ref();
            check(
                of_session(&query(), 1, position),
                &["SEARCH r USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
            );
            check(
                of_workspace(&query(), 1, position),
                &["sessions_by_id", "SEARCH r USING INTEGER PRIMARY KEY"],
            );
        }
    }

    #[test]
    fn active_runs_one_run_and_one_intent_are_found_by_index() {
        let active = RunQuery { states: RunStates::ACTIVE, ..query() };
        assert!(plan(of_workspace(&active, 1, None)).contains("runs_active"));
        let one = RunQuery { id: Some(RunId::new("r").unwrap()), ..query() };
        // From the run to its session: the sessions of a workspace are many.
        let first = "SEARCH r USING INDEX runs_by_id (id=?)";
        assert!(
            plan(of_workspace(&one, 1, None)).starts_with(first),
            "{}",
            plan(of_workspace(&one, 1, None))
        );
        let intent = RunQuery { intent: Some(IntentId::new("i").unwrap()), ..query() };
        let first = "SEARCH r USING INDEX runs_by_intent (intent=?)";
        assert!(plan(of_workspace(&intent, 1, None)).starts_with(first));
    }
}
