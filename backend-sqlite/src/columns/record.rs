//! Records.

use turnkeep_core::id::SessionRef;
use turnkeep_core::model::{Record, Version};
use turnkeep_core::rules::OwnerState;
use turnkeep_core::{Incarnation, Result};

use crate::columns::{Fields, from_bits};

/// The columns of a record `r` with its owning session `o`, as [`record`] reads them.
pub(crate) const RECORD_COLUMNS: &str = "r.collection, r.key, r.status, r.ordinal, r.birth, r.count, \
     r.created_at, r.updated_at, r.payload, r.owner, o.id, o.incarnation, o.state";

/// A record and what became of its owner.
pub(crate) struct StoredRecord {
    pub(crate) record: Record,
    pub(crate) owner: OwnerState,
}

/// Reads a record.
pub(crate) fn record(fields: &mut Fields<'_>) -> Result<StoredRecord> {
    let record = Record {
        collection: fields.id()?,
        key: fields.id()?,
        owner: None,
        status: fields.maybe_id()?,
        ordinal: fields.u64()?,
        version: Version { birth: from_bits(fields.int()?), count: fields.u64()? },
        created_at: fields.time()?,
        updated_at: fields.time()?,
        payload: fields.payload()?,
    };
    if fields.maybe_int()?.is_none() {
        return Ok(StoredRecord { record, owner: OwnerState::Unowned });
    }
    let owner = SessionRef { id: fields.id()?, incarnation: Incarnation::from_bytes(fields.bytes()?) };
    let state = fields.named(|name| match name {
        "active" => Some(OwnerState::Active),
        "restoring" => Some(OwnerState::Restoring),
        "deleted" => Some(OwnerState::Gone),
        _ => None,
    })?;
    Ok(StoredRecord { record: Record { owner: Some(owner), ..record }, owner: state })
}
