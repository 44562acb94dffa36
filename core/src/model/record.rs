//! Records: versioned documents for everything that is small state.

use serde::{Deserialize, Serialize};

use crate::id::{Collection, RecordKey, SessionRef, Status};
use crate::payload::Payload;
use crate::time::Timestamp;

/// The collections that turnkeep itself writes. Hosts may add their own under other names.
pub mod collection {
    /// Accepted requests.
    pub const INTENTS: &str = "intents";
    /// Exclusive claims of tool calls.
    pub const TOOL_CLAIMS: &str = "tool-claims";
    /// Remote lineage per session.
    pub const LINEAGE: &str = "lineage";
    /// Background responses of providers.
    pub const RESPONSE_RUNS: &str = "response-runs";
    /// Turns of providers' responses.
    pub const RESPONSE_TURNS: &str = "response-turns";
    /// Channel bindings, one per channel identity.
    pub const BINDINGS: &str = "bindings";
    /// The claims of sessions to their one binding.
    pub const BOUND_SESSIONS: &str = "bound-sessions";
    /// Projects.
    pub const PROJECTS: &str = "projects";
    /// Capabilities of a session.
    pub const CAPABILITIES: &str = "capabilities";
    /// Tools of a channel.
    pub const CHANNEL_TOOLS: &str = "channel-tools";
    /// Guidance waiting for a session.
    pub const GUIDANCE: &str = "guidance";
    /// Approvals by people.
    pub const APPROVALS: &str = "approvals";
    /// Requests to cancel.
    pub const CANCEL_REQUESTS: &str = "cancel-requests";
}

/// The version of a record. A record made again after a delete never matches an old version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Version {
    /// Drawn when the record was made.
    pub birth: u64,
    /// Counts the puts since, from 1.
    pub count: u64,
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The collection.
    pub collection: Collection,
    /// The key within it.
    pub key: RecordKey,
    /// The session that owns it and takes it along when deleted.
    pub owner: Option<SessionRef>,
    /// The status column.
    pub status: Option<Status>,
    /// Its place in lists, given by the store: counted per owner, else per collection, from 1.
    pub ordinal: u64,
    /// Its version.
    pub version: Version,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The content, byte for byte.
    pub payload: Payload,
}
