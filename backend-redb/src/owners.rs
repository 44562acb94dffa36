//! Who holds a lease, and whether they live.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turnkeep_core::OwnerId;
use turnkeep_core::model::{LeaseState, Liveness};
use turnkeep_core::rules::LeaseRow;

/// The open handles on a store. Whoever has the file locked has every living owner in its own process, so an owner
/// that is not here is dead: no lock files are needed to tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners(Arc<Mutex<BTreeSet<OwnerId>>>);

impl Owners {
    /// A panic cannot leave the set half changed, so its poison means nothing.
    fn alive(&self) -> MutexGuard<'_, BTreeSet<OwnerId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, owner: OwnerId) {
        self.alive().insert(owner);
    }

    /// Adds a handle to those that are open; `false` when none is, because the store closes.
    pub(crate) fn join(&self, owner: OwnerId) -> bool {
        let mut alive = self.alive();
        if !alive.is_empty() {
            return alive.insert(owner);
        }
        false
    }

    /// Says that a handle was closed. Answers whether it was the last one; only once per handle.
    pub(crate) fn leave(&self, owner: OwnerId) -> bool {
        let mut alive = self.alive();
        alive.remove(&owner) && alive.is_empty()
    }

    pub(crate) fn is_alive(&self, owner: OwnerId) -> bool {
        self.alive().contains(&owner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.alive().is_empty()
    }

    /// Whether the holder of a lease lives.
    pub(crate) fn liveness(&self, row: &LeaseRow) -> Liveness {
        if row.state == LeaseState::Released {
            Liveness::Unknown
        } else if self.is_alive(row.owner) {
            Liveness::Alive
        } else {
            Liveness::Dead
        }
    }
}
