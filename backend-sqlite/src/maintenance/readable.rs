//! Reads every row as ordinary reads do, and names those that cannot be read.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use turnkeep_core::id::{Incarnation, SessionId, SessionRef};
use turnkeep_core::store::{Damage, VerifyReport};
use turnkeep_core::{ErrorKind, Result, WorkspaceId};

use super::verify::MOST;
use crate::columns::{
    ENTRY_COLUMNS, EVENT_COLUMNS, EntryReader, Fields, RECORD_COLUMNS, RUN_COLUMNS, SESSION_COLUMNS,
    STREAM_COLUMNS, event, record, run, session, stream,
};
use crate::error::sql;

/// Columns before those of the row: the session's id, and what to call the row.
const PLACE: usize = 2;

pub(super) fn readable(conn: &Connection, report: &mut VerifyReport) -> Result<()> {
    let workspace = WorkspaceId::new("w")?;
    let whose = SessionRef { id: SessionId::new("s")?, incarnation: Incarnation::from_bytes([0; 16]) };
    let mut entries = EntryReader::new();
    let text = format!(
        "SELECT s.id, 'its row', {SESSION_COLUMNS} FROM sessions s LEFT JOIN session_meta m ON m.skey = s.skey
         WHERE s.state <> 'deleted'"
    );
    each(conn, report, "sessions", &text, |fields| session(&workspace, fields).map(drop))?;
    let text = format!(
        "SELECT (SELECT s.id FROM sessions s WHERE s.skey = rid >> 32), 'entry ' || (rid & 4294967295),
         {ENTRY_COLUMNS} FROM entries"
    );
    each(conn, report, "entries", &text, |fields| entries.read(fields).map(drop))?;
    let text = format!(
        "SELECT (SELECT s.id FROM sessions s WHERE s.skey = r.rkey >> 32), 'run ' || r.id, {RUN_COLUMNS}
         FROM runs r"
    );
    each(conn, report, "runs", &text, |fields| run(&whose, fields).map(drop))?;
    let text = format!(
        "SELECT (SELECT s.id FROM sessions s WHERE s.skey = streams.skey), 'stream ' || name, {STREAM_COLUMNS}
         FROM streams"
    );
    each(conn, report, "streams", &text, |fields| stream(fields).map(drop))?;
    let text = format!(
        "SELECT (SELECT s.id FROM streams t JOIN sessions s ON s.skey = t.skey WHERE t.stkey = events.stkey),
         'event ' || number, {EVENT_COLUMNS} FROM events"
    );
    each(conn, report, "events", &text, |fields| event(fields).map(drop))?;
    let text = format!(
        "SELECT NULL, 'record ' || r.collection || ' ' || r.key, {RECORD_COLUMNS}
         FROM records r LEFT JOIN sessions o ON o.skey = r.owner"
    );
    each(conn, report, "records", &text, |fields| record(fields).map(drop))
}

fn each(
    conn: &Connection,
    report: &mut VerifyReport,
    table: &'static str,
    text: &str,
    mut read: impl FnMut(&mut Fields<'_>) -> Result<()>,
) -> Result<()> {
    let mut statement = conn.prepare(text).map_err(sql)?;
    let mut rows = statement.query([]).map_err(sql)?;
    let mut found = 0;
    while let Some(row) = rows.next().map_err(sql)? {
        match read(&mut Fields::after(table, row, PLACE)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Corrupt && found < MOST => {
                found += 1;
                let what = format!("cannot be read: {}", error.message());
                report.damage.push(Damage { place: place(row)?, what });
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What of the names is still text.
fn place(row: &Row<'_>) -> Result<String> {
    let name = |at| -> Result<Option<String>> {
        Ok(match row.get_ref(at).map_err(sql)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                Some(String::from_utf8_lossy(bytes).into_owned())
            }
            _ => None,
        })
    };
    let row = name(1)?.unwrap_or_else(|| "a row without a name".to_owned());
    Ok(match name(0)? {
        Some(session) => format!("session {session}, {row}"),
        None => row,
    })
}
