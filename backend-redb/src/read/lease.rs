//! One lease.

use turnkeep_core::local::Handles;
use turnkeep_core::model::{LeaseKey, LeaseName, LeaseView};
use turnkeep_core::rules::LeaseRow;
use turnkeep_core::{Result, Timestamp};

use crate::read::{life, workspace};
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
        LeaseName::Session(session) => match life(source, row.wkey, session)? {
            Some((skey, _)) => stored(source, skey, row.wkey, "")?,
            None => None,
        },
    };
    Ok(found.map(|row| row.view(now, owners.liveness(&row))))
}

pub(crate) fn stored(source: &dyn Source, skey: u64, wkey: u64, name: &str) -> Result<Option<LeaseRow>> {
    source.get(tables::LEASES, &lease_key(skey, wkey, name))?.map(|body| read_lease(&body)).transpose()
}
