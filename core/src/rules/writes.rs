//! The rows that a commit writes.

use serde::{Deserialize, Serialize};

use crate::commit::Receipt;
use crate::id::{Collection, EntryNo, RecordKey, SessionRef, StreamName, WorkspaceId};
use crate::model::{Entry, Event, LeaseName, Record, Run, SessionRow, StreamRow};
use crate::rules::{LeaseRow, RequestRow};

/// How much of a session row changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionChange {
    /// Only what moves with appends and runs: everything but state, profile and `created_at`.
    Counters,
    /// Anything but the identity.
    All,
    /// The row is new.
    New,
}

/// A segment that begins: a run of consecutive path entries, named by its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Its first entry.
    pub first: EntryNo,
    /// The parent of that entry.
    pub parent: Option<EntryNo>,
    /// The segment that holds the parent.
    pub parent_segment: Option<EntryNo>,
}

/// One thing to write. A backend writes them in order; none can be refused any more. As JSON it comes back as it was,
/// payloads byte for byte, so a backend may keep a log of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Write {
    /// A session row.
    Session {
        /// The whole row as it is now.
        row: Box<SessionRow>,
        /// What of it changed.
        change: SessionChange,
    },
    /// The session is gone from every read from this commit on; its rows wait for the purge.
    DeleteSession {
        /// The session.
        session: SessionRef,
    },
    /// Segments of a session.
    Segments {
        /// The session.
        session: SessionRef,
        /// The segments.
        segments: Vec<Segment>,
    },
    /// Entries of a session, ascending.
    Entries {
        /// The session.
        session: SessionRef,
        /// The entries.
        entries: Vec<Entry>,
    },
    /// Copies entries `after+1 ..= through` with segments that begin among them, and the runs they name that the
    /// child does not have yet. A run that is active arrives `Interrupted` (its finish is `updated_at`).
    Copy {
        /// The source.
        from: SessionRef,
        /// The child.
        to: SessionRef,
        /// The child's head before.
        after: Option<EntryNo>,
        /// The child's head afterwards.
        through: EntryNo,
    },
    /// A run.
    Run {
        /// The whole row as it is now.
        run: Box<Run>,
        /// Whether it is new.
        new: bool,
    },
    /// The state of a stream; insert or replace.
    Stream {
        /// The session.
        session: SessionRef,
        /// The row.
        row: StreamRow,
    },
    /// Events of a stream, ascending.
    Events {
        /// The session.
        session: SessionRef,
        /// The stream.
        stream: StreamName,
        /// The events.
        events: Vec<Event>,
    },
    /// Removes the events of a stream up to a number.
    DropEvents {
        /// The session.
        session: SessionRef,
        /// The stream.
        stream: StreamName,
        /// The last event removed.
        through: u64,
    },
    /// A record; insert or replace.
    Record {
        /// The record.
        record: Box<Record>,
    },
    /// Removes a record.
    DeleteRecord {
        /// The collection.
        collection: Collection,
        /// The key.
        key: RecordKey,
    },
    /// The last ordinal given; insert or replace.
    Ordinal {
        /// The collection.
        collection: Collection,
        /// The owner.
        owner: Option<SessionRef>,
        /// The last ordinal.
        last: u64,
    },
    /// A lease; insert or replace.
    Lease {
        /// What it protects.
        name: LeaseName,
        /// The row.
        row: LeaseRow,
    },
    /// The stored receipt of a request; new.
    Request(Box<RequestRow>),
    /// Something of the workspace changed that moves no session: `changes` must notice.
    TouchWorkspace,
}

/// What a commit writes, and its receipt. Empty for a repeated request.
///
/// As JSON it has no receipt, which is for the caller alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriteSet {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// What to write, in order: sessions that are new come first.
    pub writes: Vec<Write>,
    /// What to answer once it is durable.
    #[serde(skip)]
    pub receipt: Receipt,
}
