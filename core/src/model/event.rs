//! Event streams: append-only logs beside the entries of a session.

use serde::{Deserialize, Serialize};

use crate::id::{EventKind, RunId, StreamName};
use crate::payload::Payload;
use crate::time::Timestamp;

/// The streams that turnkeep itself writes.
pub mod stream {
    /// The life of runs.
    pub const RUNS: &str = "runs";
    /// Changes of capabilities.
    pub const CAPABILITIES: &str = "capabilities";
    /// Items of provider responses.
    pub const RESPONSE_ITEMS: &str = "response-items";
    /// Usage, one event per model request.
    pub const USAGE: &str = "usage";
    /// The prefix of the streams that hold a turn's text so far.
    pub const PARTIAL_PREFIX: &str = "partial/";
}

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number in the stream, contiguous from 1.
    pub number: u64,
    /// What happened.
    pub kind: EventKind,
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// When, as the caller says.
    pub at: Timestamp,
    /// The content, byte for byte.
    pub payload: Payload,
}

/// The state of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRow {
    /// The stream.
    pub name: StreamName,
    /// The highest number given; 0 while empty.
    pub head: u64,
    /// Events up to here were dropped.
    pub floor: u64,
    /// Whether the stream takes no more events.
    pub closed: bool,
    /// The first number of the newest batch, to know a repeat of it.
    pub batch_first: u64,
    /// The digest of the newest batch, to know a repeat of it.
    #[serde(with = "crate::digest::hex32")]
    pub batch_digest: [u8; 32],
}
