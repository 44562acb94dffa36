//! Leases.

use turnkeep_core::model::{LeasePurpose, LeaseState};
use turnkeep_core::rules::LeaseRow;
use turnkeep_core::{OwnerId, Result};

use crate::columns::Fields;

pub(crate) const fn lease_state_name(state: LeaseState) -> &'static str {
    match state {
        LeaseState::Held => "held",
        LeaseState::Released => "released",
    }
}

/// Reads `state, owner, token, epoch, purpose, acquired_at, expires_at`.
pub(crate) fn lease_row(fields: &mut Fields<'_>) -> Result<LeaseRow> {
    Ok(LeaseRow {
        state: fields.named(|name| match name {
            "held" => Some(LeaseState::Held),
            "released" => Some(LeaseState::Released),
            _ => None,
        })?,
        owner: OwnerId::from_bytes(fields.bytes()?),
        token: fields.bytes()?,
        epoch: fields.u64()?,
        purpose: fields.named(LeasePurpose::from_name)?,
        acquired_at: fields.time()?,
        expires_at: fields.time()?,
    })
}
