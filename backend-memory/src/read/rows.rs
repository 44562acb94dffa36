//! Everything that a session is, in the order in which it is restored.

use std::ops::Bound;

use turnkeep_core::id::{Collection, RecordKey, StreamName};
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Row, RowKind, SessionImage};
use turnkeep_core::mutant;
use turnkeep_core::query::{PageBuilder, RowQuery, RowSubject, page_limit};
use turnkeep_core::{Cursor, EntryNo, Error, ErrorKind, Order, Page, Result, RunId, SessionRef};

use crate::read::{entry_bytes, run_bytes, session_bytes};
use crate::tables::{Life, Tables, Workspace};

/// A place in the order of rows: the kind, two names and a number, of which each kind uses what it needs.
type Place = (RowKind, String, String, u64);

impl Tables {
    /// Everything that a session is, or the records nobody owns, in the order of a copy.
    ///
    /// # Errors
    /// `NotFound`, and `Invalid` for a limit of 0 or a cursor that is not of this query.
    pub fn rows(&self, query: &RowQuery, limits: &Limits) -> Result<Page<Row>> {
        let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
        let position: Option<Place> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
        let mut walk = Walk { query, position: position.as_ref(), page: &mut page };
        let workspace = self.workspaces.get(&query.workspace);
        match &query.subject {
            RowSubject::Session(session) => {
                let life = self.session(&query.workspace, session)?;
                let _ = walk.life(life)? && walk.records(workspace, Some(session))?;
            }
            RowSubject::Unowned => {
                walk.records(workspace, None)?;
            }
        }
        page.finish(Order::Ascending, |last| Cursor::seal(query, &place(last)))
    }
}

fn place(row: &Row) -> Place {
    let none = String::new;
    let name = |id: &dyn AsRef<str>| id.as_ref().to_owned();
    match row {
        Row::Session(_) => (row.kind(), none(), none(), 0),
        Row::Entry(entry) => (row.kind(), none(), none(), entry.number.get().into()),
        Row::Run(run) => (row.kind(), name(&run.id), none(), run.number.into()),
        Row::Stream(stream) => (row.kind(), name(&stream.name), none(), 0),
        Row::Event { stream, event } => (row.kind(), name(stream), none(), event.number),
        Row::Record(record) => (row.kind(), name(&record.collection), name(&record.key), 0),
    }
}

struct Walk<'a> {
    query: &'a RowQuery,
    position: Option<&'a Place>,
    page: &'a mut PageBuilder<Row>,
}

impl Walk<'_> {
    /// Whether rows of a kind are asked for and lie beyond the position; and the position, if it is within them.
    fn from(&self, kind: RowKind) -> Option<Option<&Place>> {
        if !self.query.wants(kind) {
            return None;
        }
        match self.position {
            Some(place) if place.0 > kind => None,
            Some(place) if place.0 == kind => Some(Some(place)),
            _ => Some(None),
        }
    }

    /// Offers all but the records; `false` when the page is full.
    fn life(&mut self, life: &Life) -> Result<bool> {
        Ok(self.image(life)
            && self.entries(life)
            && self.runs(life)?
            && self.streams(life)?
            && self.events(life)?)
    }

    fn image(&mut self, life: &Life) -> bool {
        if self.from(RowKind::Session) != Some(None) {
            return true;
        }
        self.page.push(session_bytes(&life.row), || Row::Session(SessionImage::from(&life.row)))
    }

    fn entries(&mut self, life: &Life) -> bool {
        let Some(at) = self.from(RowKind::Entry) else { return true };
        let at = at.and_then(|place| u32::try_from(place.3).ok()).and_then(EntryNo::new);
        let from = at.map_or(Bound::Unbounded, Bound::Excluded);
        life.entries
            .range((from, Bound::Unbounded))
            .all(|(_, entry)| self.page.push(entry_bytes(entry), || Row::Entry((**entry).clone())))
    }

    fn runs(&mut self, life: &Life) -> Result<bool> {
        let Some(at) = self.from(RowKind::Run) else { return Ok(true) };
        let from = match at {
            None => Bound::Unbounded,
            Some((_, id, _, number)) => {
                Bound::Excluded((u32::try_from(*number).map_err(|_| garbled())?, RunId::new(id)?))
            }
        };
        let mut order = life.run_order.range((from, Bound::Unbounded));
        Ok(order.all(|(_, id)| {
            let Some(run) = life.runs.get(id) else { return true };
            self.page.push(run_bytes(run), || Row::Run((**run).clone()))
        }))
    }

    fn streams(&mut self, life: &Life) -> Result<bool> {
        let Some(at) = self.from(RowKind::Stream).filter(|_| !mutant::is("memory/rows-without-streams"))
        else {
            return Ok(true);
        };
        let from = match at {
            None => Bound::Unbounded,
            Some((_, name, _, _)) => Bound::Excluded(StreamName::new(name)?),
        };
        let mut rows = life.streams.range((from, Bound::Unbounded));
        Ok(rows.all(|(_, row)| self.page.push(0, || Row::Stream(row.clone()))))
    }

    fn events(&mut self, life: &Life) -> Result<bool> {
        let Some(at) = self.from(RowKind::Event) else { return Ok(true) };
        let (from, at) = match at {
            None => (Bound::Unbounded, None),
            Some((_, name, _, number)) => {
                let name = StreamName::new(name)?;
                (Bound::Included(name.clone()), Some((name, *number)))
            }
        };
        for (name, events) in life.events.range((from, Bound::Unbounded)) {
            let within = at.as_ref().filter(|(stream, _)| stream == name);
            let after = within.map_or(Bound::Unbounded, |(_, number)| Bound::Excluded(*number));
            for event in events.range((after, Bound::Unbounded)).map(|(_, event)| event) {
                let row = || Row::Event { stream: name.clone(), event: (**event).clone() };
                if !self.page.push(event.payload.as_str().len(), row) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn records(&mut self, workspace: Option<&Workspace>, owner: Option<&SessionRef>) -> Result<bool> {
        let Some(at) = self.from(RowKind::Record) else { return Ok(true) };
        let from = match at {
            None => Bound::Unbounded,
            Some((_, collection, key, _)) => {
                Bound::Excluded((Collection::new(collection)?, RecordKey::new(key)?))
            }
        };
        let Some(ledger) = workspace.map(|workspace| &workspace.ledger) else { return Ok(true) };
        let Some(owned) = ledger.owned.get(&owner.cloned()) else { return Ok(true) };
        let mut keys = owned.keys.range((from, Bound::Unbounded));
        Ok(keys.all(|id| {
            let Some(record) = ledger.records.get(id) else { return true };
            self.page.push(record.payload.as_str().len(), || Row::Record((**record).clone()))
        }))
    }
}

fn garbled() -> Error {
    Error::new(ErrorKind::Invalid, "this is not a cursor; pass back what a page gave as `next`")
}
