//! Everything that a session is, in the order in which it is restored.

use turnkeep_core::id::{Collection, RecordKey};
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Row, RowKind, SessionImage};
use turnkeep_core::query::{PageBuilder, RowPlace, RowQuery, RowSubject, page_limit};
use turnkeep_core::{Cursor, Order, Page, Result};

use crate::codec::{Fields, Key};
use crate::error::damaged;
use crate::read::{find, profile, workspace};
use crate::rows::{
    Head, entry_key, event_key, read_entry, read_event, read_record, read_run, read_stream, record_key,
    run_key, stream_key,
};
use crate::source::{Source, Span, Toward};
use crate::tables::{self, Table};

pub(crate) fn rows(source: &dyn Source, query: &RowQuery, limits: &Limits) -> Result<Page<Row>> {
    let page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position: Option<RowPlace> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
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
    walk.page.finish(Order::Ascending, |last| Cursor::seal(query, &RowPlace::of(last)))
}

struct Walk<'a> {
    source: &'a dyn Source,
    query: &'a RowQuery,
    position: Option<RowPlace>,
    page: PageBuilder<Row>,
}

impl Walk<'_> {
    /// The part of `span` that is still to be read of a kind; `None` when nothing is. `edge` makes the key of the
    /// position, if it is within the kind.
    fn rest(&self, kind: RowKind, span: Span, edge: impl FnOnce(&RowPlace) -> Option<Key>) -> Option<Span> {
        let position = self.position.as_ref();
        self.query.comes(kind, position).then(|| match position.and_then(edge) {
            Some(edge) => span.after(edge),
            None => span,
        })
    }

    /// Offers rows of a table; `false` when the page takes no more.
    fn table(
        &mut self,
        table: Table,
        span: Option<Span>,
        mut read: impl FnMut(&[u8], &[u8]) -> Result<Row>,
    ) -> Result<bool> {
        let Some(span) = span else { return Ok(true) };
        let page = &mut self.page;
        let mut offer = |key: &[u8], body: &[u8]| Ok(page.push(read(key, body)?));
        let scanned = self.source.scan(table, &span, Toward::Higher, &mut offer);
        scanned.or_else(|error| self.page.beyond(error))
    }

    /// Offers all but the records; `false` when the page is full.
    fn session(&mut self, skey: u64, head: Head) -> Result<bool> {
        let below = || Span::within(Key::new().u64(skey));
        if self.query.wants(RowKind::Session) && self.position.is_none() {
            let row = head.with(&self.query.workspace, profile(self.source, skey)?);
            if !self.page.push(Row::Session(SessionImage::from(&row))) {
                return Ok(false);
            }
        }
        let entries = self.rest(RowKind::Entry, below(), |place| match place {
            RowPlace::Entry(number) => Some(entry_key(skey, *number)),
            _ => None,
        });
        let runs = self.rest(RowKind::Run, below(), |place| match place {
            RowPlace::Run(number, _) => Some(run_key(skey, *number)),
            _ => None,
        });
        let streams = self.rest(RowKind::Stream, below(), |place| match place {
            RowPlace::Stream(name) => Some(stream_key(skey, name.as_str())),
            _ => None,
        });
        let events = self.rest(RowKind::Event, below(), |place| match place {
            RowPlace::Event(name, number) => Some(event_key(skey, name.as_str(), *number)),
            _ => None,
        });
        Ok(self.table(tables::ENTRIES, entries, |key, body| Ok(Row::Entry(read_entry(key, body)?)))?
            && self.table(tables::RUNS, runs, |_, body| Ok(Row::Run(read_run(body)?)))?
            && self.table(tables::STREAMS, streams, |key, body| Ok(Row::Stream(read_stream(key, body)?)))?
            && self.table(tables::EVENTS, events, |key, body| {
                let (stream, event) = read_event(key, body)?;
                Ok(Row::Event { stream, event })
            })?)
    }

    fn records(&mut self, owner: u64, wkey: u64) -> Result<bool> {
        let prefix = || Key::new().u64(owner).u64(wkey);
        let span = self.rest(RowKind::Record, Span::within(prefix()), |place| match place {
            RowPlace::Record(collection, key) => Some(prefix().text(collection.as_str()).tail(key.as_str())),
            _ => None,
        });
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
            Ok(Row::Record(read_record(key.as_bytes(), &body)?.record))
        })
    }
}
