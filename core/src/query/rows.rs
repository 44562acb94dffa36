//! Reading everything that a session is, in the order in which it is restored: for copies and exports.

use serde::{Deserialize, Serialize};

use crate::id::{Collection, RecordKey, RunId, SessionRef, StreamName, WorkspaceId};
use crate::model::{Row, RowKind};
use crate::query::{Cursor, DEFAULT_LIMIT};

/// Whose rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum RowSubject {
    /// A session: its image, entries, runs, streams, events and records, in that order (`RowKind`).
    Session(SessionRef),
    /// The records of a workspace that no session owns, by collection and key (both bytewise).
    Unowned,
}

/// The row that a page ended with, as a cursor holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RowPlace {
    /// The image of the session.
    Session,
    /// An entry.
    Entry(u32),
    /// A run: its number, and its id.
    Run(u32, RunId),
    /// A stream.
    Stream(StreamName),
    /// An event of a stream.
    Event(StreamName, u64),
    /// A record.
    Record(Collection, RecordKey),
}

impl RowPlace {
    /// Where a row lies.
    #[must_use]
    pub fn of(row: &Row) -> Self {
        match row {
            Row::Session(_) => Self::Session,
            Row::Entry(entry) => Self::Entry(entry.number.get()),
            Row::Run(run) => Self::Run(run.number, run.id.clone()),
            Row::Stream(stream) => Self::Stream(stream.name.clone()),
            Row::Event { stream, event } => Self::Event(stream.clone(), event.number),
            Row::Record(record) => Self::Record(record.collection.clone(), record.key.clone()),
        }
    }

    /// The kind of the row.
    #[must_use]
    pub const fn kind(&self) -> RowKind {
        match self {
            Self::Session => RowKind::Session,
            Self::Entry(_) => RowKind::Entry,
            Self::Run(..) => RowKind::Run,
            Self::Stream(_) => RowKind::Stream,
            Self::Event(..) => RowKind::Event,
            Self::Record(..) => RowKind::Record,
        }
    }
}

/// Which rows to read, always ascending.
#[derive(Clone, Debug, Serialize)]
pub struct RowQuery {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Whose rows.
    pub subject: RowSubject,
    /// Only these kinds; empty means all.
    pub kinds: Vec<RowKind>,
    /// At most this many.
    #[serde(skip)]
    pub limit: u32,
    /// Where to go on.
    #[serde(skip)]
    pub cursor: Option<Cursor>,
}

impl RowQuery {
    /// Everything of a session.
    #[must_use]
    pub fn session(workspace: WorkspaceId, session: SessionRef) -> Self {
        let subject = RowSubject::Session(session);
        Self { workspace, subject, kinds: Vec::new(), limit: DEFAULT_LIMIT, cursor: None }
    }

    /// The records that nobody owns.
    #[must_use]
    pub fn unowned(workspace: WorkspaceId) -> Self {
        Self {
            workspace,
            subject: RowSubject::Unowned,
            kinds: Vec::new(),
            limit: DEFAULT_LIMIT,
            cursor: None,
        }
    }

    /// Whether rows of this kind are asked for and lie beyond a place: where the page begins.
    #[must_use]
    pub fn comes(&self, kind: RowKind, beyond: Option<&RowPlace>) -> bool {
        self.wants(kind) && beyond.is_none_or(|place| place.kind() <= kind)
    }

    /// Whether rows of this kind are asked for.
    #[must_use]
    pub fn wants(&self, kind: RowKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}
