//! A store and a model that get the same commits and must stay the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use turnkeep_core::commit::{Commit, Fence, LeaseGrant, Op, Outcome};
use turnkeep_core::id::{Collection, OwnerId, RecordKey};
use turnkeep_core::model::{LeaseName, Liveness, SessionRow, SessionState, Version};
use turnkeep_core::rules::{Stamp, decide, plan, validate};
use turnkeep_core::{ErrorKind, Incarnation, Receipt, SessionRef};

use crate::compare;
use crate::kit::{at, json, name, owner, session};
use crate::model::meaning::{each_run, each_session};
use crate::model::{Answer, Done, Model, World};
use crate::naive::Naive;
use crate::tape::{Draw, Tape};

/// What happened, for the test that asks whether enough happens.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) done: BTreeMap<&'static str, u32>,
    pub(crate) refused: HashMap<ErrorKind, u32>,
    pub(crate) replayed: u32,
    pub(crate) recreated: u32,
}

pub(crate) struct Bench {
    pub(crate) store: Naive,
    pub(crate) model: Model,
    pub(crate) world: World,
    pub(crate) tally: Tally,
    /// Every version that a record was ever seen with, oldest first.
    pub(crate) seen: BTreeMap<(Collection, RecordKey), Vec<Version>>,
    model_versions: HashMap<u64, Version>,
    proofs: BTreeMap<(u8, LeaseName), (u8, u64)>,
    sent: Vec<Commit>,
    last: Option<Commit>,
    lives: u8,
    drawn: BTreeSet<Incarnation>,
}

impl Drop for Bench {
    #[expect(clippy::print_stderr, reason = "a failed history is no use without the commit it failed at")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the last commit was {:?}", self.last);
        }
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        let alive = (0..4).map(|client| (owner(client), Liveness::Alive)).collect();
        Self {
            store: Naive::default(),
            model: Model::default(),
            world: World { now: at(0), activity: 0, alive, versions: HashMap::new() },
            tally: Tally::default(),
            seen: BTreeMap::new(),
            model_versions: HashMap::new(),
            proofs: BTreeMap::new(),
            sent: Vec::new(),
            last: None,
            lives: 4,
            drawn: BTreeSet::new(),
        }
    }

    /// A life of a session that never was.
    pub(crate) fn fresh(&mut self, id: &str) -> SessionRef {
        self.lives = self.lives.saturating_add(1);
        session(id, self.lives)
    }

    /// What a client last learned about a lease it took.
    pub(crate) fn proof(&self, client: u8, lease: &LeaseName) -> Option<(u8, u64)> {
        self.proofs.get(&(client, lease.clone())).copied()
    }

    pub(crate) fn step(&mut self, bytes: &[u8]) {
        let draw = &mut Draw::new(bytes);
        match draw.below(12) {
            8 => {
                let forward = i64::from(draw.below(200)) * 50;
                self.world.now = self.world.now.plus_ms(if draw.chance(15) { -forward } else { forward });
            }
            9 => {
                let states = [Liveness::Dead, Liveness::Alive, Liveness::Unknown];
                let state = states[usize::from(draw.below(3))];
                self.world.alive.insert(owner(draw.below(3)), state);
            }
            10 if draw.chance(40) => {
                self.store.purge();
                let alive: Vec<SessionRef> = self.store.lives.keys().cloned().collect();
                let stays = |owner: &SessionRef| alive.contains(owner);
                self.model.records.retain(|_, doc| doc.owner.as_ref().is_none_or(stays));
            }
            10 | 11 if !self.sent.is_empty() => {
                let earlier = usize::from(draw.below(255)) % self.sent.len();
                let commit = again(draw, self.sent[earlier].clone());
                self.run(commit);
            }
            _ => {
                let commit = Tape::new(draw, self).commit();
                if validate(&commit, &Default::default()).is_ok() {
                    self.run(commit);
                }
            }
        }
    }

    fn run(&mut self, commit: Commit) {
        if self.draws_a_life_twice(&commit) {
            return;
        }
        self.last = Some(commit.clone());
        // Whoever acts lives.
        for op in &commit.ops {
            if let Op::AcquireLease(LeaseGrant { owner, .. })
            | Op::RenewLease { fence: Fence { owner, .. }, .. } = op
            {
                self.world.alive.entry(*owner).and_modify(|state| {
                    if *state == Liveness::Dead {
                        *state = Liveness::Alive;
                    }
                });
            }
        }
        self.world.activity += 1;
        let activity = self.world.activity;
        let stamp = Stamp { now: self.world.now, activity, nonce: activity << 16 };
        let liveness = |owner: OwnerId| self.world.alive.get(&owner).copied().unwrap_or(Liveness::Unknown);
        let reads = plan(&commit);
        let decided = decide(&commit, self.store.facts(&reads, liveness), &stamp);
        let knowing_all = decide(&commit, self.store.all_facts(&reads, liveness), &stamp);
        compare::decisions(&decided, &knowing_all);

        let before = self.model.clone();
        let expected = self.model.commit(&commit, &self.world);
        match (decided, expected) {
            (Ok(set), Ok(answer)) => {
                self.store.apply(&set);
                assert!(!set.writes.is_empty() || self.model == before, "{commit:?}");
                assert!(!answer.replayed || set.writes.is_empty(), "{commit:?}");
                self.learn(&commit, &set.receipt, &answer);
            }
            (Err(error), Err(kind)) => {
                assert_eq!(error.kind(), kind, "{error} for {commit:?}");
                assert_eq!(self.model, before);
                *self.tally.refused.entry(kind).or_default() += 1;
            }
            (decided, expected) => {
                panic!("decided {decided:?}, expected {expected:?} for {commit:?}")
            }
        }
        compare::states(self);
        if commit.request.is_some() {
            self.sent.push(commit);
        }
    }

    /// Callers draw 128 random bits for each session they make, so no life comes twice; but a repeat that is known by its
    /// request makes nothing.
    fn draws_a_life_twice(&mut self, commit: &Commit) -> bool {
        let known = commit.request.as_ref().is_some_and(|request| {
            self.model.requests.contains_key(&(request.scope.clone(), request.id.clone()))
        });
        let made: Vec<Incarnation> = commit
            .ops
            .iter()
            .filter_map(|op| if let Op::CreateSession(new) = op { Some(new.incarnation) } else { None })
            .collect();
        if !known && made.iter().any(|life| self.drawn.contains(life)) {
            return true;
        }
        self.drawn.extend(made);
        false
    }

    fn learn(&mut self, commit: &Commit, receipt: &Receipt, answer: &Answer) {
        assert_eq!(receipt.replayed, answer.replayed, "{commit:?}");
        assert_eq!(receipt.outcomes.len(), answer.done.len());
        for (place, (outcome, done)) in receipt.outcomes.iter().zip(&answer.done).enumerate() {
            self.same_outcome(receipt, place, outcome, done);
        }
        let marks = receipt.sessions.iter().map(|mark| {
            let number = |number: Option<turnkeep_core::EntryNo>| number.map(|number| number.get());
            (mark.session.clone(), (mark.revision, number(mark.head), number(mark.leaf)))
        });
        assert_eq!(marks.collect::<BTreeMap<_, _>>(), answer.moved, "{commit:?}");
        if receipt.replayed {
            self.tally.replayed += 1;
            return;
        }
        for (op, outcome) in commit.ops.iter().zip(&receipt.outcomes) {
            *self.tally.done.entry(kind_of(op, outcome)).or_default() += 1;
            match (op, outcome) {
                (Op::AcquireLease(grant), Outcome::Lease { epoch, .. }) => {
                    let client = grant.owner.as_bytes()[0];
                    let known = [client, client + 100].into_iter();
                    let secret = known.into_iter().find(|byte| crate::kit::token(*byte) == grant.token);
                    self.proofs.insert((client, grant.name.clone()), (secret.unwrap(), *epoch));
                }
                (Op::CreateSession(new), _) if new.incarnation.as_bytes()[0] > 8 => self.tally.recreated += 1,
                _ => {}
            }
        }
    }

    fn same_outcome(&mut self, receipt: &Receipt, place: usize, outcome: &Outcome, done: &Done) {
        let same = match (outcome, done) {
            (Outcome::Done, Done::Plain) | (Outcome::Skipped, Done::Skipped) => true,
            (Outcome::Entries(_), Done::Entries(numbers)) => {
                receipt.entries(place).map(|number| number.get()).eq(numbers.iter().copied())
            }
            (Outcome::Run { number, attempt }, Done::Run(n, a)) => (number, attempt) == (n, a),
            (Outcome::Events { first, last }, Done::Events(f, l)) => (first, last) == (f, l),
            (Outcome::Record { version, ordinal }, Done::Record { version: v, ordinal: o }) => {
                self.same_version(*version, *v);
                ordinal == o
            }
            (Outcome::Lease { epoch, expires_at }, Done::Lease { epoch: e, expires_at: x }) => {
                (epoch, expires_at) == (e, x)
            }
            _ => false,
        };
        assert!(same, "op {place} gave {outcome:?}, expected {done:?}");
    }

    /// A version of the store and a number of the model belong together for ever.
    pub(crate) fn same_version(&mut self, version: Version, number: u64) {
        assert_eq!(*self.world.versions.entry(version).or_insert(number), number);
        assert_eq!(*self.model_versions.entry(number).or_insert(version), version);
    }

    pub(crate) fn restoring(&self) -> impl Iterator<Item = &SessionRow> {
        self.store.sessions.values().filter(|row| row.state == SessionState::Restoring)
    }
}

/// The same request once more: as it was, with what a retry makes anew, or meaning something else.
fn again(draw: &mut Draw<'_>, mut commit: Commit) -> Commit {
    if draw.chance(70) {
        commit.guards.clear();
        commit.fences.clear();
        for op in &mut commit.ops {
            each_run(op, &mut |_, run| {
                if run.as_str() == "r3" {
                    *run = name("r3 again");
                }
            });
            match op {
                Op::Append { entries, .. } => {
                    entries.iter_mut().for_each(|entry| entry.at = entry.at.plus_ms(7));
                }
                Op::AcquireLease(grant) => grant.ttl_ms += 1,
                _ => {}
            }
        }
        redraw_lives(&mut commit);
    }
    if draw.chance(30) {
        match commit.ops.first_mut() {
            Some(Op::Append { entries, .. }) => entries[0].payload = json("\"other\""),
            _ => drop(commit.ops.pop()),
        }
    }
    commit
}

/// Gives every session that the commit makes another incarnation, as a caller does that tries again.
fn redraw_lives(commit: &mut Commit) {
    let made = commit.ops.iter().filter_map(|op| match op {
        Op::CreateSession(new) => Some(new.incarnation),
        _ => None,
    });
    for old in made.collect::<Vec<_>>() {
        let byte = old.as_bytes()[0];
        let new = Incarnation::from_bytes([
            byte,
            byte,
            1,
            1,
            1,
            1,
            1,
            1,
            1,
            1,
            1,
            1,
            1,
            1,
            1,
            old.as_bytes()[15] ^ 1,
        ]);
        let mut turn = |session: &mut SessionRef| {
            if session.incarnation == old {
                session.incarnation = new;
            }
        };
        commit.ops.iter_mut().for_each(|op| each_session(op, &mut turn));
        if let Some(owner) = commit.request.as_mut().and_then(|request| request.owner.as_mut()) {
            turn(owner);
        }
    }
}

fn kind_of(op: &Op, outcome: &Outcome) -> &'static str {
    if *outcome == Outcome::Skipped {
        return "skipped";
    }
    match op {
        Op::WhenKey { .. } => "when_key",
        Op::CreateSession(_) => "create_session",
        Op::PatchSession { .. } => "patch_session",
        Op::DeleteSession { .. } => "delete_session",
        Op::Append { .. } => "append",
        Op::MoveLeaf { .. } => "move_leaf",
        Op::CopyEntries { .. } => "copy_entries",
        Op::SealSession { .. } => "seal_session",
        Op::Restore { .. } => "restore",
        Op::RestoreRecord { .. } => "restore_record",
        Op::StartRun { .. } => "start_run",
        Op::TransitionRun { .. } => "transition_run",
        Op::ReopenRun { .. } => "reopen_run",
        Op::PatchRun { .. } => "patch_run",
        Op::AddUsage { .. } => "add_usage",
        Op::AppendEvents { .. } => "append_events",
        Op::DropEvents { .. } => "drop_events",
        Op::PutRecord(_) => "put_record",
        Op::DeleteRecord { .. } => "delete_record",
        Op::AcquireLease(_) => "acquire_lease",
        Op::RenewLease { .. } => "renew_lease",
        Op::ReleaseLease { .. } => "release_lease",
    }
}
