//! Who holds a lease, and whether they live.

use std::path::PathBuf;

use turnkeep_core::OwnerId;
use turnkeep_core::local::owner;
use turnkeep_core::model::{LeaseState, Liveness};
use turnkeep_core::rules::LeaseRow;

/// The owners' lock files beside a database, seen from one open handle.
#[derive(Clone, Debug)]
pub(crate) struct Owners {
    pub(crate) folder: PathBuf,
    pub(crate) me: OwnerId,
}

impl Owners {
    /// Whether the holder of a lease lives. A look at a file, so only where it matters.
    pub(crate) fn liveness(&self, row: &LeaseRow) -> Liveness {
        if row.state == LeaseState::Released {
            Liveness::Unknown
        } else if row.owner == self.me {
            Liveness::Alive
        } else {
            owner::liveness(&self.folder, row.owner)
        }
    }
}
