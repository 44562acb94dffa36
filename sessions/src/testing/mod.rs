//! For tests of hosts: seeded random bits, stores that fail as told, and processes that die on demand.

mod fault;

use std::sync::{Arc, Mutex, PoisonError};

use turnkeep_core::Store;
use turnkeep_core::error::Result;

pub use fault::{Call, Fault, FaultStore, Noted};
pub use turnkeep_core::dice::Dice;
pub use turnkeep_core::{ManualClock, Timestamp};

use crate::entropy::Entropy;
use crate::lease::Lease;
use crate::run::Run;

/// Random bits that follow from a seed: the same ids in every test run. Not for anything else.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<Dice>);

impl SeededEntropy {
    /// Bits that follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(Dice::new(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        let mut dice = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            let drawn = dice.next();
            chunk.copy_from_slice(drawn.to_le_bytes().get(..chunk.len()).unwrap_or_default());
        }
        Ok(())
    }
}

/// Forgets a run as if its process had died at this point: its lease is neither renewed nor given back, and nothing is
/// closed. Once the store handle is dropped too, its owner is dead, and the next one to open the workspace recovers it.
pub fn abandon(run: Run) {
    run.abandon();
}

/// Forgets a lease as if its process had died, and answers the store handle that it was taken through: drop it, and
/// its owner is dead.
#[must_use]
pub fn abandon_lease(lease: Lease) -> Arc<dyn Store> {
    lease.abandon()
}
