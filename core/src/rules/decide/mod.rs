//! What a commit writes, or why not.
use crate::commit::Commit;
use crate::error::{Error, Result};
use crate::rules::{Facts, Stamp, WriteSet};

/// Evaluates request, fences, guards and ops over the facts.
///
/// # Errors
/// The refusal, which names the fence, guard or op and what was observed.
pub fn decide(_commit: &Commit, _facts: Facts, _stamp: &Stamp) -> Result<WriteSet> {
    Err(Error::unsupported("decide"))
}
