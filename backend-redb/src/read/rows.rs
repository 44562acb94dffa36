//! Everything that a session is, in the order in which it is restored.

use turnkeep_core::id::{Collection, RecordKey};
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Row, RowKind, SessionImage};
use turnkeep_core::query::{PageBuilder, RowQuery, RowSubject, page_limit};
use turnkeep_core::{Cursor, Error, ErrorKind, Order, Page, Result};

use crate::codec::{Fields, Key};
use crate::error::damaged;
use crate::read::{entry_bytes, find, profile, run_bytes, session_bytes, workspace};
use crate::rows::{
    Head, entry_key, event_key, read_entry, read_event, read_record, read_run, read_stream, record_key,
    run_key, stream_key,
};
use crate::source::{Source, Span, Toward};
use crate::tables::{self, Table};

/// A place in the order of rows: the kind, two names and a number, of which each kind uses what it needs.
type Place = (RowKind, String, String, u64);

pub(crate) fn rows(source: &dyn Source, query: &RowQuery, limits: &Limits) -> Result<Page<Row>> {
    let page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position: Option<Place> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
    let mut walk = Walk { source, query, position, page };
    match &query.subject {
        RowSubject::Session(session) => {
            let (skey, head) = find(source, &query.workspace, session)?;
            let wkey = head.wkey;
            let _ = walk.session(skey, head)? && walk.records(skey, wkey)?;
        }
        RowSubject::Unowned => {
            if let Some(row) = workspace(source, &query.workspace)? {
                walk.records(0, row.wkey)?;
            }
        }
    }
    walk.page.finish(Order::Ascending, |last| Cursor::seal(query, &place(last)))
}

fn place(row: &Row) -> Place {
    let none = String::new;
    let name = |id: &dyn AsRef<str>| id.as_ref().to_owned();
    match row {
        Row::Session(_) => (row.kind(), none(), none(), 0),
        Row::Entry(entry) => (row.kind(), none(), none(), entry.number.get().into()),
        Row::Run(run) => (row.kind(), none(), none(), run.number.into()),
        Row::Stream(stream) => (row.kind(), name(&stream.name), none(), 0),
        Row::Event { stream, event } => (row.kind(), name(stream), none(), event.number),
        Row::Record(record) => (row.kind(), name(&record.collection), name(&record.key), 0),
    }
}

struct Walk<'a> {
    source: &'a dyn Source,
    query: &'a RowQuery,
    position: Option<Place>,
    page: PageBuilder<Row>,
}

impl Walk<'_> {
    /// The part of `span` that is still to be read of a kind; `None` when nothing is. `edge` makes the key of the
    /// position, if it is within the kind.
    fn rest(
        &self,
        kind: RowKind,
        span: Span,
        edge: impl FnOnce(&Place) -> Result<Key>,
    ) -> Result<Option<Span>> {
        if !self.query.wants(kind) {
            return Ok(None);
        }
        match &self.position {
            Some(place) if place.0 > kind => Ok(None),
            Some(place) if place.0 == kind => Ok(Some(span.after(edge(place)?))),
            _ => Ok(Some(span)),
        }
    }

    /// Offers rows of a table; `false` when the page takes no more.
    fn table(
        &mut self,
        table: Table,
        span: Option<Span>,
        mut read: impl FnMut(&[u8], &[u8]) -> Result<(usize, Row)>,
    ) -> Result<bool> {
        let Some(span) = span else { return Ok(true) };
        let page = &mut self.page;
        let scanned = self.source.scan(table, &span, Toward::Higher, &mut |key, body| {
            let (bytes, row) = read(key, body)?;
            Ok(page.push(bytes, || row))
        });
        scanned.or_else(|error| page.beyond(error))
    }

    /// Offers all but the records; `false` when the page is full.
    fn session(&mut self, skey: u64, head: Head) -> Result<bool> {
        let below = || Span::within(Key::new().u64(skey));
        if self.query.wants(RowKind::Session) && self.position.is_none() {
            let row = head.with(&self.query.workspace, profile(self.source, skey)?);
            if !self.page.push(session_bytes(&row), || Row::Session(SessionImage::from(&row))) {
                return Ok(false);
            }
        }
        let number = |place: &Place| u32::try_from(place.3).map_err(|_| garbled());
        let span = self.rest(RowKind::Entry, below(), |place| Ok(entry_key(skey, number(place)?)))?;
        let open = self.table(tables::ENTRIES, span, |key, body| {
            let entry = read_entry(key, body)?;
            Ok((entry_bytes(&entry), Row::Entry(entry)))
        })?;
        if !open {
            return Ok(false);
        }
        let span = self.rest(RowKind::Run, below(), |place| Ok(run_key(skey, number(place)?)))?;
        let open = self.table(tables::RUNS, span, |_, body| {
            let run = read_run(body)?;
            Ok((run_bytes(&run), Row::Run(run)))
        })?;
        if !open {
            return Ok(false);
        }
        let span = self.rest(RowKind::Stream, below(), |place| Ok(stream_key(skey, &place.1)))?;
        let open =
            self.table(tables::STREAMS, span, |key, body| Ok((0, Row::Stream(read_stream(key, body)?))))?;
        if !open {
            return Ok(false);
        }
        let span = self.rest(RowKind::Event, below(), |place| Ok(event_key(skey, &place.1, place.3)))?;
        self.table(tables::EVENTS, span, |key, body| {
            let (stream, event) = read_event(key, body)?;
            Ok((event.payload.as_str().len(), Row::Event { stream, event }))
        })
    }

    fn records(&mut self, owner: u64, wkey: u64) -> Result<bool> {
        let prefix = || Key::new().u64(owner).u64(wkey);
        let span = self.rest(RowKind::Record, Span::within(prefix()), |place| {
            Ok(prefix().text(&place.1).tail(&place.2))
        })?;
        let source = self.source;
        self.table(tables::RECORD_KEYS_OF_OWNER, span, |place, _| {
            let mut fields = Fields::of_key(tables::RECORD_KEYS_OF_OWNER, place);
            fields.u64()?;
            fields.u64()?;
            let (collection, key) = (fields.text()?, fields.tail()?);
            let (collection, key): (Collection, RecordKey) = (fields.parse(collection)?, fields.parse(key)?);
            let key = record_key(wkey, &collection, &key);
            let body = source.get(tables::RECORDS, &key)?;
            let body = body.ok_or_else(|| damaged(tables::RECORD_KEYS_OF_OWNER, "record"))?;
            let record = read_record(key.as_bytes(), &body)?.record;
            Ok((record.payload.as_str().len(), Row::Record(record)))
        })
    }
}

fn garbled() -> Error {
    Error::new(ErrorKind::Invalid, "this is not a cursor; pass back what a page gave as `next`")
}
