//! Guards: what must be so for a commit to happen.

use crate::id::{Collection, EntryKey, EntryNo, RecordKey, RunId, SessionId, SessionRef};
use crate::model::{RunStates, Version};

/// What a record must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Anything, absent too.
    Any,
    /// Absent.
    Absent,
    /// Present at exactly this version.
    Version(Version),
}

/// A condition of a commit. Evaluated against what is stored, before any op.
#[derive(Clone, Debug, PartialEq)]
pub enum Guard {
    /// The session's leaf is this entry. Else `StaleLeaf`.
    Leaf {
        /// The session.
        session: SessionRef,
        /// The expected leaf.
        leaf: Option<EntryNo>,
    },
    /// The session's highest number is this. Else `StaleLeaf`.
    Head {
        /// The session.
        session: SessionRef,
        /// The expected head.
        head: Option<EntryNo>,
    },
    /// The session is at this revision. Else `StaleLeaf`.
    Revision {
        /// The session.
        session: SessionRef,
        /// The expected revision.
        revision: u64,
    },
    /// No session has this id. Else `AlreadyExists`.
    SessionAbsent {
        /// The id.
        id: SessionId,
    },
    /// The run is in one of these states. Else `RunState`.
    RunIn {
        /// The session.
        session: SessionRef,
        /// The run.
        run: RunId,
        /// The states.
        states: RunStates,
    },
    /// No run of the session is active. Else `ActiveRun`.
    NoActiveRun {
        /// The session.
        session: SessionRef,
    },
    /// An entry has this key. Else `NotFound`.
    KeyPresent {
        /// The session.
        session: SessionRef,
        /// The key.
        key: EntryKey,
    },
    /// No entry has this key. Else `AlreadyExists`.
    KeyAbsent {
        /// The session.
        session: SessionRef,
        /// The key.
        key: EntryKey,
    },
    /// The record is as expected. Else `VersionConflict`.
    Record {
        /// The collection.
        collection: Collection,
        /// The key.
        key: RecordKey,
        /// What it must be.
        expect: Expect,
    },
}
