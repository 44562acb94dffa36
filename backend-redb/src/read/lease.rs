//! One lease.

use turnkeep_core::local::Handles;
use turnkeep_core::model::{LeaseKey, LeaseName, LeaseView};
use turnkeep_core::rules::LeaseRow;
use turnkeep_core::{Result, Timestamp};

use crate::read::{head_by_id, workspace};
use crate::rows::{lease_key, read_lease};
use crate::source::Source;
use crate::tables;

/// A lease with its owner's liveness; none once its session is deleted. Those of sessions that are being built are seen
/// too: their builder may be dead.
pub(crate) fn lease(
    source: &dyn Source,
    key: &LeaseKey,
    now: Timestamp,
    owners: &Handles,
) -> Result<Option<LeaseView>> {
    let Some(row) = workspace(source, &key.workspace)? else { return Ok(None) };
    let found = match &key.name {
        LeaseName::Named(id) => stored(source, 0, row.wkey, id.as_str())?,
        LeaseName::Session(session) => match head_by_id(source, row.wkey, &session.id)? {
            Some((skey, head)) if head.incarnation == session.incarnation => {
                stored(source, skey, row.wkey, "")?
            }
            _ => None,
        },
    };
    Ok(found.map(|row| row.view(now, owners.liveness(&row))))
}

pub(crate) fn stored(source: &dyn Source, skey: u64, wkey: u64, name: &str) -> Result<Option<LeaseRow>> {
    source.get(tables::LEASES, &lease_key(skey, wkey, name))?.map(|body| read_lease(&body)).transpose()
}
