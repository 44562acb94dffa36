//! Which collections and streams only the holder of a session's lease may write. The one table.
//!
//! Everything else is shared: people write guidance, approvals and cancel requests to a running session, and hosts
//! write their own collections and streams.

use crate::model::{collection, stream};
use crate::mutant;

/// Collections whose owned records need the owner's lease.
pub const EXCLUSIVE_COLLECTIONS: &[&str] = &[
    collection::INTENTS,
    collection::TOOL_CLAIMS,
    collection::LINEAGE,
    collection::RESPONSE_RUNS,
    collection::RESPONSE_TURNS,
];

/// Streams that need the session's lease; a name that ends in `/` stands for all that begin with it.
pub const EXCLUSIVE_STREAMS: &[&str] =
    &[stream::RUNS, stream::RESPONSE_ITEMS, stream::USAGE, stream::PARTIAL_PREFIX];

/// Whether owned records of a collection are exclusive.
#[must_use]
pub fn is_exclusive_collection(name: &str) -> bool {
    EXCLUSIVE_COLLECTIONS.contains(&name) && !mutant::is("exclusive/collections-are-shared")
}

/// Whether a stream is exclusive.
#[must_use]
pub fn is_exclusive_stream(name: &str) -> bool {
    EXCLUSIVE_STREAMS
        .iter()
        .any(|entry| if entry.ends_with('/') { name.starts_with(entry) } else { name == *entry })
}
