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

/// Folds a copied slice. Its entries never change, so their range in the source says it all.
#[must_use]
pub fn fold_copy(digest: &[u8; 32], from: &SessionRef, after: Option<EntryNo>, through: EntryNo) -> [u8; 32] {
    FieldDigest::new("restore-copy/1")
        .bytes(digest)
        .bytes(from.incarnation.as_bytes())
        .number(u64::from(after.map_or(0, EntryNo::get)))
        .number(u64::from(through.get()))
        .finish()
}
