//! Receipts: what a commit made.

use serde::{Deserialize, Serialize};

use crate::id::{EntryNo, SessionRef};
use crate::model::Version;
use crate::time::Timestamp;

/// What one op did. Holds ranges, so that a receipt stays small.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done, with nothing to name.
    Done,
    /// Its condition did not hold.
    Skipped,
    /// Entries, in the order given: ranges of numbers, first and last. A skipped one counts with the number that
    /// has its key.
    Entries(Vec<(EntryNo, EntryNo)>),
    /// A run and which attempt it is.
    Run {
        /// Its place among the runs of the session.
        number: u32,
        /// Which attempt at its request.
        attempt: u32,
    },
    /// Events, first and last number.
    Events {
        /// The first number.
        first: u64,
        /// The last number.
        last: u64,
    },
    /// A record.
    Record {
        /// Its version now.
        version: Version,
        /// Its place in lists.
        ordinal: u64,
    },
    /// A lease.
    Lease {
        /// Its epoch.
        epoch: u64,
        /// When others may take it.
        expires_at: Timestamp,
    },
}

/// A session as a commit left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionMark {
    /// The session.
    pub session: SessionRef,
    /// Its revision.
    pub revision: u64,
    /// Its highest number.
    pub head: Option<EntryNo>,
    /// Its leaf.
    pub leaf: Option<EntryNo>,
}

/// What a commit made. A repeated request answers with the stored one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// One outcome per op.
    pub outcomes: Vec<Outcome>,
    /// The sessions that changed, as they are now; deleted ones are left out.
    pub sessions: Vec<SessionMark>,
    /// Whether this is the receipt of an earlier commit with the same request.
    #[serde(skip)]
    pub replayed: bool,
}

impl Receipt {
    /// The numbers of the entries of op `op`, in the order given.
    pub fn entries(&self, op: usize) -> impl Iterator<Item = EntryNo> {
        let ranges = match self.outcomes.get(op) {
            Some(Outcome::Entries(ranges)) => ranges.as_slice(),
            _ => &[],
        };
        ranges.iter().flat_map(|(first, last)| (first.get()..=last.get()).filter_map(EntryNo::new))
    }

    /// The session as this commit left it.
    #[must_use]
    pub fn session(&self, session: &SessionRef) -> Option<&SessionMark> {
        self.sessions.iter().find(|mark| mark.session == *session)
    }
}
