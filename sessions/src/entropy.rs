//! Where random bits come from: the system by default, a seed in tests.

use std::fmt::Debug;

use turnkeep_core::error::{Error, ErrorKind, Result};

/// A source of random bits, for ids, incarnations and lease tokens.
pub trait Entropy: Debug + Send + Sync + 'static {
    /// Fills `bytes` with random bits.
    ///
    /// # Errors
    /// `Io` when the source has none.
    fn fill(&self, bytes: &mut [u8]) -> Result<()>;
}

/// The operating system's random bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes).map_err(|error| {
            Error::new(ErrorKind::Io, "the operating system gave no random bits").with_source(error)
        })
    }
}
