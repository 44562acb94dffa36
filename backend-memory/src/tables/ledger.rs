//! What belongs to a workspace beside its sessions: records, ordinals, leases and stored receipts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use turnkeep_core::SessionRef;
use turnkeep_core::Timestamp;
use turnkeep_core::commit::{RequestId, RequestScope};
use turnkeep_core::id::{Collection, RecordKey};
use turnkeep_core::model::{LeaseName, Record};
use turnkeep_core::rules::{LeaseRow, RequestRow};

/// Records of each collection in the order of lists.
pub(crate) type ListOrder = BTreeMap<Collection, BTreeSet<(u64, RecordKey)>>;

/// What one session, or nobody, owns: the index that lists read and a purge empties.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    /// Records by collection and key.
    pub(crate) keys: BTreeSet<(Collection, RecordKey)>,
    /// Records in the order of lists.
    pub(crate) order: ListOrder,
    /// The last ordinal given, by collection.
    pub(crate) ordinals: BTreeMap<Collection, u64>,
    /// Stored receipts.
    pub(crate) requests: BTreeSet<(RequestScope, RequestId)>,
}

/// Records, ordinals, leases and stored receipts of one workspace.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) records: BTreeMap<(Collection, RecordKey), Arc<Record>>,
    /// All records in the order of lists, whoever owns them.
    pub(crate) order: ListOrder,
    pub(crate) owned: BTreeMap<Option<SessionRef>, Owned>,
    pub(crate) leases: BTreeMap<LeaseName, LeaseRow>,
    pub(crate) requests: BTreeMap<(RequestScope, RequestId), Arc<RequestRow>>,
    /// Stored receipts that may be removed some day.
    pub(crate) expiring: BTreeSet<(Timestamp, RequestScope, RequestId)>,
}

impl Ledger {
    pub(crate) fn put_record(&mut self, record: Record) {
        let id = (record.collection.clone(), record.key.clone());
        self.remove_record(&id);
        let owned = self.owned.entry(record.owner.clone()).or_default();
        owned.keys.insert(id.clone());
        list(&mut owned.order, &record);
        list(&mut self.order, &record);
        self.records.insert(id, Arc::new(record));
    }

    pub(crate) fn remove_record(&mut self, id: &(Collection, RecordKey)) -> bool {
        let Some(old) = self.records.remove(id) else { return false };
        unlist(&mut self.order, &old);
        if let Some(owned) = self.owned.get_mut(&old.owner) {
            unlist(&mut owned.order, &old);
            owned.keys.remove(id);
        }
        true
    }

    pub(crate) fn put_request(&mut self, row: RequestRow) {
        let id = (row.scope.clone(), row.id.clone());
        self.remove_request(&id);
        let owner = row.owner.clone();
        self.owned.entry(owner).or_default().requests.insert(id.clone());
        if let Some(expires_at) = row.expires_at {
            self.expiring.insert((expires_at, row.scope.clone(), row.id.clone()));
        }
        self.requests.insert(id, Arc::new(row));
    }

    pub(crate) fn remove_request(&mut self, id: &(RequestScope, RequestId)) -> bool {
        let Some(old) = self.requests.remove(id) else { return false };
        if let Some(expires_at) = old.expires_at {
            self.expiring.remove(&(expires_at, old.scope.clone(), old.id.clone()));
        }
        if let Some(owned) = self.owned.get_mut(&old.owner) {
            owned.requests.remove(id);
        }
        true
    }

    /// Removes receipts that nobody can ask for any more, at most `most`. At the moment of its expiry one can still be
    /// asked for.
    pub(crate) fn expire_requests(&mut self, now: Timestamp, most: usize) {
        for _ in 0..most {
            match self.expiring.first() {
                Some((expires_at, scope, id)) if *expires_at < now => {
                    let id = (scope.clone(), id.clone());
                    self.remove_request(&id);
                }
                _ => return,
            }
        }
    }

    pub(crate) fn put_ordinal(&mut self, collection: Collection, owner: Option<SessionRef>, last: u64) {
        self.owned.entry(owner).or_default().ordinals.insert(collection, last);
    }

    pub(crate) fn ordinal(&self, collection: &Collection, owner: &Option<SessionRef>) -> Option<u64> {
        self.owned.get(owner)?.ordinals.get(collection).copied()
    }

    /// Removes one row that a session owns; `false` when none is left.
    pub(crate) fn purge_one(&mut self, owner: &SessionRef) -> bool {
        let name = LeaseName::Session(owner.clone());
        if self.leases.remove(&name).is_some() {
            return true;
        }
        let owner = Some(owner.clone());
        let Some(owned) = self.owned.get_mut(&owner) else { return false };
        if let Some(id) = owned.keys.first().cloned() {
            return self.remove_record(&id);
        }
        if let Some(id) = owned.requests.first().cloned() {
            return self.remove_request(&id);
        }
        if owned.ordinals.pop_first().is_some() {
            return true;
        }
        self.owned.remove(&owner);
        false
    }
}

fn list(order: &mut ListOrder, record: &Record) {
    order.entry(record.collection.clone()).or_default().insert((record.ordinal, record.key.clone()));
}

fn unlist(order: &mut ListOrder, record: &Record) {
    if let Some(places) = order.get_mut(&record.collection) {
        places.remove(&(record.ordinal, record.key.clone()));
        if places.is_empty() {
            order.remove(&record.collection);
        }
    }
}
