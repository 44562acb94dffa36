//! What a store draws at random.

use crate::error::{Error, ErrorKind, Result};
use crate::id::OwnerId;

/// Random bits, for the births of records and the names of unfinished files.
///
/// # Errors
/// `Io` when the operating system gives none.
pub fn random_bits() -> Result<u64> {
    getrandom::u64().map_err(none)
}

/// The id of a handle that is being opened.
///
/// # Errors
/// `Io` when the operating system gives no random bits.
pub fn random_owner() -> Result<OwnerId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(none)?;
    Ok(OwnerId::from_bytes(bytes))
}

fn none(error: getrandom::Error) -> Error {
    Error::new(ErrorKind::Io, "the operating system gives no random bits").with_source(error)
}
