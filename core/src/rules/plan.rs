//! What a commit needs to know.
use crate::commit::Commit;
use crate::rules::ReadSet;

/// The look-ups that `decide` needs for this commit.
#[must_use]
pub fn plan(_commit: &Commit) -> ReadSet {
    ReadSet::default()
}
