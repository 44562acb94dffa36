//! Everything that a session is, in the order in which it is restored.

use std::ops::Bound;

use turnkeep_core::id::StreamName;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Row, RowKind, SessionImage};
use turnkeep_core::mutant;
use turnkeep_core::query::{PageBuilder, PageItem as _, RowPlace, RowQuery, RowSubject, page_limit};
use turnkeep_core::{Cursor, EntryNo, Order, Page, Result, SessionRef};

use crate::tables::{Life, Tables, Workspace};

impl Tables {
    /// Everything that a session is, or the records nobody owns, in the order of a copy.
    ///
    /// # Errors
    /// `NotFound`, and `Invalid` for a limit of 0 or a cursor that is not of this query.
    pub fn rows(&self, query: &RowQuery, limits: &Limits) -> Result<Page<Row>> {
        let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
        let position: Option<RowPlace> =
            query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
        let mut walk = Walk { query, position: position.as_ref(), page: &mut page };
        let workspace = self.workspaces.get(&query.workspace);
        match &query.subject {
            RowSubject::Session(session) => {
                let life = self.session(&query.workspace, session)?;
                let _ = walk.life(life) && walk.records(workspace, Some(session));
            }
            RowSubject::Unowned => {
                walk.records(workspace, None);
            }
        }
        page.finish(Order::Ascending, |last| Cursor::seal(query, &RowPlace::of(last)))
    }
}

struct Walk<'a> {
    query: &'a RowQuery,
    position: Option<&'a RowPlace>,
    page: &'a mut PageBuilder<Row>,
}

impl Walk<'_> {
    /// Whether rows of a kind are asked for and lie beyond the position.
    fn comes(&self, kind: RowKind) -> bool {
        self.query.comes(kind, self.position)
    }

    /// Offers all but the records; `false` when the page is full.
    fn life(&mut self, life: &Life) -> bool {
        self.image(life) && self.entries(life) && self.runs(life) && self.streams(life) && self.events(life)
    }

    fn image(&mut self, life: &Life) -> bool {
        if !self.comes(RowKind::Session) || self.position.is_some() {
            return true;
        }
        self.page.push_with(life.row.bytes(), || Row::Session(SessionImage::from(&life.row)))
    }

    fn entries(&mut self, life: &Life) -> bool {
        if !self.comes(RowKind::Entry) {
            return true;
        }
        let from = match self.position {
            Some(RowPlace::Entry(number)) => EntryNo::new(*number).map_or(Bound::Unbounded, Bound::Excluded),
            _ => Bound::Unbounded,
        };
        life.entries
            .range((from, Bound::Unbounded))
            .all(|(_, entry)| self.page.push_with(entry.bytes(), || Row::Entry((**entry).clone())))
    }

    fn runs(&mut self, life: &Life) -> bool {
        if !self.comes(RowKind::Run) {
            return true;
        }
        let from = match self.position {
            Some(RowPlace::Run(number, id)) => Bound::Excluded((*number, id.clone())),
            _ => Bound::Unbounded,
        };
        life.run_order.range((from, Bound::Unbounded)).all(|(_, id)| {
            let Some(run) = life.runs.get(id) else { return true };
            self.page.push_with(run.bytes(), || Row::Run((**run).clone()))
        })
    }

    fn streams(&mut self, life: &Life) -> bool {
        if !self.comes(RowKind::Stream) || mutant::is("memory/rows-without-streams") {
            return true;
        }
        let from = match self.position {
            Some(RowPlace::Stream(name)) => Bound::Excluded(name),
            _ => Bound::Unbounded,
        };
        let mut rows = life.streams.range::<StreamName, _>((from, Bound::Unbounded));
        rows.all(|(_, row)| self.page.push(Row::Stream(row.clone())))
    }

    fn events(&mut self, life: &Life) -> bool {
        if !self.comes(RowKind::Event) {
            return true;
        }
        let (from, at) = match self.position {
            Some(RowPlace::Event(name, number)) => (Bound::Included(name), Some((name, *number))),
            _ => (Bound::Unbounded, None),
        };
        for (name, events) in life.events.range::<StreamName, _>((from, Bound::Unbounded)) {
            let within = at.filter(|(stream, _)| *stream == name);
            let after = within.map_or(Bound::Unbounded, |(_, number)| Bound::Excluded(number));
            for event in events.range((after, Bound::Unbounded)).map(|(_, event)| event) {
                let row = || Row::Event { stream: name.clone(), event: (**event).clone() };
                if !self.page.push_with(event.bytes(), row) {
                    return false;
                }
            }
        }
        true
    }

    fn records(&mut self, workspace: Option<&Workspace>, owner: Option<&SessionRef>) -> bool {
        if !self.comes(RowKind::Record) {
            return true;
        }
        let from = match self.position {
            Some(RowPlace::Record(collection, key)) => Bound::Excluded((collection.clone(), key.clone())),
            _ => Bound::Unbounded,
        };
        let Some(ledger) = workspace.map(|workspace| &workspace.ledger) else { return true };
        let Some(owned) = ledger.owned.get(&owner.cloned()) else { return true };
        owned.keys.range((from, Bound::Unbounded)).all(|id| {
            let Some(record) = ledger.records.get(id) else { return true };
            self.page.push_with(record.bytes(), || Row::Record((**record).clone()))
        })
    }
}
