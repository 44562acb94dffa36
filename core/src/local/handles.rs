//! Who holds a lease, and whether they live, where one process has a store to itself.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::id::OwnerId;
use crate::model::{LeaseState, Liveness};
use crate::rules::LeaseRow;

/// The open handles on a store that one process has to itself. Clones are the same set.
///
/// Whoever has the store locked has every living owner in its own process, so an owner that is not here is dead: no
/// lock files are needed to tell.
#[derive(Clone, Debug, Default)]
pub struct Handles(Arc<Mutex<BTreeSet<OwnerId>>>);

impl Handles {
    /// A panic cannot leave the set half changed, so its poison means nothing.
    fn alive(&self) -> MutexGuard<'_, BTreeSet<OwnerId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in the first handle of a store.
    pub fn enter(&self, owner: OwnerId) {
        self.alive().insert(owner);
    }

    /// Adds a handle to those that are open; `false` when none is, because the store closes.
    pub fn join(&self, owner: OwnerId) -> bool {
        let mut alive = self.alive();
        if !alive.is_empty() {
            return alive.insert(owner);
        }
        false
    }

    /// Says that a handle was closed. Answers whether it was the last one; only once per handle.
    pub fn leave(&self, owner: OwnerId) -> bool {
        let mut alive = self.alive();
        alive.remove(&owner) && alive.is_empty()
    }

    /// Whether the handle is open.
    #[must_use]
    pub fn is_alive(&self, owner: OwnerId) -> bool {
        self.alive().contains(&owner)
    }

    /// Whether no handle is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.alive().is_empty()
    }

    /// Whether the holder of a lease lives. For a released lease nobody has to look.
    #[must_use]
    pub fn liveness(&self, row: &LeaseRow) -> Liveness {
        if row.state == LeaseState::Released {
            Liveness::Unknown
        } else if self.is_alive(row.owner) {
            Liveness::Alive
        } else {
            Liveness::Dead
        }
    }
}
