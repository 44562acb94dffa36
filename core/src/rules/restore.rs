//! The rolling digest of a session that is being built. Sender and store fold the same rows in the same order; the
//! seal compares.

use crate::digest::FieldDigest;
use crate::id::{EntryNo, SessionRef};
use crate::model::Row;

/// Folds a restored row.
#[must_use]
pub fn fold_row(digest: &[u8; 32], row: &Row) -> [u8; 32] {
    let bytes = serde_json::to_vec(row).unwrap_or_default();
    FieldDigest::new("restore-row/1").bytes(digest).bytes(&bytes).finish()
}

/// The digest of a child that holds the entries up to `through` of its source, and nothing else. Entries never change,
/// so source and range say it all, however the slices were cut: whoever takes over a fork knows the digest so far.
#[must_use]
pub fn copied(from: &SessionRef, through: EntryNo) -> [u8; 32] {
    let digest = FieldDigest::new("restore-copy/1").bytes(from.incarnation.as_bytes());
    digest.number(u64::from(through.get())).finish()
}
