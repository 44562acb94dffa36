//! Rows of every kind, for copies and exports: everything that a session is, in the order in which it is restored.

use serde::{Deserialize, Serialize};

use crate::id::{EntryNo, StreamName};
use crate::model::{Entry, Event, Profile, Record, Run, SessionRow, StreamRow, Usage};
use crate::time::Timestamp;

/// The kinds of rows, in the order in which they are read and restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// The session itself.
    Session,
    /// Entries, ascending.
    Entry,
    /// Runs, ascending.
    Run,
    /// Streams by name; each comes before its events.
    Stream,
    /// Events by stream, ascending.
    Event,
    /// Records by collection and key.
    Record,
}

/// What a session is, without what belongs to one store: incarnation, revision, leases, counters that follow from
/// its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionImage {
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Its place in lists by activity.
    pub activity: u64,
    /// The leaf once all entries are there.
    pub leaf: Option<EntryNo>,
    /// Totals over all runs.
    pub usage: Usage,
    /// What callers say of it.
    pub profile: Profile,
}

impl From<&SessionRow> for SessionImage {
    fn from(row: &SessionRow) -> Self {
        Self {
            created_at: row.created_at,
            updated_at: row.updated_at,
            activity: row.activity,
            leaf: row.path.leaf,
            usage: row.usage,
            profile: row.profile.clone(),
        }
    }
}

/// One row of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "snake_case")]
pub enum Row {
    /// The session itself.
    Session(SessionImage),
    /// An entry.
    Entry(Entry),
    /// A run. Restored, it belongs to the session it is restored into; an active one arrives interrupted.
    Run(Run),
    /// The state of a stream.
    Stream(StreamRow),
    /// An event of a stream.
    Event {
        /// The stream.
        stream: StreamName,
        /// The event.
        event: Event,
    },
    /// A record that the session owns, or, in a copy of a workspace, one that nobody owns.
    Record(Record),
}

impl Row {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> RowKind {
        match self {
            Self::Session(_) => RowKind::Session,
            Self::Entry(_) => RowKind::Entry,
            Self::Run(_) => RowKind::Run,
            Self::Stream(_) => RowKind::Stream,
            Self::Event { .. } => RowKind::Event,
            Self::Record(_) => RowKind::Record,
        }
    }
}
