//! What a commit needs to know, and the answers.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::commit::{Fingerprint, Receipt, RequestId, RequestScope};
use crate::id::{
    Collection, EntryKey, EntryNo, IntentId, OwnerId, RecordKey, RunId, SessionId, SessionRef, StreamName,
};
use crate::model::{
    LeaseName, LeasePurpose, LeaseState, LeaseView, Liveness, Record, Run, SessionRow, StreamRow,
};
use crate::time::Timestamp;

/// One look-up: it answers one row, or that there is none.
///
/// Everything below a session is named by incarnation. If that life of the session is over, the answer is "none".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    /// The session with this id, in use or restoring. Deleted ones are none.
    Session(SessionId),
    /// Whether the entry lies on a path, and in which segment.
    Place(SessionRef, EntryNo),
    /// What the entries `after+1 ..= through` add up to.
    Span(SessionRef, Option<EntryNo>, EntryNo),
    /// The entry with this key. Its place is answered too (into `Facts::places`): an entry that is left out because its
    /// key is taken may be the parent of a later one in the same append.
    EntryKey(SessionRef, EntryKey),
    /// A run.
    Run(SessionRef, RunId),
    /// The newest attempt at a request.
    LatestAttempt(SessionRef, IntentId),
    /// A lease with its owner's liveness.
    Lease(LeaseName),
    /// A record, also of a deleted owner, with what became of the owner. If the owner is in use, its session row is
    /// answered too (into `Facts::sessions`), so that a change of owner moves the revision of both.
    Record(Collection, RecordKey),
    /// The state of a stream.
    Stream(SessionRef, StreamName),
    /// The last ordinal given in a collection to records of this owner, or of nobody.
    Ordinal(Collection, Option<SessionRef>),
    /// The stored receipt of a request.
    Request(RequestScope, RequestId),
}

/// What a commit needs to know. Each look-up occurs once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSet {
    /// The look-ups; sessions come before what lies below them.
    pub lookups: Vec<Lookup>,
}

/// Where an entry lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whether it lies on a path.
    pub on_path: bool,
    /// The segment at its number: the last one that begins at or before it.
    pub segment: Option<EntryNo>,
}

/// What a span of entries adds up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Conversation messages in it.
    pub messages: u32,
    /// The text of the first user message of the conversation in it.
    pub first_user_text: Option<String>,
    /// The last path entry in it, and its segment.
    pub tip: Option<(EntryNo, EntryNo)>,
}

/// A lease as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRow {
    /// Held or released.
    pub state: LeaseState,
    /// The handle that holds or held it.
    pub owner: OwnerId,
    /// SHA-256 of the token.
    #[serde(with = "crate::digest::hex32")]
    pub token: [u8; 32],
    /// Grows by one with every holder.
    pub epoch: u64,
    /// What the holder does.
    pub purpose: LeasePurpose,
    /// When the present holder took it.
    pub acquired_at: Timestamp,
    /// When others may take it.
    pub expires_at: Timestamp,
}

impl LeaseRow {
    /// The lease as others see it.
    #[must_use]
    pub fn view(&self, now: Timestamp, liveness: Liveness) -> LeaseView {
        LeaseView {
            state: self.state,
            owner: self.owner,
            epoch: self.epoch,
            purpose: self.purpose,
            acquired_at: self.acquired_at,
            expires_at: self.expires_at,
            expired: self.expires_at <= now,
            liveness,
        }
    }
}

/// A lease and whether its owner lives. The liveness of a released lease may be `Unknown` without a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFact {
    /// The row.
    pub row: LeaseRow,
    /// Whether its owner lives.
    pub liveness: Liveness,
}

/// What became of the session that owns a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// Nobody owns it.
    Unowned,
    /// The owner is in use.
    Active,
    /// The owner is being built.
    Restoring,
    /// The owner was deleted: the record reads as absent and may be overwritten.
    Gone,
}

/// A record and what became of its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFact {
    /// The record.
    pub record: Record,
    /// What became of its owner.
    pub owner: OwnerState,
}

/// The newest attempt at a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFact {
    /// The run.
    pub run: RunId,
    /// Which attempt it is.
    pub attempt: u32,
}

/// What was done under a request id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFact {
    /// What the caller meant.
    pub fingerprint: Fingerprint,
    /// What was made.
    pub receipt: Receipt,
}

/// The stored receipt of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRow {
    /// Where the id is unique.
    pub scope: RequestScope,
    /// The id.
    pub id: RequestId,
    /// The session that takes it along when deleted.
    pub owner: Option<SessionRef>,
    /// What the caller meant.
    pub fingerprint: Fingerprint,
    /// What was made.
    pub receipt: Receipt,
    /// When it landed.
    pub created_at: Timestamp,
    /// When it may be removed.
    pub expires_at: Option<Timestamp>,
}

/// The answers to a [`ReadSet`]. A backend inserts what it finds; what it does not insert is held to be absent.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Sessions by id.
    pub sessions: HashMap<SessionId, SessionRow>,
    /// Places of entries.
    pub places: HashMap<(SessionRef, EntryNo), Place>,
    /// Spans by their end.
    pub spans: HashMap<(SessionRef, Option<EntryNo>, EntryNo), Span>,
    /// Entries by key.
    pub keys: HashMap<(SessionRef, EntryKey), EntryNo>,
    /// Runs.
    pub runs: HashMap<(SessionRef, RunId), Run>,
    /// Newest attempts.
    pub attempts: HashMap<(SessionRef, IntentId), AttemptFact>,
    /// Leases.
    pub leases: HashMap<LeaseName, LeaseFact>,
    /// Records.
    pub records: HashMap<(Collection, RecordKey), RecordFact>,
    /// Streams.
    pub streams: HashMap<(SessionRef, StreamName), StreamRow>,
    /// Last ordinals.
    pub ordinals: HashMap<(Collection, Option<SessionRef>), u64>,
    /// Requests; a commit has at most one.
    pub request: Option<RequestFact>,
}

/// What comes from outside: the rules read no clock and draw no random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The store's clock.
    pub now: Timestamp,
    /// Higher than that of any earlier commit of the store.
    pub activity: u64,
    /// Fresh random bits, for the births of records.
    pub nonce: u64,
}

impl Stamp {
    /// The activity number after `last`: microseconds by the clock, so that lists of different stores fit together,
    /// but always growing, whatever the clock does.
    #[must_use]
    pub fn next_activity(now: Timestamp, last: u64) -> u64 {
        let clock = u64::try_from(now.as_millis()).unwrap_or(0).saturating_mul(1000).min(MAX_ACTIVITY);
        clock.max(last.saturating_add(1))
    }
}

/// The highest activity number that a restored row may carry.
pub const MAX_ACTIVITY: u64 = 1 << 62;
