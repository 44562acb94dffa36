//! Records of a collection.

use turnkeep_core::id::RecordKey;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Record, SessionState};
use turnkeep_core::mutant;
use turnkeep_core::query::{OwnerFilter, PageBuilder, RecordQuery, page_limit};
use turnkeep_core::rules::OwnerState;
use turnkeep_core::{Cursor, Page, Result};

use crate::codec::{Fields, Key};
use crate::error::damaged;
use crate::read::{find, head, workspace};
use crate::rows::{StoredRecord, read_record, record_key};
use crate::source::{Source, Span, Toward};
use crate::tables::{self, Table};

/// A place in a list of records.
type Place = (u64, RecordKey);

pub(crate) fn records(source: &dyn Source, query: &RecordQuery, limits: &Limits) -> Result<Page<Record>> {
    let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position: Option<Place> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
    let owner = match &query.owner {
        OwnerFilter::Any => None,
        OwnerFilter::Unowned => Some(0),
        OwnerFilter::Session(session) => Some(find(source, &query.workspace, session)?.0),
    };
    if let Some(row) = workspace(source, &query.workspace)? {
        let list = List::of(query, row.wkey, owner);
        if let Some(key) = &query.key {
            list.one(source, query, key, &mut page)?;
        } else {
            list.walk(source, query, position.as_ref(), &mut page)?;
        }
    }
    page.finish(query.order, |last| Cursor::seal(query, &(last.ordinal, &last.key)))
}

/// The index that a query reads, and what its keys begin with.
struct List {
    wkey: u64,
    owner: Option<u64>,
    table: Table,
    prefix: Key,
}

impl List {
    fn of(query: &RecordQuery, wkey: u64, owner: Option<u64>) -> Self {
        let collection = query.collection.as_str();
        let (table, prefix) = match (owner, &query.status) {
            (Some(owner), _) => (tables::RECORDS_BY_OWNER, Key::new().u64(owner).u64(wkey).text(collection)),
            (None, Some(status)) => {
                (tables::RECORDS_BY_STATUS, Key::new().u64(wkey).text(collection).text(status.as_str()))
            }
            (None, None) => (tables::RECORDS_IN_ORDER, Key::new().u64(wkey).text(collection)),
        };
        Self { wkey, owner, table, prefix }
    }

    fn admits(&self, source: &dyn Source, query: &RecordQuery, stored: &StoredRecord) -> Result<bool> {
        Ok(self.owner.is_none_or(|owner| stored.owner == owner)
            && (query.status.is_none()
                || stored.record.status == query.status
                || mutant::is("redb/status-not-compared"))
            && visible(source, stored.owner)?)
    }

    /// One record fills no page, so there is no cursor to go on from.
    fn one(
        &self,
        source: &dyn Source,
        query: &RecordQuery,
        key: &RecordKey,
        page: &mut PageBuilder<Record>,
    ) -> Result<()> {
        let key = record_key(self.wkey, &query.collection, key);
        let Some(body) = source.get(tables::RECORDS, &key)? else { return Ok(()) };
        let stored = read_record(key.as_bytes(), &body)?;
        if self.admits(source, query, &stored)? {
            page.push(stored.record);
        }
        Ok(())
    }

    fn walk(
        &self,
        source: &dyn Source,
        query: &RecordQuery,
        position: Option<&Place>,
        page: &mut PageBuilder<Record>,
    ) -> Result<()> {
        let newest_first = query.order.from_newest();
        let mut span = Span::within(self.prefix.clone());
        if let Some((ordinal, key)) = position {
            let edge = self.prefix.clone().u64(*ordinal).tail(key.as_str());
            span = if newest_first { span.before(edge) } else { span.after(edge) };
        }
        let scanned = source.scan(self.table, &span, Toward::newest_first(newest_first), &mut |place, _| {
            let rest = place.get(self.prefix.as_bytes().len()..).unwrap_or_default();
            let mut fields = Fields::of_key(self.table, rest);
            fields.u64()?;
            let key = fields.tail()?;
            let key = record_key(self.wkey, &query.collection, &fields.parse(key)?);
            let body = source.get(tables::RECORDS, &key)?.ok_or_else(|| damaged(self.table, "record"))?;
            let stored = read_record(key.as_bytes(), &body)?;
            Ok(!self.admits(source, query, &stored)? || page.push(stored.record))
        });
        scanned.or_else(|error| page.beyond(error)).map(drop)
    }
}

/// What became of the owner with a key; 0 is nobody.
pub(crate) fn owner_state(source: &dyn Source, owner: u64) -> Result<OwnerState> {
    if owner == 0 {
        return Ok(OwnerState::Unowned);
    }
    Ok(match head(source, owner)?.map(|head| head.state) {
        None => OwnerState::Gone,
        Some(SessionState::Active) => OwnerState::Active,
        Some(SessionState::Restoring) => OwnerState::Restoring,
    })
}

/// Whether ordinary reads see a record: its owner is nobody, or a session in use.
pub(crate) fn visible(source: &dyn Source, owner: u64) -> Result<bool> {
    Ok(matches!(owner_state(source, owner)?, OwnerState::Unowned | OwnerState::Active))
}
