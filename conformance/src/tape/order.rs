//! Whether some order of what clients did at once explains every answer and what is stored afterwards.
//!
//! An order must keep real time: what was answered before another thing was asked comes first. Each step is done by a
//! copy of the model, in turn; an answer that is not the model's ends the attempt. Revisions and numbers in receipts
//! leave few orders to try.

use std::collections::HashSet;

use turnkeep_core::ErrorKind;
use turnkeep_core::digest::FieldDigest;
use turnkeep_core::model::Version;

use super::judge::compare;
use super::look::Pages;
use super::mind::{Answer, Handle};
use super::model::Model;
use super::script::{Act, Step};
use super::view::{Difference, View};

/// What came back of a step.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Commit(Result<Answer<Version>, ErrorKind>),
    Look(Result<Pages, ErrorKind>),
}

/// A step that a client did.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    /// Its place on the tape.
    pub(crate) at: usize,
    pub(crate) handle: Handle,
    pub(crate) step: Step,
    /// When it was asked and when it was answered, on one counter for all clients.
    pub(crate) invoked: u64,
    pub(crate) returned: u64,
    pub(crate) seen: Seen,
}

/// What came of the search.
#[derive(Debug)]
pub(crate) enum Explained {
    /// An order explains everything: the model after it.
    By(Box<Model>),
    /// None does: how the one that came furthest failed, and at which step.
    ByNone(usize, Difference),
    /// There are too many orders to try.
    TooMany,
}

/// No search does more steps than this.
const MOST: usize = 60_000;

/// At most so many steps can be put in order at once.
pub(crate) const ROUND: usize = 64;

struct Search<'a> {
    round: &'a [Happened],
    /// What is stored at the end.
    stored: &'a View,
    done: usize,
    /// The furthest failure: how many steps were done, which step failed, and how.
    furthest: (usize, usize, Difference),
    tried: HashSet<(u64, [u8; 32])>,
}

/// Looks for an order.
pub(crate) fn explain(model: &Model, round: &[Happened], stored: &View) -> Explained {
    let nothing = Difference { what: "an order", text: "no step can be the first".to_owned() };
    let mut search = Search { round, stored, done: 0, furthest: (0, 0, nothing), tried: HashSet::new() };
    match search.go_on(model, 0) {
        Some(model) => Explained::By(Box::new(model)),
        None if search.done >= MOST => Explained::TooMany,
        None => {
            let (_, at, difference) = search.furthest;
            Explained::ByNone(at, difference)
        }
    }
}

impl Search<'_> {
    fn go_on(&mut self, model: &Model, placed: u64) -> Option<Model> {
        if placed.count_ones() as usize == self.round.len() {
            return match model.view().difference(self.stored) {
                None => Some(model.clone()),
                Some(difference) => {
                    let last = self.round.iter().map(|step| step.at).max().unwrap_or(0);
                    self.failed(placed, last, difference);
                    None
                }
            };
        }
        // The same steps in another order may come to the same state, from which all has been tried.
        let state = FieldDigest::new("conformance/order").text(&format!("{model:?}")).finish();
        if !self.tried.insert((placed, state)) {
            return None;
        }
        let open = |at: &usize| placed & (1 << at) == 0;
        for at in (0..self.round.len()).filter(open) {
            let step = &self.round[at];
            let must_wait =
                (0..self.round.len()).filter(open).any(|other| self.round[other].returned < step.invoked);
            if must_wait {
                continue;
            }
            if self.done >= MOST {
                return None;
            }
            self.done += 1;
            let mut next = model.clone();
            match fits(&mut next, step) {
                Ok(()) => {
                    if let Some(model) = self.go_on(&next, placed | (1 << at)) {
                        return Some(model);
                    }
                }
                Err(difference) => self.failed(placed, step.at, difference),
            }
        }
        None
    }

    fn failed(&mut self, placed: u64, at: usize, difference: Difference) {
        let depth = placed.count_ones() as usize;
        if depth >= self.furthest.0 {
            self.furthest = (depth, at, difference);
        }
    }
}

/// Does a step; fails if its answer is not the model's.
fn fits(model: &mut Model, happened: &Happened) -> Result<(), Difference> {
    match (&happened.step.act, &happened.seen) {
        (Act::Commit(change), Seen::Commit(seen)) => {
            let expected = model.commit(happened.handle, change);
            compare(change, &expected, seen, model.world.clock)?;
            if let Ok(answer) = expected {
                model.learn(happened.handle, change, &answer);
            }
            Ok(())
        }
        (Act::Look(look), Seen::Look(seen)) => {
            let expected = model.look(happened.handle.0, look);
            if expected == *seen {
                return Ok(());
            }
            let (expected, seen) = (crate::kit::brief(&expected), crate::kit::brief(seen));
            let text = format!("pages of {}: expected {expected}, saw {seen}", look.at.noun());
            Err(Difference { what: "pages", text })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::tape::mind::Made;
    use crate::tape::model::World;
    use crate::tape::ops::{Do, Expected, Hold, Life, Taking};
    use crate::tape::script::Change;

    fn model() -> Model {
        Model::new(World { clock: true, liveness: true }, 0, 2, false)
    }

    fn step(client: u32, op: Do) -> Step {
        Step { client, act: Act::Commit(Change { ops: vec![op], ..Change::default() }) }
    }

    fn happened(
        step: &Step,
        invoked: u64,
        returned: u64,
        answer: Result<Made<Version>, ErrorKind>,
    ) -> Happened {
        let yes = |made| Answer { made: vec![made], moved: BTreeMap::new(), replayed: false };
        let seen = Seen::Commit(answer.map(yes));
        Happened {
            at: invoked as usize,
            handle: (step.client, 1),
            step: step.clone(),
            invoked,
            returned,
            seen,
        }
    }

    fn claim(client: u32) -> Step {
        let (collection, key) = ("bindings".to_owned(), "x".to_owned());
        let expect = Expected::Absent;
        step(client, Do::Put { collection, key, owner: None, status: None, expect, value: client })
    }

    fn take(client: u32) -> Step {
        let lease = Hold::Named("line".to_owned());
        step(client, Do::Acquire { lease, token: client, ttl_ms: 1_000, takeover: Taking::Expired })
    }

    /// What is stored after these steps, one after the other.
    fn stored(steps: &[Step]) -> View {
        let mut model = model();
        for step in steps {
            if let Act::Commit(change) = &step.act {
                let _ = model.commit((step.client, 1), change);
            }
        }
        model.view()
    }

    const VERSION: Version = Version { birth: 1, count: 1 };

    #[test]
    fn one_winner_is_explained_whoever_was_asked_first() {
        let won = Made::Record { version: VERSION, ordinal: 1 };
        let round = [
            happened(&claim(0), 0, 3, Err(ErrorKind::VersionConflict)),
            happened(&claim(1), 1, 2, Ok(won.clone())),
        ];
        let after = stored(&[claim(1), claim(0)]);
        assert!(matches!(explain(&model(), &round, &after), Explained::By(_)));
        // Who was answered before the other one was asked cannot have lost to it.
        let round =
            [happened(&claim(0), 0, 1, Err(ErrorKind::VersionConflict)), happened(&claim(1), 2, 3, Ok(won))];
        assert!(matches!(explain(&model(), &round, &after), Explained::ByNone(0, _)));
    }

    #[test]
    fn two_winners_and_two_losers_are_not_explained() {
        let held = |epoch| Ok(Made::Lease { epoch, expires_at: 1_000 });
        let after = stored(&[take(0), take(1)]);
        let both = [happened(&take(0), 0, 3, held(1)), happened(&take(1), 1, 2, held(1))];
        assert!(matches!(explain(&model(), &both, &after), Explained::ByNone(..)));
        let refused = Err(ErrorKind::LeaseHeld);
        let none = [happened(&take(0), 0, 3, refused.clone()), happened(&take(1), 1, 2, refused)];
        assert!(matches!(explain(&model(), &none, &model().view()), Explained::ByNone(..)));
    }

    #[test]
    fn answers_alone_are_not_enough_what_is_stored_must_fit_too() {
        let create = step(0, Do::Create { session: Life::new("a", 0), restoring: false, title: None });
        let mut made = happened(&create, 0, 1, Ok(Made::Plain));
        if let Seen::Commit(Ok(answer)) = &mut made.seen {
            answer.moved.insert(Life::new("a", 0), (1, None, None));
        }
        assert!(matches!(explain(&model(), &[made.clone()], &stored(&[create])), Explained::By(_)));
        let lost = explain(&model(), &[made], &model().view());
        assert!(matches!(lost, Explained::ByNone(0, difference) if difference.what == "the sessions"));
    }
}
