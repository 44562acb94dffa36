//! Session rows.

use serde::{Deserialize, Serialize};

use crate::id::{EntryNo, Incarnation, RunId, SessionId, SessionKey, SessionRef, WorkspaceId};
use crate::payload::Payload;
use crate::time::Timestamp;

/// Whether a session is in use or still being built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// In use.
    #[default]
    Active,
    /// Being built by a fork, an import or a copy: hidden from every ordinary read until it is sealed.
    Restoring,
}

/// Whom a session is for. Default lists show only what a person can continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// A session that a person can continue.
    #[default]
    User,
    /// A session of a sub-agent.
    SubAgent,
}

/// Who chose a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TitleSource {
    /// A person.
    Manual,
    /// A program.
    Auto,
}

/// A title and who chose it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    /// The text, at most 4 KiB.
    pub text: String,
    /// Who chose it.
    pub source: TitleSource,
}

/// An identity in an external channel, such as a chat room.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Channel {
    /// The kind of channel.
    pub kind: String,
    /// The identity within it.
    pub id: String,
}

/// What a fork took from its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkKind {
    /// All of it.
    Session,
    /// Everything up to one message.
    Message,
}

/// Where a fork was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// What was taken.
    pub kind: ForkKind,
    /// The last entry taken.
    pub boundary: EntryNo,
    /// How many entries were taken.
    pub seed_length: u32,
}

/// What callers say of a session. All of it can be changed by `PatchSession` but the parent and the fork.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Title>,
    /// The working directory, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Whom it is for.
    pub audience: Audience,
    /// The session it came from. Text only: the parent may be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Where it was forked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkOrigin>,
    /// The channel it was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The project it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Kept at the top of lists.
    pub pinned: bool,
    /// Put away.
    pub archived: bool,
    /// Whatever else the host keeps here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<Payload>,
}

/// Counters of what models consumed. Each saturates at `i64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Requests to a model.
    pub requests: u64,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// All tokens, as the provider counts them.
    pub total_tokens: u64,
    /// Tokens read from a prompt cache.
    pub cache_read_tokens: u64,
    /// Tokens written to a prompt cache.
    pub cache_write_tokens: u64,
    /// Time spent, in milliseconds.
    pub duration_ms: u64,
}

impl Usage {
    /// The sum, each counter saturating at `i64::MAX`.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        const MOST: u64 = i64::MAX as u64;
        let add = |a: u64, b: u64| a.saturating_add(b).min(MOST);
        Self {
            requests: add(self.requests, other.requests),
            input_tokens: add(self.input_tokens, other.input_tokens),
            output_tokens: add(self.output_tokens, other.output_tokens),
            total_tokens: add(self.total_tokens, other.total_tokens),
            cache_read_tokens: add(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: add(self.cache_write_tokens, other.cache_write_tokens),
            duration_ms: add(self.duration_ms, other.duration_ms),
        }
    }
}

/// Where the path of a session ends, and where its last segment stands.
///
/// A segment is a run of consecutive path entries, each the child of the one before; it is named by the number of
/// its first entry. A path is therefore a short list of number ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathState {
    /// The entry that the next append continues.
    pub leaf: Option<EntryNo>,
    /// The segment that holds the leaf.
    pub leaf_segment: Option<EntryNo>,
    /// The newest entry that joined a segment.
    pub tip: Option<EntryNo>,
    /// The segment that holds the tip.
    pub tip_segment: Option<EntryNo>,
}

/// How far a restoring session has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreState {
    /// Rows restored or copied so far.
    pub rows: u64,
    /// Rolling SHA-256 over them, in order.
    #[serde(with = "crate::digest::hex32")]
    pub digest: [u8; 32],
}

/// A session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The id.
    pub id: SessionId,
    /// Which life of that id.
    pub incarnation: Incarnation,
    /// In use or being built.
    pub state: SessionState,
    /// Counts every change but lease and ledger rows. Starts at 1.
    pub revision: u64,
    /// Orders sessions by their last change; grows with every change of any session of the store.
    pub activity: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed; never moves backwards.
    pub updated_at: Timestamp,
    /// The highest entry number; `None` while empty.
    pub head: Option<EntryNo>,
    /// Leaf and segments.
    pub path: PathState,
    /// The run that is not finished.
    pub active_run: Option<RunId>,
    /// How many runs it has.
    pub runs: u32,
    /// How many conversation messages it has, on all branches.
    pub messages: u32,
    /// The beginning of the first user message.
    pub preview: Option<String>,
    /// Totals over all runs.
    pub usage: Usage,
    /// What callers say of it.
    pub profile: Profile,
    /// How far a restoring session has come; `None` once it is in use.
    pub restore: Option<RestoreState>,
}

impl SessionRow {
    /// This life of the session, for commits and queries.
    #[must_use]
    pub fn session_ref(&self) -> SessionRef {
        SessionRef { id: self.id.clone(), incarnation: self.incarnation }
    }

    /// The key that finds it.
    #[must_use]
    pub fn key(&self) -> SessionKey {
        SessionKey { workspace: self.workspace.clone(), id: self.id.clone() }
    }

    /// The number that the next entry gets; `None` when the range is used up.
    #[must_use]
    pub fn next_entry(&self) -> Option<EntryNo> {
        self.head.map_or(Some(EntryNo::FIRST), EntryNo::next)
    }
}
