//! Everything that a session is, or the records nobody owns, in the order of restoring.

use rusqlite::{Connection, params};
use turnkeep_core::id::{SessionRef, StreamName};
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Row, RowKind, SessionImage};
use turnkeep_core::query::{PageBuilder, RowPlace, RowQuery, RowSubject, page_limit};
use turnkeep_core::{Cursor, Error, ErrorKind, Order, Page, Result};

use crate::columns::{
    ENTRY_COLUMNS, EVENT_COLUMNS, EntryReader, Fields, RECORD_COLUMNS, RUN_COLUMNS, SESSION_COLUMNS,
    STREAM_COLUMNS, event, int, record, row_key, run, session, stream,
};
use crate::error::sql;
use crate::read::{Snapshot, find, workspace_key};
use crate::statement::Prepare as _;

pub(crate) fn rows(conn: &Connection, query: &RowQuery, limits: &Limits) -> Result<Page<Row>> {
    let page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position: Option<RowPlace> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
    let _snapshot = Snapshot::begin(conn)?;
    let mut walk = Walk { conn, query, position, page };
    match &query.subject {
        RowSubject::Session(session) => {
            let found = find(conn, &query.workspace, session)?;
            let skey = found.skey;
            let _ = walk.image(skey)?
                && walk.entries(skey, found.head.unwrap_or(0))?
                && walk.runs(skey, session)?
                && walk.streams(skey)?
                && walk.events(skey)?
                && walk.records(None, Some(skey))?;
        }
        RowSubject::Unowned => {
            if let Some(wkey) = workspace_key(conn, &query.workspace)? {
                walk.records(Some(wkey), None)?;
            }
        }
    }
    walk.page.finish(Order::Ascending, |last| Cursor::seal(query, &RowPlace::of(last)))
}

struct Walk<'a> {
    conn: &'a Connection,
    query: &'a RowQuery,
    position: Option<RowPlace>,
    page: PageBuilder<Row>,
}

/// Each offers the rows of one kind beyond the position; `false` when the page takes no more.
impl Walk<'_> {
    /// Whether rows of a kind are asked for and lie beyond the position.
    fn comes(&self, kind: RowKind) -> bool {
        self.query.comes(kind, self.position.as_ref())
    }

    fn image(&mut self, skey: i64) -> Result<bool> {
        if !self.comes(RowKind::Session) || self.position.is_some() {
            return Ok(true);
        }
        let text = format!(
            "SELECT {SESSION_COLUMNS} FROM sessions s LEFT JOIN session_meta m ON m.skey = s.skey
             WHERE s.skey = ?1"
        );
        let mut statement = self.conn.prepared(&text).map_err(sql)?;
        let mut rows = statement.query([skey]).map_err(sql)?;
        let Some(row) = rows.next().map_err(sql)? else { return Ok(true) };
        let (_, row) = session(&self.query.workspace, &mut Fields::new("sessions", row))?;
        Ok(self.page.push(Row::Session(SessionImage::from(&row))))
    }

    /// Numbers are contiguous up to the head. A gap means damage, and a copy must not carry it on as if all was well.
    fn entries(&mut self, skey: i64, head: u32) -> Result<bool> {
        if !self.comes(RowKind::Entry) {
            return Ok(true);
        }
        let after = match &self.position {
            None | Some(RowPlace::Session) => 0,
            Some(RowPlace::Entry(number)) => *number,
            Some(_) => return Ok(true),
        };
        let mut last = after;
        let text = format!("SELECT {ENTRY_COLUMNS} FROM entries WHERE rid > ?1 AND rid <= ?2 ORDER BY rid");
        let mut statement = self.conn.prepared(&text).map_err(sql)?;
        let mut rows =
            statement.query(params![row_key(skey, after), row_key(skey, u32::MAX)]).map_err(sql)?;
        let mut reader = EntryReader::new();
        while let Some(row) = rows.next().map_err(sql)? {
            let entry = reader.read(&mut Fields::new("entries", row))?;
            let before = std::mem::replace(&mut last, entry.number.get());
            if before.checked_add(1) != Some(last) {
                return Err(self.gap(before));
            }
            if !self.page.push(Row::Entry(entry)) {
                return Ok(false);
            }
        }
        if last == head { Ok(true) } else { Err(self.gap(last)) }
    }

    fn gap(&self, after: u32) -> Error {
        let error = Error::new(ErrorKind::Corrupt, "entries of the session are missing; verify the store")
            .with("after_entry", after);
        match &self.query.subject {
            RowSubject::Session(session) => error.with("session", session),
            RowSubject::Unowned => error,
        }
    }

    fn runs(&mut self, skey: i64, session: &SessionRef) -> Result<bool> {
        if !self.comes(RowKind::Run) {
            return Ok(true);
        }
        let after = if let Some(RowPlace::Run(number, _)) = &self.position { *number } else { 0 };
        let text =
            format!("SELECT {RUN_COLUMNS} FROM runs r WHERE r.rkey > ?1 AND r.rkey <= ?2 ORDER BY r.rkey");
        let mut statement = self.conn.prepared(&text).map_err(sql)?;
        let mut rows =
            statement.query(params![row_key(skey, after), row_key(skey, u32::MAX)]).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            let run = match run(session, &mut Fields::new("runs", row)) {
                Ok(run) => run,
                Err(error) => return self.page.beyond(error),
            };
            if !self.page.push(Row::Run(run)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn streams(&mut self, skey: i64) -> Result<bool> {
        if !self.comes(RowKind::Stream) {
            return Ok(true);
        }
        // Names are never empty, so every name is above the empty text.
        let after = if let Some(RowPlace::Stream(name)) = &self.position { name.as_str() } else { "" };
        let text =
            format!("SELECT {STREAM_COLUMNS} FROM streams WHERE skey = ?1 AND name > ?2 ORDER BY name");
        let mut statement = self.conn.prepared(&text).map_err(sql)?;
        let mut rows = statement.query(params![skey, after]).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            let (_, stream) = match stream(&mut Fields::new("streams", row)) {
                Ok(found) => found,
                Err(error) => return self.page.beyond(error),
            };
            if !self.page.push(Row::Stream(stream)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn events(&mut self, skey: i64) -> Result<bool> {
        if !self.comes(RowKind::Event) {
            return Ok(true);
        }
        let (name, after) = match &self.position {
            Some(RowPlace::Event(name, number)) => (name.as_str(), int(*number)?),
            _ => ("", 0),
        };
        let text = format!(
            "SELECT t.name, {EVENT_COLUMNS} FROM streams t CROSS JOIN events e ON e.stkey = t.stkey
             WHERE t.skey = ?1 AND t.name >= ?2 AND e.number > CASE t.name WHEN ?2 THEN ?3 ELSE 0 END
             ORDER BY t.name, e.number"
        );
        let mut statement = self.conn.prepared(&text).map_err(sql)?;
        let mut rows = statement.query(params![skey, name, after]).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            let fields = &mut Fields::new("events", row);
            let stream: StreamName = fields.id()?;
            let event = event(fields)?;
            if !self.page.push(Row::Event { stream, event }) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The records of a session, or those of a workspace that nobody owns.
    fn records(&mut self, wkey: Option<i64>, owner: Option<i64>) -> Result<bool> {
        if !self.comes(RowKind::Record) {
            return Ok(true);
        }
        let (collection, key) = match &self.position {
            Some(RowPlace::Record(collection, key)) => (collection.as_str(), key.as_str()),
            _ => ("", ""),
        };
        let whose = match (wkey, owner) {
            (Some(_), _) => "r.wkey = ?1 AND r.owner IS NULL",
            (None, Some(_)) => "r.owner = ?1",
            (None, None) => return Err(Error::new(ErrorKind::Invalid, "the rows of nothing were asked for")),
        };
        let text = format!(
            "SELECT {RECORD_COLUMNS} FROM records r LEFT JOIN sessions o ON o.skey = r.owner
             WHERE {whose} AND (r.collection, r.key) > (?2, ?3) ORDER BY r.collection, r.key LIMIT ?4"
        );
        // These rows have to be sorted; the limit keeps the sorter as small as the page.
        let most = i64::from(self.query.limit).saturating_add(1);
        let mut statement = self.conn.prepared(&text).map_err(sql)?;
        let mut rows = statement.query(params![wkey.or(owner), collection, key, most]).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            let record = match record(&mut Fields::new("records", row)) {
                Ok(found) => found.record,
                Err(error) => return self.page.beyond(error),
            };
            if !self.page.push(Row::Record(record)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
