//! Records, leases and marks.

use std::collections::BTreeSet;
use std::ops::Bound;

use turnkeep_core::id::RecordKey;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{LeaseKey, LeaseView, Liveness, Record, SessionState};
use turnkeep_core::mutant;
use turnkeep_core::query::{Mark, OwnerFilter, PageBuilder, PageItem as _, RecordQuery, Scope, page_limit};
use turnkeep_core::{Cursor, OwnerId, Page, Result, Timestamp};

use crate::tables::{ListOrder, Tables, Workspace};

/// A place in a list of records.
type Place = (u64, RecordKey);

impl Tables {
    /// Records of a collection.
    ///
    /// # Errors
    /// `NotFound`, and `Invalid` for a limit of 0 or a cursor that is not of this query.
    pub fn records(&self, query: &RecordQuery, limits: &Limits) -> Result<Page<Record>> {
        let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
        let position: Option<Place> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
        if let OwnerFilter::Session(session) = &query.owner {
            self.session(&query.workspace, session)?;
        }
        if let Some(workspace) = self.workspaces.get(&query.workspace) {
            offer_records(workspace, query, position, |record| {
                page.push_with(record.bytes(), || record.clone())
            });
        }
        page.finish(query.order, |last| Cursor::seal(query, &(last.ordinal, &last.key)))
    }

    /// A lease with its owner's liveness; none once its session is deleted. Those of restoring sessions are shown too:
    /// their builder may be dead.
    #[must_use]
    pub fn lease(
        &self,
        key: &LeaseKey,
        now: Timestamp,
        liveness: impl Fn(&OwnerId) -> Liveness,
    ) -> Option<LeaseView> {
        let workspace = self.workspaces.get(&key.workspace)?;
        let there = workspace.may_hold(&key.name) || mutant::is("memory/lease-of-the-dead");
        let row = workspace.ledger.leases.get(&key.name).filter(|_| there)?;
        Some(row.view(now, liveness(&row.owner)))
    }

    /// The mark of a session or a workspace, which moves with every change.
    ///
    /// # Errors
    /// `NotFound` for a session that is not there.
    pub fn changes(&self, scope: &Scope) -> Result<Mark> {
        match scope {
            Scope::Workspace(id) => {
                Ok(self.workspaces.get(id).map_or(Mark::START, |workspace| Mark::new(workspace.mark)))
            }
            Scope::Session { workspace, session } => {
                let row = &self.session(workspace, session)?.row;
                debug_assert_eq!(row.state, SessionState::Active);
                Ok(Mark::new(row.revision))
            }
        }
    }
}

/// Offers the records that fit, in order, beyond a position, until one is turned down.
fn offer_records(
    workspace: &Workspace,
    query: &RecordQuery,
    position: Option<Place>,
    mut offer: impl FnMut(&Record) -> bool,
) {
    let ledger = &workspace.ledger;
    let order: Option<&ListOrder> = match &query.owner {
        OwnerFilter::Any => Some(&ledger.order),
        OwnerFilter::Unowned => ledger.owned.get(&None).map(|owned| &owned.order),
        OwnerFilter::Session(session) => ledger.owned.get(&Some(session.clone())).map(|owned| &owned.order),
    };
    let Some(places) = order.and_then(|order| order.get(&query.collection)) else { return };
    let only = query.key.as_ref().map(|key| one_place(workspace, query, key, places));
    let places = only.as_ref().unwrap_or(places);
    let mut visit = |(_, key): &Place| {
        let Some(record) = ledger.records.get(&(query.collection.clone(), key.clone())) else { return true };
        let fits = (query.status.is_none() || record.status == query.status)
            && (workspace.sees(record) || mutant::is("memory/records-of-the-dead"));
        !fits || offer(record)
    };
    let edge = position.map_or(Bound::Unbounded, Bound::Excluded);
    if query.order.from_newest() {
        let _ = places.range((Bound::Unbounded, edge)).rev().all(&mut visit);
    } else {
        let _ = places.range((edge, Bound::Unbounded)).all(&mut visit);
    }
}

/// The list narrowed to one key.
fn one_place(
    workspace: &Workspace,
    query: &RecordQuery,
    key: &RecordKey,
    places: &BTreeSet<Place>,
) -> BTreeSet<Place> {
    let record = workspace.ledger.records.get(&(query.collection.clone(), key.clone()));
    let place = record.map(|record| (record.ordinal, key.clone()));
    place.into_iter().filter(|place| places.contains(place)).collect()
}
