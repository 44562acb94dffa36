//! What a client knows from the answers it got: numbers behind labels, versions, proofs of leases.
//!
//! The model keeps one with versions of its own, the player one with the store's. Both learn from the same answers, so
//! a name means the same to both.

use std::collections::BTreeMap;

use super::ops::{Condition, Do, Expected, Follows, Hold, Life, Line, Spot};
use super::script::Change;

/// A number that no entry of a tape ever has.
pub(crate) const NOWHERE: u32 = 4_000_000_000;

/// An open handle: the client, and the how-manieth handle of its.
pub(crate) type Handle = (u32, u32);

/// What one operation made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Made<V> {
    Plain,
    Skipped,
    Entries(Vec<u32>),
    Run { number: u32, attempt: u32 },
    Events { first: u64, last: u64 },
    Record { version: V, ordinal: u64 },
    Lease { epoch: u64, expires_at: i64 },
}

/// The answer to a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer<V> {
    pub(crate) made: Vec<Made<V>>,
    /// Revision, head and leaf of every session that changed.
    pub(crate) moved: BTreeMap<Life, (u64, Option<u32>, Option<u32>)>,
    pub(crate) replayed: bool,
}

/// The proof of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) handle: Handle,
    pub(crate) token: u32,
    pub(crate) epoch: u64,
}

/// What clients know.
#[derive(Clone, Debug)]
pub(crate) struct Mind<V> {
    labels: BTreeMap<String, u32>,
    versions: BTreeMap<(String, String), Vec<V>>,
    proofs: BTreeMap<(u32, Hold), Proof>,
}

impl<V> Default for Mind<V> {
    fn default() -> Self {
        Self { labels: BTreeMap::new(), versions: BTreeMap::new(), proofs: BTreeMap::new() }
    }
}

impl<V: Copy> Mind<V> {
    /// The version that an expectation means; `None` for one that never was.
    pub(crate) fn version(&self, collection: &str, key: &str, expect: Expected) -> Option<V> {
        let seen = self.versions.get(&(collection.to_owned(), key.to_owned()))?;
        match expect {
            Expected::Former => seen.first().copied(),
            _ => seen.last().copied(),
        }
    }

    /// What a client shows to prove that it holds a lease. One that never took it shows what proves nothing.
    pub(crate) fn proof(&self, client: u32, lease: &Hold) -> Proof {
        let known = self.proofs.get(&(client, lease.clone())).copied();
        known.unwrap_or(Proof { handle: (client, 0), token: 0, epoch: 0 })
    }

    /// Learns from an answer.
    pub(crate) fn learn(&mut self, handle: Handle, change: &Change, answer: &Answer<V>) {
        for (op, made) in change.ops.iter().zip(&answer.made) {
            let op = if let Do::WhenKey { then, .. } = op { then } else { op };
            match (op, made) {
                (Do::Append { lines, .. }, Made::Entries(numbers)) => {
                    for (line, number) in lines.iter().zip(numbers) {
                        if let Some(label) = &line.label {
                            self.labels.insert(label.clone(), *number);
                        }
                    }
                }
                (Do::Restore { first, lines, .. }, Made::Plain) => {
                    for (line, number) in lines.iter().zip(*first..) {
                        if let Some(label) = &line.label {
                            self.labels.insert(label.clone(), number);
                        }
                    }
                }
                (Do::Put { collection, key, .. }, Made::Record { version, .. }) => {
                    self.versions.entry((collection.clone(), key.clone())).or_default().push(*version);
                }
                (Do::Acquire { lease, token, .. }, Made::Lease { epoch, .. }) => {
                    let proof = Proof { handle, token: *token, epoch: *epoch };
                    self.proofs.insert((handle.0, lease.clone()), proof);
                }
                _ => {}
            }
        }
    }

    /// The number behind a spot.
    pub(crate) fn number(&self, spot: &Spot) -> u32 {
        match spot {
            Spot::No(number) => *number,
            Spot::Of(label) => self.labels.get(label).copied().unwrap_or(NOWHERE),
        }
    }

    /// A commit with every label replaced by its number.
    pub(crate) fn resolve(&self, change: &Change) -> Change {
        let mut change = change.clone();
        for guard in &mut change.guards {
            if let Condition::Leaf { leaf: Some(spot), .. } | Condition::Head { head: Some(spot), .. } = guard
            {
                self.fix(spot);
            }
        }
        change.ops.iter_mut().for_each(|op| self.resolve_op(op));
        change
    }

    fn resolve_op(&self, op: &mut Do) {
        match op {
            Do::Append { lines, .. } | Do::Restore { lines, .. } => {
                lines.iter_mut().for_each(|line| self.resolve_line(line));
            }
            Do::MoveLeaf { to: Some(spot), .. } => self.fix(spot),
            Do::WhenKey { then, .. } => self.resolve_op(then),
            _ => {}
        }
    }

    fn resolve_line(&self, line: &mut Line) {
        if let Follows::Entry(spot) = &mut line.follows {
            self.fix(spot);
        }
        line.refs.iter_mut().for_each(|spot| self.fix(spot));
    }

    fn fix(&self, spot: &mut Spot) {
        *spot = Spot::No(self.number(spot));
    }
}
