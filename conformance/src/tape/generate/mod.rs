//! Drawing tapes: a model runs along, so that most steps do something, and some are refused on purpose.

mod ops;
mod sessions;

use turnkeep_core::Order;
use turnkeep_core::model::RunState;

use super::draws::Draws;
use super::look::{End, Look, Owned, Target};
use super::mind::Handle;
use super::model::{Model, World};
use super::names;
use super::ops::{Condition, Do, Expected, Hold, Life, Spot};
use super::script::{Act, Asked, Change, Moment, Player, Step, Tape, VERSION};

/// What a tape is to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) clause: &'static str,
    pub(crate) seed: u64,
    pub(crate) player: Player,
    pub(crate) clients: u32,
    pub(crate) steps: usize,
    /// Some commits are dropped halfway.
    pub(crate) drops: bool,
}

/// Draws a tape.
pub(crate) fn tape(plan: Plan) -> Tape {
    let mut writer = Writer::new(plan);
    match plan.player {
        Player::Sequential => {
            for _ in 0..plan.steps {
                writer.any_step();
            }
        }
        Player::Killed => writer.killed(),
        Player::Concurrent => writer.rounds(),
    }
    Tape {
        version: VERSION,
        clause: plan.clause.to_owned(),
        seed: plan.seed,
        player: plan.player,
        clients: plan.clients,
        steps: writer.steps,
    }
}

struct Writer {
    plan: Plan,
    draws: Draws,
    model: Model,
    steps: Vec<Step>,
    /// The client at work.
    client: u32,
    generations: Vec<u32>,
    /// Labels with the session and the client that they were written by.
    labels: Vec<(Life, String, u32)>,
    /// Commits with a request, and who made them.
    asked: Vec<Change>,
    lives: u32,
    texts: u32,
    tokens: u32,
}

impl Writer {
    fn new(plan: Plan) -> Self {
        let world = World { clock: true, liveness: true };
        let shared = plan.player != Player::Concurrent;
        Self {
            draws: Draws::new(plan.seed),
            model: Model::new(world, 0, plan.clients, shared),
            steps: Vec::new(),
            client: 0,
            generations: vec![1; plan.clients as usize],
            labels: Vec::new(),
            asked: Vec::new(),
            lives: 0,
            texts: 0,
            tokens: 0,
            plan,
        }
    }

    fn handle(&self) -> Handle {
        (self.client, self.generations[self.client as usize])
    }

    fn push(&mut self, act: Act) {
        match &act {
            Act::Commit(change) => {
                let handle = self.handle();
                let answer = self.model.commit(handle, change);
                // Who gives up on a commit learns nothing from it.
                if let (Ok(answer), None) = (answer, change.dropped) {
                    self.model.learn(handle, change, &answer);
                }
            }
            Act::Clock(ms) => self.model.pass_ms(*ms),
            Act::Reopen => {
                self.model.bury(self.handle());
                self.generations[self.client as usize] += 1;
            }
            _ => {}
        }
        self.steps.push(Step { client: self.client, act });
    }

    fn any_step(&mut self) {
        self.client = u32::try_from(self.draws.below(self.plan.clients as usize)).unwrap_or(0);
        match self.draws.weighted(&[76, 15, 5, 3, 1]) {
            0 => {
                let change = self.change();
                self.push(Act::Commit(change));
            }
            1 => {
                let look = self.look();
                self.push(Act::Look(look));
            }
            2 => {
                let ms = self.draws.of(&[1, 40, 300, 2_000, 9_000, -50]);
                self.push(Act::Clock(ms));
            }
            3 => self.push(Act::Reopen),
            _ => self.push(Act::Purge),
        }
    }

    /// A part that is killed with its process, and a part that goes on from there.
    fn killed(&mut self) {
        let before = self.plan.steps.max(2) * 2 / 3;
        for _ in 0..before {
            self.any_step();
        }
        if self.draws.chance(70) {
            let change = self.lasting_change();
            self.push(Act::Commit(change));
            let micros = u32::try_from(self.draws.below(1_500)).unwrap_or(0);
            self.push(Act::Kill(Moment::UnderWay(micros)));
        } else {
            self.push(Act::Kill(Moment::Acknowledged));
        }
        for client in 0..self.plan.clients {
            self.client = client;
            self.model.bury(self.handle());
            self.generations[client as usize] += 1;
        }
        for _ in before..self.plan.steps {
            self.any_step();
        }
    }

    /// Rounds in which all clients do a few things at once, on the same few sessions, leases and keys.
    fn rounds(&mut self) {
        for id in ["a", "b"] {
            let session = Life::new(id, 0);
            let create = Do::Create { session: session.clone(), restoring: false, title: None };
            let lines = vec![self.line(&session, 0)];
            let ops = vec![create, Do::Append { session, lines }];
            self.push(Act::Commit(Change { ops, ..Change::default() }));
        }
        self.push(Act::Meet);
        let each = 3;
        let rounds = self.plan.steps.div_ceil(self.plan.clients as usize * each);
        for _ in 0..rounds {
            for _ in 0..each {
                for client in 0..self.plan.clients {
                    self.client = client;
                    let act = if self.draws.chance(20) {
                        Act::Look(self.look())
                    } else {
                        Act::Commit(self.change())
                    };
                    self.push(act);
                }
            }
            self.client = 0;
            if self.draws.chance(30) {
                self.push(Act::Meet);
                self.push(Act::Clock(2_000));
            }
            self.push(Act::Meet);
        }
    }

    /// A commit, most often one that the model does.
    fn change(&mut self) -> Change {
        if !self.asked.is_empty() && self.draws.chance(7) {
            return self.repeat();
        }
        for _ in 0..6 {
            let change = self.draw_change();
            let works = self.model.clone().commit(self.handle(), &change).is_ok();
            if works || self.draws.chance(22) {
                if change.request.is_some() && works {
                    self.asked.push(change.clone());
                }
                return change;
            }
        }
        self.draw_change()
    }

    /// A commit that leaves a trace for everybody when it lands, and none when it does not.
    fn lasting_change(&mut self) -> Change {
        for _ in 0..20 {
            let change = self.draw_change();
            let mut model = self.model.clone();
            if shows(&change)
                && model.commit(self.handle(), &change).is_ok()
                && model.view().difference(&self.model.view()).is_some()
            {
                return change;
            }
        }
        let session = Life::new("k", self.lives);
        Change { ops: vec![Do::Create { session, restoring: false, title: None }], ..Change::default() }
    }

    /// A request made before: the very same, or with other content.
    fn repeat(&mut self) -> Change {
        let mut change = self.draws.of(&self.asked);
        if self.draws.chance(15) {
            let session = self.some_life();
            change.ops = vec![self.any_op(&session)];
        }
        change
    }

    fn draw_change(&mut self) -> Change {
        let session = self.focus();
        // Whoever holds the session is the one who gets on with it.
        let holder = self.model.lease(&Hold::Session(session.clone())).filter(|lease| lease.held);
        if let Some(client) = holder.map(|lease| lease.handle.0)
            && self.plan.player != Player::Concurrent
            && self.draws.chance(65)
        {
            self.client = client;
        }
        let mut change = Change::default();
        let restoring = self.model.session(&session).is_some_and(|row| row.restoring);
        change.ops = if self.model.session(&session).is_none() && self.draws.chance(85) {
            self.creation()
        } else if restoring && self.draws.chance(90) {
            vec![self.building_op(&session)]
        } else {
            let count = 1 + self.draws.weighted(&[62, 26, 12]);
            (0..count).map(|_| self.any_op(&session)).collect()
        };
        let hold = Hold::Session(session.clone());
        let mine = self.model.lease(&hold).is_some_and(|lease| lease.held && lease.handle.0 == self.client);
        if self.draws.chance(if mine { 90 } else { 2 }) {
            change.fences.push(hold);
        }
        if self.draws.chance(20) {
            let guard = self.guard(&session);
            change.guards.push(guard);
        }
        if self.draws.chance(18) {
            let within = self.draws.chance(60).then(|| session.clone());
            // Ids come again, in other scopes and with other content.
            let id = format!("q{}", self.draws.below(12));
            change.request = Some(Asked { id, within });
        }
        if self.plan.drops && change.request.is_none() && shows(&change) && self.draws.chance(12) {
            change.dropped = Some(u32::try_from(self.draws.below(5)).unwrap_or(0));
        }
        change
    }

    fn guard(&mut self, session: &Life) -> Condition {
        let session = session.clone();
        let off = self.draws.chance(30);
        let row = self.model.in_use(&session);
        let spot = |number: Option<u32>| match (number, off) {
            (Some(number), false) => Some(Spot::No(number)),
            (Some(number), true) => Some(Spot::No(number + 1)),
            (None, false) => None,
            (None, true) => Some(Spot::No(1)),
        };
        let (leaf, head) = (row.and_then(|row| row.leaf), row.and_then(|row| row.head()));
        let revision = row.map_or(1, |row| row.revision) + u64::from(off);
        let run = row.and_then(|row| row.runs.last()).map(|run| (run.id.clone(), run.state));
        match self.draws.below(9) {
            0 => Condition::Leaf { session, leaf: spot(leaf) },
            1 => Condition::Head { session, head: spot(head) },
            2 => Condition::Revision { session, revision },
            3 => Condition::NoSession { id: self.draws.of(&["z", "a"]).to_owned() },
            4 => Condition::NoActiveRun { session },
            5 => match run {
                Some((run, state)) => {
                    let states = if off { vec![RunState::Failed] } else { vec![state] };
                    Condition::RunIn { session, run, states }
                }
                None => Condition::NoActiveRun { session },
            },
            6 => Condition::KeyThere { key: self.entry_key(&session), session },
            7 => Condition::KeyFree { key: self.entry_key(&session), session },
            _ => {
                let (collection, key) = self.record_key();
                let expect = self.expected(&collection, &key);
                Condition::Record { collection, key, expect }
            }
        }
    }

    fn look(&mut self) -> Look {
        let order = self.draws.of(&[Order::Ascending, Order::Descending, Order::Latest]);
        // A walk over several pages is not one moment, so clients at once ask for all in one.
        let alone = self.plan.player != Player::Concurrent;
        let limit = if alone { self.draws.of(&[1, 2, 3, 7, 100]) } else { 1_000 };
        let session = self.focus();
        let bound = |draws: &mut Draws, head: u32| {
            draws.chance(30).then(|| u32::try_from(draws.below(head as usize + 2)).unwrap_or(0) + 1)
        };
        let head = self.model.in_use(&session).and_then(|row| row.head()).unwrap_or(0);
        let at = match self.draws.weighted(&[50, 15, 12, 13, 10]) {
            0 => Target::Entries {
                path: match self.draws.below(4) {
                    0 => Some(End::Leaf),
                    1 => Some(End::At(self.spot(&session))),
                    _ => None,
                },
                after: bound(&mut self.draws, head),
                before: bound(&mut self.draws, head),
                partials: self.draws.chance(50),
                run: self.draws.chance(12).then(|| self.some_run(&session)),
                key: self.draws.chance(8).then(|| self.entry_key(&session)),
                kind: self.draws.chance(12).then(|| self.draws.of(&["message", "label"]).to_owned()),
                session,
            },
            1 => Target::Sessions {
                by_id: self.draws.chance(50),
                pinned: self.draws.of(&[None, None, Some(true), Some(false)]),
                archived: self.draws.of(&[None, None, None, Some(false)]),
                with_messages: self.draws.chance(25),
            },
            2 => Target::Runs {
                session: self.draws.chance(75).then_some(session),
                states: self.draws.of(&[vec![], vec![RunState::Running, RunState::Failed]]),
                intent: self.draws.of(&[None, None, Some("i0".to_owned())]),
            },
            3 => Target::Events {
                session,
                stream: self.draws.of(names::STREAMS).to_owned(),
                after: bound(&mut self.draws, 4).map(u64::from),
                before: bound(&mut self.draws, 6).map(u64::from),
            },
            _ => Target::Records {
                collection: self.draws.of(names::COLLECTIONS).to_owned(),
                owner: match self.draws.below(3) {
                    0 => Some(Owned::Nobody),
                    1 => Some(Owned::By(session)),
                    _ => None,
                },
                status: self.draws.of(&[None, None, Some("open".to_owned())]),
            },
        };
        let limit = if self.draws.chance(4) { 0 } else { limit };
        Look { at, order, limit }
    }

    fn expected(&mut self, collection: &str, key: &str) -> Expected {
        let there = self.model.doc(collection, key).is_some();
        match (self.draws.below(10), there) {
            (0..3, _) => Expected::Any,
            (9, _) => Expected::Former,
            (8, true) | (3..9, false) => Expected::Absent,
            _ => Expected::Seen,
        }
    }
}

/// Whether somebody who looks afterwards can tell that a commit landed: each operation is one on a session.
fn shows(change: &Change) -> bool {
    let shows = |op: &Do| match op {
        Do::Put { owner, .. } => owner.is_some(),
        Do::Remove { .. } | Do::WhenKey { .. } => false,
        Do::Acquire { .. } | Do::Renew { .. } | Do::Release { .. } => false,
        _ => true,
    };
    change.ops.iter().all(shows)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use turnkeep_core::ErrorKind;
    use turnkeep_core::error::ForkReason;

    use super::*;

    fn draw(player: Player, seed: u64, drops: bool) -> Tape {
        tape(Plan { clause: "MOD-001", seed, player, clients: 3, steps: 120, drops })
    }

    #[test]
    fn one_seed_draws_one_tape_and_a_tape_is_its_text() {
        for player in [Player::Sequential, Player::Concurrent, Player::Killed] {
            let tape = draw(player, 7, true);
            assert_eq!(tape, draw(player, 7, true));
            assert_ne!(tape.steps, draw(player, 8, true).steps);
            assert_eq!(Tape::from_json(&tape.to_json()).unwrap(), tape);
        }
        assert!(Tape::from_json("{}").unwrap_err().contains("no tape"));
        let newer = draw(Player::Sequential, 1, false).to_json().replace("\"version\":1", "\"version\":2");
        assert!(Tape::from_json(&newer).unwrap_err().contains("version 2"));
    }

    /// Without this the players could agree with the model on refusing everything.
    #[test]
    fn the_tapes_reach_every_operation_and_every_refusal() {
        let mut done: BTreeMap<&str, u32> = BTreeMap::new();
        let mut refused: BTreeMap<String, u32> = BTreeMap::new();
        let (mut replayed, mut skipped, mut drops) = (0, 0, 0);
        for seed in 0..60 {
            let tape = draw(Player::Sequential, seed, true);
            let mut model = Model::new(World { clock: true, liveness: true }, 0, 3, true);
            let mut generations = [1; 3];
            for step in &tape.steps {
                let handle = (step.client, generations[step.client as usize]);
                match &step.act {
                    Act::Commit(change) => match model.commit(handle, change) {
                        Ok(answer) => {
                            model.learn(handle, change, &answer);
                            replayed += u32::from(answer.replayed);
                            drops += u32::from(change.dropped.is_some());
                            for (op, made) in change.ops.iter().zip(&answer.made) {
                                *done.entry(op.verb()).or_default() += 1;
                                skipped += u32::from(*made == crate::tape::mind::Made::Skipped);
                            }
                        }
                        Err(kind) => *refused.entry(format!("{kind:?}")).or_default() += 1,
                    },
                    Act::Clock(ms) => model.pass_ms(*ms),
                    Act::Reopen => {
                        model.bury(handle);
                        generations[step.client as usize] += 1;
                    }
                    _ => {}
                }
            }
        }
        assert_eq!(done.len(), 21, "{done:?}");
        assert!(done.values().all(|times| *times >= 5), "{done:?}");
        let kinds = [
            ErrorKind::NotFound,
            ErrorKind::AlreadyExists,
            ErrorKind::StaleLeaf,
            ErrorKind::RunState,
            ErrorKind::ActiveRun,
            ErrorKind::TurnNotOpen,
            ErrorKind::LeaseHeld,
            ErrorKind::LeaseLost,
            ErrorKind::RequestConflict,
            ErrorKind::VersionConflict,
            ErrorKind::Invalid,
            ErrorKind::Corrupt,
            ErrorKind::ForkRefused(ForkReason::SourceActive),
        ];
        let missing: BTreeSet<String> = kinds.iter().map(|kind| format!("{kind:?}")).collect();
        let missing: Vec<_> =
            missing.iter().filter(|kind| refused.get(*kind).is_none_or(|times| *times < 3)).collect();
        assert!(missing.is_empty(), "{missing:?} of {refused:?}");
        assert!(replayed >= 10 && skipped >= 5 && drops >= 10, "{replayed} {skipped} {drops}");
    }
}
