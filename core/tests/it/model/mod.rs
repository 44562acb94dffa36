//! A plain model of the contract: what a commit does, written down once more, without looks at the rules.
//!
//! It changes a copy of everything and keeps it if nothing was refused; paths are walked parent by parent; a record's
//! version is a number that is never used twice. It is slow and short on purpose.

mod apply;
mod guards;
mod leases;
pub(crate) mod meaning;
mod records;
mod runs;

pub(crate) use runs::allowed;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use turnkeep_core::commit::{Commit, Op, RequestId, RequestScope};
use turnkeep_core::id::{
    Collection, EntryKey, IntentId, LeaseToken, OwnerId, RecordKey, SessionId, StreamName,
};
use turnkeep_core::model::{
    LeaseName, LeaseState, Liveness, Profile, Row, RunState, SessionState, Usage, Version, Visibility,
};
use turnkeep_core::{ErrorKind, Incarnation, Payload, RunId, SessionRef, Timestamp};

pub(crate) type Check<T = ()> = Result<T, ErrorKind>;

/// What comes from outside.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) activity: u64,
    pub(crate) alive: BTreeMap<OwnerId, Liveness>,
    /// The model's number of each version that a receipt named.
    pub(crate) versions: HashMap<Version, u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) records: BTreeMap<(Collection, RecordKey), Doc>,
    ordinals: BTreeMap<(Collection, Option<SessionRef>), u64>,
    pub(crate) named: BTreeMap<LeaseName, Lease>,
    pub(crate) requests: BTreeMap<(RequestScope, RequestId), Stored>,
    versions: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Session {
    pub(crate) incarnation: Incarnation,
    pub(crate) state: SessionState,
    pub(crate) revision: u64,
    pub(crate) activity: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) entries: Vec<Line>,
    pub(crate) leaf: Option<u32>,
    pub(crate) runs: Vec<Job>,
    pub(crate) usage: Usage,
    pub(crate) streams: BTreeMap<StreamName, Log>,
    pub(crate) lease: Option<Lease>,
    pub(crate) profile: Profile,
    restored: Vec<Row>,
}

/// An entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) parent: Option<u32>,
    pub(crate) on_path: bool,
    pub(crate) key: Option<EntryKey>,
    pub(crate) kind: String,
    pub(crate) user: bool,
    pub(crate) visibility: Visibility,
    pub(crate) refs: Vec<u32>,
    pub(crate) text: Option<String>,
    pub(crate) payload: Payload,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) id: RunId,
    pub(crate) state: RunState,
    pub(crate) intent: Option<IntentId>,
    pub(crate) attempt: u32,
    pub(crate) retry_of: Option<RunId>,
    pub(crate) finished: bool,
    pub(crate) error: Option<Payload>,
    pub(crate) progress: Option<Payload>,
    pub(crate) model: Option<String>,
    pub(crate) usage: Usage,
}

type Batch = Vec<(String, Option<RunId>, Payload)>;

/// A stream: every event it ever had, and what of it was dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Log {
    pub(crate) events: Vec<(String, Payload)>,
    pub(crate) floor: u64,
    pub(crate) closed: bool,
    /// The newest batch, if it said where it goes.
    pub(crate) repeatable: Option<(u64, Batch)>,
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Doc {
    pub(crate) owner: Option<SessionRef>,
    pub(crate) status: Option<String>,
    pub(crate) ordinal: u64,
    pub(crate) version: u64,
    pub(crate) payload: Payload,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lease {
    pub(crate) state: LeaseState,
    pub(crate) owner: OwnerId,
    pub(crate) token: LeaseToken,
    pub(crate) epoch: u64,
    pub(crate) expires_at: Timestamp,
}

/// A request that landed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    meaning: Vec<Op>,
    answer: Answer,
    owner: Option<SessionRef>,
}

/// A receipt, with the model's versions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) done: Vec<Done>,
    /// Revision, head and leaf of each session that moved.
    pub(crate) moved: BTreeMap<SessionRef, (u64, Option<u32>, Option<u32>)>,
    pub(crate) replayed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Done {
    Plain,
    Skipped,
    Entries(Vec<u32>),
    Run(u32, u32),
    Events(u64, u64),
    Record { version: u64, ordinal: u64 },
    Lease { epoch: u64, expires_at: Timestamp },
}

/// One commit at work on a copy.
struct Work<'w> {
    model: Model,
    world: &'w World,
    held: BTreeSet<LeaseName>,
    moved: BTreeSet<SessionRef>,
    made: BTreeSet<SessionRef>,
}

impl Model {
    /// Does a commit, or says why not; refused, the model is as before.
    pub(crate) fn commit(&mut self, commit: &Commit, world: &World) -> Check<Answer> {
        if let Some(request) = &commit.request {
            let drawn = request.id.drawn_at();
            if drawn.is_some_and(|drawn| world.now.since_ms(drawn) > 7 * 24 * 3600 * 1000) {
                return Err(ErrorKind::RequestExpired);
            }
            if let Some(stored) = self.requests.get(&(request.scope.clone(), request.id.clone())) {
                if stored.meaning != meaning::of(&commit.ops) {
                    return Err(ErrorKind::RequestConflict);
                }
                return Ok(Answer { replayed: true, ..stored.answer.clone() });
            }
        }
        let mut work = Work {
            model: self.clone(),
            world,
            held: BTreeSet::new(),
            moved: BTreeSet::new(),
            made: BTreeSet::new(),
        };
        commit.fences.iter().try_for_each(|fence| work.fence(fence))?;
        commit.guards.iter().try_for_each(|guard| work.guard(guard))?;
        let done = commit.ops.iter().map(|op| work.op(op)).collect::<Check<Vec<Done>>>()?;
        let answer = work.answer(done);
        if let Some(request) = &commit.request {
            let owner = request.owning_session();
            if let Some(owner) = owner {
                work.any(owner)?;
            }
            let stored =
                Stored { meaning: meaning::of(&commit.ops), answer: answer.clone(), owner: owner.cloned() };
            work.model.requests.insert((request.scope.clone(), request.id.clone()), stored);
        }
        *self = work.model;
        Ok(answer)
    }

    pub(crate) fn session(&self, session: &SessionRef) -> Option<&Session> {
        self.sessions.get(&session.id).filter(|row| row.incarnation == session.incarnation)
    }

    pub(crate) fn lease(&self, name: &LeaseName) -> Option<&Lease> {
        match name {
            LeaseName::Session(session) => self.session(session)?.lease.as_ref(),
            LeaseName::Named(_) => self.named.get(name),
        }
    }

    /// A record as readers see it: its owner must be in use.
    pub(crate) fn doc(&self, at: &(Collection, RecordKey)) -> Option<&Doc> {
        self.records.get(at).filter(|doc| match &doc.owner {
            None => true,
            Some(owner) => self.session(owner).is_some_and(|row| row.state == SessionState::Active),
        })
    }
}

impl Session {
    pub(crate) fn head(&self) -> Option<u32> {
        u32::try_from(self.entries.len()).ok().filter(|len| *len > 0)
    }

    pub(crate) fn line(&self, number: u32) -> Option<&Line> {
        self.entries.get(number.checked_sub(1)? as usize)
    }

    pub(crate) fn active_run(&self) -> Option<&Job> {
        self.runs.iter().find(|run| !run.state.is_terminal())
    }

    pub(crate) fn path(&self) -> Vec<u32> {
        std::iter::successors(self.leaf, |number| self.line(*number)?.parent).collect()
    }

    fn with_key(&self, key: &EntryKey) -> Option<u32> {
        let place = self.entries.iter().position(|line| line.key.as_ref() == Some(key))?;
        u32::try_from(place + 1).ok()
    }
}

impl Work<'_> {
    /// The session, in use or being built.
    fn any(&mut self, session: &SessionRef) -> Check<&mut Session> {
        let row = self.model.sessions.get_mut(&session.id);
        row.filter(|row| row.incarnation == session.incarnation).ok_or(ErrorKind::NotFound)
    }

    /// The session, in use.
    fn active(&mut self, session: &SessionRef) -> Check<&mut Session> {
        let row = self.any(session)?;
        if row.state == SessionState::Active { Ok(row) } else { Err(ErrorKind::NotFound) }
    }

    /// The session changes: once per commit its revision moves.
    fn change(&mut self, session: &SessionRef) -> Check<&mut Session> {
        self.any(session)?;
        let first = self.moved.insert(session.clone()) && !self.made.contains(session);
        let world = self.world;
        let row = self.any(session)?;
        if first {
            row.revision += 1;
            if row.state == SessionState::Active {
                row.updated_at = row.updated_at.max(world.now);
                row.activity = world.activity;
            }
        }
        Ok(row)
    }

    fn answer(&self, done: Vec<Done>) -> Answer {
        let moved = self.moved.iter().filter_map(|session| {
            let row = self.model.session(session)?;
            Some((session.clone(), (row.revision, row.head(), row.leaf)))
        });
        Answer { done, moved: moved.collect(), replayed: false }
    }
}
