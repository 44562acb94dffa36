//! Holds what a store did against the model, step by step.

use std::collections::{BTreeMap, HashSet};

use turnkeep_core::ErrorKind;
use turnkeep_core::model::Version;

use super::mind::{Answer, Handle, Made};
use super::model::{Check, Model};
use super::ops::Do;
use super::script::Change;
use super::view::{Difference, View};
use crate::verdict::{Stop, Verdict};

/// Where a store and the model went apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Divergence {
    /// The place of the step on the tape, from 0.
    pub(crate) step: usize,
    /// What kind of divergence it is; shrinking keeps it.
    pub(crate) aspect: String,
    /// What was expected and seen.
    pub(crate) text: String,
}

/// Why a tape was not played to its end.
#[derive(Debug)]
pub(crate) enum Halt {
    Diverged(Box<Divergence>),
    /// The harness failed, or offers no way.
    Other(Verdict),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        match stop.into_verdict() {
            Verdict::Fail(text) => Self::diverged(0, "a refused call", text),
            other => Self::Other(other),
        }
    }
}

impl Halt {
    pub(crate) fn diverged(step: usize, aspect: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Diverged(Box::new(Divergence { step, aspect: aspect.into(), text: text.into() }))
    }

    /// Says at which step it happened.
    pub(crate) fn at(mut self, step: usize) -> Self {
        if let Self::Diverged(divergence) = &mut self {
            divergence.step = step;
        }
        self
    }
}

pub(crate) type Played<T = ()> = Result<T, Halt>;

/// What tells two answers apart: everything but the versions, which are a store's own.
type Plain = Answer<()>;

pub(crate) fn plain<V>(answer: &Answer<V>, clock: bool) -> Plain {
    let made = answer.made.iter().map(|made| match made {
        Made::Plain => Made::Plain,
        Made::Skipped => Made::Skipped,
        Made::Entries(numbers) => Made::Entries(numbers.clone()),
        Made::Run { number, attempt } => Made::Run { number: *number, attempt: *attempt },
        Made::Events { first, last } => Made::Events { first: *first, last: *last },
        Made::Record { ordinal, .. } => Made::Record { version: (), ordinal: *ordinal },
        Made::Lease { epoch, expires_at } => {
            Made::Lease { epoch: *epoch, expires_at: if clock { *expires_at } else { 0 } }
        }
    });
    Answer { made: made.collect(), moved: answer.moved.clone(), replayed: answer.replayed }
}

/// How an answer differs from the model's, if it does.
pub(crate) fn compare(
    change: &Change,
    expected: &Check<Answer<u64>>,
    seen: &Result<Answer<Version>, ErrorKind>,
    clock: bool,
) -> Result<(), Difference> {
    let what = "an answer";
    let verbs = || change.ops.iter().map(Do::verb).collect::<Vec<_>>().join(", ");
    match (expected, seen) {
        (Err(expected), Err(seen)) if expected == seen => Ok(()),
        (Err(expected), Err(seen)) => Err(Difference {
            what,
            text: format!("{}: expected {}, the store answered {}", verbs(), expected.code(), seen.code()),
        }),
        (Ok(_), Err(seen)) => Err(Difference {
            what: "a refusal",
            text: format!("{}: the store answered {}, the model does it", verbs(), seen.code()),
        }),
        (Err(expected), Ok(_)) => Err(Difference {
            what: "a consent",
            text: format!("{}: expected {}, the store said yes", verbs(), expected.code()),
        }),
        (Ok(expected), Ok(seen)) => {
            let (expected, seen) = (plain(expected, clock), plain(seen, clock));
            if expected == seen {
                return Ok(());
            }
            Err(Difference { what, text: format!("{}: expected {expected:?}, saw {seen:?}", verbs()) })
        }
    }
}

/// A store and its model, one step after the other.
#[derive(Debug)]
pub(crate) struct Judge {
    pub(crate) model: Model,
    /// Every version that a receipt named.
    versions: HashSet<Version>,
    pub(crate) tally: Tally,
}

/// What was played.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) landed: u64,
    pub(crate) refused: u64,
    pub(crate) looks: u64,
}

impl Judge {
    pub(crate) fn new(model: Model) -> Self {
        Self { model, versions: HashSet::new(), tally: Tally::default() }
    }

    /// A commit was answered.
    pub(crate) fn answered(
        &mut self,
        handle: Handle,
        change: &Change,
        seen: &Result<Answer<Version>, ErrorKind>,
    ) -> Result<(), Difference> {
        let expected = self.model.commit(handle, change);
        compare(change, &expected, seen, self.model.world.clock)?;
        if let (Ok(expected), Ok(seen)) = (&expected, seen) {
            self.tally.landed += 1;
            self.model.learn(handle, change, expected);
            if !seen.replayed {
                self.fresh(change, seen)?;
            }
        } else {
            self.tally.refused += 1;
        }
        Ok(())
    }

    /// Every put gives a version that none had before.
    fn fresh(&mut self, change: &Change, answer: &Answer<Version>) -> Result<(), Difference> {
        for (op, made) in change.ops.iter().zip(&answer.made) {
            if let Made::Record { version, .. } = made
                && !self.versions.insert(*version)
            {
                let text = format!("{}: {version:?} was given before", op.verb());
                return Err(Difference { what: "a version", text });
            }
        }
        Ok(())
    }

    /// A commit that may have landed or not: whichever model agrees with what is seen is taken on. `true` if it landed.
    /// The handles have died since.
    pub(crate) fn decide(
        &mut self,
        handle: Handle,
        change: &Change,
        dead: &[Handle],
        seen: &View,
    ) -> Result<bool, Difference> {
        let mut landed = self.model.clone();
        let expected = landed.commit(handle, change);
        for handle in dead {
            landed.bury(*handle);
            self.model.bury(*handle);
        }
        let Some(without) = self.model.view().difference(seen) else { return Ok(false) };
        if expected.is_ok() {
            match landed.view().difference(seen) {
                None => {
                    self.model = landed;
                    return Ok(true);
                }
                Some(with) => {
                    let text = format!("neither without it ({}) nor with it: {}", without.text, with.text);
                    return Err(Difference { what: "half a commit", text });
                }
            }
        }
        Err(without)
    }
}

/// The records that a commit wrote, and the version it was told for each.
pub(crate) fn written<'c>(
    change: &'c Change,
    answer: &Answer<Version>,
) -> BTreeMap<(&'c str, &'c str), Option<Version>> {
    let mut written = BTreeMap::new();
    for (op, made) in change.ops.iter().zip(&answer.made) {
        let op = if let Do::WhenKey { then, .. } = op { then } else { op };
        match (op, made) {
            (Do::Put { collection, key, .. }, Made::Record { version, .. }) => {
                written.insert((collection.as_str(), key.as_str()), Some(*version));
            }
            (Do::Remove { collection, key, .. }, _) => {
                written.remove(&(collection.as_str(), key.as_str()));
            }
            (Do::Delete { .. }, _) => written.clear(),
            _ => {}
        }
    }
    written
}

/// Whether a commit changed something that moves no session: a record that nobody owns, or a session that is gone.
pub(crate) fn moves_workspace<V>(change: &Change, answer: &Answer<V>) -> bool {
    let mut done = change.ops.iter().zip(&answer.made);
    done.any(|(op, made)| match op {
        Do::Delete { .. } => true,
        Do::Put { .. } => matches!(made, Made::Record { .. }),
        _ => false,
    })
}
