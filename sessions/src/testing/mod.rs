//! For tests of hosts: seeded random bits, stores that fail as told, and processes that die on demand.

mod fault;

use std::sync::{Arc, Mutex, PoisonError};

use turnkeep_core::Store;
use turnkeep_core::error::Result;

pub use fault::{Call, Fault, FaultStore, Noted};
pub use turnkeep_core::{ManualClock, Timestamp};

use crate::entropy::Entropy;
use crate::lease::Lease;
use crate::run::Run;

/// Random bits that follow from a seed: the same ids in every test run. Not for anything else.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<u64>);

impl SeededEntropy {
    /// Bits that follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            let drawn = draw(&mut state);
            chunk.copy_from_slice(drawn.to_le_bytes().get(..chunk.len()).unwrap_or_default());
        }
        Ok(())
    }
}

/// SplitMix64: every seed gives a sequence that repeats only after 2^64 steps.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
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
