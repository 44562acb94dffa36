//! Records, leases and stored receipts.

use std::sync::Arc;

use turnkeep_core::commit::{Fingerprint, Receipt, RequestId};
use turnkeep_core::id::{Collection, RecordKey, SessionId, Status};
use turnkeep_core::model::{LeasePurpose, LeaseState, Record, Version};
use turnkeep_core::rules::{LeaseRow, RequestRow};
use turnkeep_core::{Incarnation, OwnerId, Payload, Result, SessionRef, Timestamp};

use super::{from_json, json};
use crate::codec::{Fields, Key, Value};
use crate::tables::{self, Table};

pub(crate) fn record_key(wkey: u64, collection: &Collection, key: &RecordKey) -> Key {
    Key::new().u64(wkey).text(collection.as_str()).tail(key.as_str())
}

/// A record with the key of its owner's life; 0 when nobody owns it.
#[derive(Clone, Debug)]
pub(crate) struct StoredRecord {
    pub(crate) owner: u64,
    pub(crate) record: Record,
}

/// Where the indexes have a record.
pub(crate) struct RecordPlaces {
    pub(crate) in_order: Key,
    pub(crate) by_owner: Key,
    pub(crate) of_owner: Key,
    pub(crate) by_status: Option<Key>,
}

impl RecordPlaces {
    pub(crate) fn of(wkey: u64, stored: &StoredRecord) -> Self {
        let StoredRecord { owner, record } = stored;
        let (collection, key) = (record.collection.as_str(), record.key.as_str());
        let status = record.status.as_ref().map(Status::as_str);
        Self {
            in_order: Key::new().u64(wkey).text(collection).u64(record.ordinal).tail(key),
            by_owner: Key::new().u64(*owner).u64(wkey).text(collection).u64(record.ordinal).tail(key),
            of_owner: Key::new().u64(*owner).u64(wkey).text(collection).tail(key),
            by_status: status.map(|status| {
                Key::new().u64(wkey).text(collection).text(status).u64(record.ordinal).tail(key)
            }),
        }
    }
}

pub(crate) fn write_record(stored: &StoredRecord) -> Value {
    let StoredRecord { owner, record } = stored;
    let value = Value::sized(160 + record.payload.as_str().len()).u64(*owner);
    let value = match &record.owner {
        Some(owner) => value.str(owner.id.as_str()).bytes(owner.incarnation.as_bytes()),
        None => value,
    };
    value
        .maybe_str(record.status.as_ref().map(AsRef::as_ref))
        .u64(record.ordinal)
        .u64(record.version.birth)
        .u64(record.version.count)
        .time(record.created_at)
        .time(record.updated_at)
        .str(record.payload.as_str())
}

pub(crate) fn read_record(key: &[u8], body: &[u8]) -> Result<StoredRecord> {
    let mut place = Fields::of_key(tables::RECORDS, key);
    place.u64()?;
    let (collection, key) = (place.text()?, place.tail()?);
    let (collection, key) = (place.parse(collection)?, place.parse(key)?);
    let mut fields = Fields::of_value(tables::RECORDS, body)?;
    let owner = fields.u64()?;
    let session = match owner {
        0 => None,
        _ => Some(SessionRef { id: fields.id()?, incarnation: Incarnation::from_bytes(fields.bytes()?) }),
    };
    let record = Record {
        collection,
        key,
        owner: session,
        status: fields.maybe_id()?,
        ordinal: fields.u64()?,
        version: Version { birth: fields.u64()?, count: fields.u64()? },
        created_at: fields.time()?,
        updated_at: fields.time()?,
        payload: Payload::from_stored(Arc::from(fields.str()?)),
    };
    fields.end()?;
    Ok(StoredRecord { owner, record })
}

/// `skey` and no name for the lease of a session; 0 and a name for another.
pub(crate) fn lease_key(skey: u64, wkey: u64, name: &str) -> Key {
    Key::new().u64(skey).u64(wkey).tail(name)
}

pub(crate) fn write_lease(row: &LeaseRow) -> Value {
    Value::new()
        .flag(row.state == LeaseState::Held)
        .bytes(row.owner.as_bytes())
        .bytes(&row.token)
        .u64(row.epoch)
        .str(row.purpose.as_str())
        .time(row.acquired_at)
        .time(row.expires_at)
}

pub(crate) fn read_lease(body: &[u8]) -> Result<LeaseRow> {
    let mut fields = Fields::of_value(tables::LEASES, body)?;
    let state = if fields.flag()? { LeaseState::Held } else { LeaseState::Released };
    let owner = OwnerId::from_bytes(fields.bytes()?);
    let (token, epoch) = (fields.bytes()?, fields.u64()?);
    let purpose = LeasePurpose::from_name(fields.str()?).ok_or_else(|| fields.damaged("purpose"))?;
    let (acquired_at, expires_at) = (fields.time()?, fields.time()?);
    fields.end()?;
    Ok(LeaseRow { state, owner, token, epoch, purpose, acquired_at, expires_at })
}

/// `skey` for a request of one session; 0 for one of the workspace.
pub(crate) fn request_key(skey: u64, wkey: u64, id: &RequestId) -> Key {
    Key::new().u64(skey).u64(wkey).tail(&id.to_string())
}

/// Where the indexes have the receipt with a key.
pub(crate) fn request_places(
    key: &Key,
    owner: u64,
    expires_at: Option<Timestamp>,
) -> Result<impl Iterator<Item = (Table, Key)>> {
    let mut fields = Fields::of_key(tables::REQUESTS, key.as_bytes());
    let (skey, wkey, id) = (fields.u64()?, fields.u64()?, fields.tail()?);
    let by_owner =
        (owner != 0).then(|| (tables::REQUESTS_BY_OWNER, Key::new().u64(owner).u64(wkey).tail(id)));
    let expiring =
        expires_at.map(|at| (tables::REQUESTS_EXPIRING, Key::new().time(at).u64(skey).u64(wkey).tail(id)));
    Ok(by_owner.into_iter().chain(expiring))
}

/// A stored receipt.
#[derive(Clone, Debug)]
pub(crate) struct StoredRequest {
    /// The key of the life that a request of the workspace lives with; 0 when there is none.
    pub(crate) owner: u64,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) receipt: Receipt,
}

pub(crate) fn write_request(owner: u64, row: &RequestRow) -> Result<Value> {
    let receipt = json(&row.receipt)?;
    let value = Value::sized(120 + receipt.len()).u64(owner);
    let value = match row.owner.as_ref().filter(|_| owner != 0) {
        Some(owner) => value.str(owner.id.as_str()).bytes(owner.incarnation.as_bytes()),
        None => value,
    };
    let value = value.bytes(row.fingerprint.as_bytes()).time(row.created_at);
    let value = match row.expires_at {
        Some(at) => value.flag(true).time(at),
        None => value.flag(false),
    };
    Ok(value.str(&receipt))
}

pub(crate) fn read_request(body: &[u8]) -> Result<StoredRequest> {
    let mut fields = Fields::of_value(tables::REQUESTS, body)?;
    let owner = fields.u64()?;
    if owner != 0 {
        let _: SessionId = fields.id()?;
        let _: [u8; 16] = fields.bytes()?;
    }
    let fingerprint = Fingerprint::from_bytes(fields.bytes()?);
    fields.time()?;
    let expires_at = if fields.flag()? { Some(fields.time()?) } else { None };
    let receipt = from_json(tables::REQUESTS, fields.str()?)?;
    fields.end()?;
    Ok(StoredRequest { owner, fingerprint, expires_at, receipt })
}
