//! Limits that hold on every backend. A backend may declare less in its [`Limits`], never more.

use serde::{Deserialize, Serialize};

/// Bytes of a text id.
pub const ID_BYTES: usize = 256;
/// Bytes of one payload.
pub const PAYLOAD_BYTES: usize = 16 * 1024 * 1024;
/// Nesting depth of a payload: `[]` has depth 1, `1` has depth 0.
pub const PAYLOAD_DEPTH: usize = 128;
/// Bytes of all payloads and texts of one commit.
pub const COMMIT_BYTES: usize = 64 * 1024 * 1024;
/// Operations in one commit; a bulk append is one operation.
pub const COMMIT_OPS: usize = 1024;
/// Bytes of a stored receipt.
pub const RECEIPT_BYTES: usize = 4 * 1024;
/// Bytes of a short text column such as a title or a working directory.
pub const COLUMN_BYTES: usize = 4 * 1024;
/// Items of one page.
pub const PAGE_ITEMS: u32 = 10_000;
/// Payload bytes after which a page ends early (it always holds at least one item).
pub const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Rows that one background slice of a purge or a copy touches.
pub const SLICE_ROWS: u32 = 1_000;
/// Bytes of rows after which a slice of a purge ends early: large rows take longer.
pub const SLICE_BYTES: usize = 2 * 1024 * 1024;
/// Longest lease, in milliseconds.
pub const LEASE_MS: u64 = 24 * 60 * 60 * 1000;
/// How long a generated request id can be repeated, in milliseconds.
pub const REQUEST_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Characters of a session's preview.
pub const PREVIEW_CHARS: usize = 120;
/// Concurrent commits that wait in the queue of a local store before a caller has to wait.
pub const QUEUE_COMMITS: usize = 1024;
/// Commits that share one durable engine commit.
pub const GROUP_COMMITS: usize = 512;

/// What a store accepts. Compare before you build a large commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one payload.
    pub payload_bytes: usize,
    /// Nesting depth of a payload.
    pub payload_depth: usize,
    /// Bytes of all payloads and texts of one commit.
    pub commit_bytes: usize,
    /// Operations in one commit.
    pub commit_ops: usize,
    /// Items of one page; a larger limit is served as this one.
    pub page_items: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload_bytes: PAYLOAD_BYTES,
            payload_depth: PAYLOAD_DEPTH,
            commit_bytes: COMMIT_BYTES,
            commit_ops: COMMIT_OPS,
            page_items: PAGE_ITEMS,
        }
    }
}

impl Limits {
    /// Lowers the payload limit, in bytes.
    #[must_use]
    pub fn with_payload_bytes(mut self, bytes: usize) -> Self {
        self.payload_bytes = bytes.min(PAYLOAD_BYTES);
        self
    }

    /// Lowers the commit limit, in bytes.
    #[must_use]
    pub fn with_commit_bytes(mut self, bytes: usize) -> Self {
        self.commit_bytes = bytes.min(COMMIT_BYTES);
        self
    }
}
