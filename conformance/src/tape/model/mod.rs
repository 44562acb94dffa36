//! A plain model of the contract: maps and lists, changed on a copy that is kept if nothing was refused.
//!
//! It is the second opinion on what a store answers, so it shares nothing with `turnkeep_core::rules`: paths are walked
//! parent by parent, keys and attempts are looked for, versions are numbers that are never used twice.

mod entries;
mod events;
mod guards;
mod leases;
mod looks;
mod meaning;
mod records;
mod restore;
mod runs;
mod sessions;
mod validate;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use turnkeep_core::ErrorKind;
use turnkeep_core::model::RunState;

use super::mind::{Answer, Handle, Made, Mind};
use super::ops::{Do, Hold, Life, Line};
use super::script::Change;

pub(crate) type Check<T = ()> = Result<T, ErrorKind>;

/// What a store may differ in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    /// Times follow the clock of the suite.
    pub(crate) clock: bool,
    /// A closed handle is known to be dead.
    pub(crate) liveness: bool,
}

/// Everything that a store has, in the plainest form.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) world: World,
    /// Milliseconds.
    pub(crate) now: i64,
    pub(crate) sessions: BTreeMap<String, Session>,
    pub(crate) records: BTreeMap<(String, String), Doc>,
    ordinals: BTreeMap<(String, Option<Life>), u64>,
    pub(crate) named: BTreeMap<String, Lease>,
    requests: BTreeMap<(Option<Life>, String), Stored>,
    versions: u64,
    /// Counts commits.
    activity: u64,
    dead: BTreeSet<Handle>,
    /// One for all clients, or one each.
    minds: Vec<Mind<u64>>,
}

/// One life of a session.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) life: Life,
    pub(crate) restoring: bool,
    pub(crate) revision: u64,
    pub(crate) activity: u64,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) title: Option<String>,
    pub(crate) pinned: bool,
    pub(crate) archived: bool,
    /// Each entry, at the place of its number less one.
    pub(crate) entries: Vec<Entry>,
    pub(crate) leaf: Option<u32>,
    pub(crate) runs: Vec<Run>,
    /// The highest number that a run has or its source had.
    pub(crate) run_head: u32,
    pub(crate) tokens: u64,
    pub(crate) streams: BTreeMap<String, Stream>,
    pub(crate) lease: Option<Lease>,
    built: Built,
    pub(crate) built_rows: u64,
}

/// What a session in the making was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Built {
    Nothing,
    Copied(Life, u32),
    Other,
}

/// An entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) line: Line,
    pub(crate) parent: Option<u32>,
    pub(crate) refs: Vec<u32>,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) number: u32,
    pub(crate) state: RunState,
    pub(crate) intent: Option<String>,
    pub(crate) attempt: u32,
    pub(crate) retry_of: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) finished_at: Option<i64>,
    pub(crate) error: bool,
    pub(crate) progress: Option<u32>,
    pub(crate) tokens: u64,
}

/// A stream: every value it ever had, and how many of the first were dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) values: Vec<u32>,
    pub(crate) floor: u64,
    pub(crate) closed: bool,
    /// The newest batch, if it said where it goes.
    batch: Option<(u64, Vec<u32>)>,
}

/// A record.
#[derive(Clone, Debug)]
pub(crate) struct Doc {
    pub(crate) owner: Option<Life>,
    pub(crate) status: Option<String>,
    pub(crate) ordinal: u64,
    pub(crate) version: u64,
    pub(crate) value: u32,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
}

/// A lease.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) held: bool,
    pub(crate) handle: Handle,
    token: u32,
    pub(crate) epoch: u64,
    pub(crate) acquired_at: i64,
    pub(crate) expires_at: i64,
}

/// A request that landed.
#[derive(Clone, Debug)]
struct Stored {
    meaning: Vec<Do>,
    answer: Answer<u64>,
}

/// One commit at work on a copy.
struct Work {
    model: Model,
    handle: Handle,
    held: BTreeSet<Hold>,
    moved: BTreeSet<Life>,
    made: BTreeSet<Life>,
    /// Sessions that got entries, sources and children of slices in this commit.
    grown: BTreeSet<Life>,
    copied_from: BTreeSet<Life>,
    copied_to: BTreeSet<Life>,
}

impl Model {
    /// An empty store. With `shared`, what one client learns all know.
    pub(crate) fn new(world: World, now: i64, clients: u32, shared: bool) -> Self {
        let minds = if shared { 1 } else { clients as usize };
        Self {
            world,
            now,
            sessions: BTreeMap::new(),
            records: BTreeMap::new(),
            ordinals: BTreeMap::new(),
            named: BTreeMap::new(),
            requests: BTreeMap::new(),
            versions: 0,
            activity: 0,
            dead: BTreeSet::new(),
            minds: vec![Mind::default(); minds.max(1)],
        }
    }

    fn mind(&self, client: u32) -> &Mind<u64> {
        &self.minds[client as usize % self.minds.len()]
    }

    /// Lets store time pass, where the suite moves it.
    pub(crate) fn pass_ms(&mut self, ms: i64) {
        if self.world.clock {
            self.now = self.now.saturating_add(ms);
        }
    }

    /// A handle is closed.
    pub(crate) fn bury(&mut self, handle: Handle) {
        self.dead.insert(handle);
    }

    /// A client gets an answer.
    pub(crate) fn learn(&mut self, handle: Handle, change: &Change, answer: &Answer<u64>) {
        let place = handle.0 as usize % self.minds.len();
        self.minds[place].learn(handle, change, answer);
    }

    /// The number behind a spot, as a client knows it.
    pub(crate) fn number(&self, client: u32, spot: &super::ops::Spot) -> u32 {
        self.mind(client).number(spot)
    }

    /// Does a commit, or says why not; refused, everything is as before.
    pub(crate) fn commit(&mut self, handle: Handle, change: &Change) -> Check<Answer<u64>> {
        self.activity += 1;
        let change = self.mind(handle.0).resolve(change);
        validate::validate(&change)?;
        let key = change.request.as_ref().map(|asked| (asked.within.clone(), asked.id.clone()));
        if let Some(stored) = key.as_ref().and_then(|key| self.requests.get(key)) {
            if stored.meaning != meaning::of(&change.ops) {
                return Err(ErrorKind::RequestConflict);
            }
            return Ok(Answer { replayed: true, ..stored.answer.clone() });
        }
        let mut work = Work {
            model: self.clone(),
            handle,
            held: BTreeSet::new(),
            moved: BTreeSet::new(),
            made: BTreeSet::new(),
            grown: BTreeSet::new(),
            copied_from: BTreeSet::new(),
            copied_to: BTreeSet::new(),
        };
        for fence in &change.fences {
            work.fence(fence)?;
        }
        for guard in &change.guards {
            work.guard(guard)?;
        }
        let mut made = Vec::new();
        for op in &change.ops {
            made.push(work.op(op)?);
        }
        let moved = work.moved.iter().filter_map(|life| {
            let row = work.model.session(life)?;
            Some((life.clone(), (row.revision, row.head(), row.leaf)))
        });
        let answer = Answer { made, moved: moved.collect(), replayed: false };
        if let Some((within, id)) = key {
            if let Some(life) = &within {
                work.any(life)?;
            }
            let stored = Stored { meaning: meaning::of(&change.ops), answer: answer.clone() };
            work.model.requests.insert((within, id), stored);
        }
        *self = work.model;
        Ok(answer)
    }

    /// The session, in use or being built.
    pub(crate) fn session(&self, life: &Life) -> Option<&Session> {
        self.sessions.get(life.id()).filter(|row| row.life == *life)
    }

    /// The session, in use.
    pub(crate) fn in_use(&self, life: &Life) -> Option<&Session> {
        self.session(life).filter(|row| !row.restoring)
    }

    pub(crate) fn lease(&self, hold: &Hold) -> Option<&Lease> {
        match hold {
            Hold::Session(life) => self.session(life)?.lease.as_ref(),
            Hold::Named(name) => self.named.get(name),
        }
    }
}

impl Session {
    pub(crate) fn head(&self) -> Option<u32> {
        u32::try_from(self.entries.len()).ok().filter(|head| *head > 0)
    }

    pub(crate) fn entry(&self, number: u32) -> Option<&Entry> {
        self.entries.get(number.checked_sub(1)? as usize)
    }

    pub(crate) fn active_run(&self) -> Option<&Run> {
        self.runs.iter().find(|run| !run.state.is_terminal())
    }

    /// The number of the entry with a key.
    pub(crate) fn keyed(&self, key: &str) -> Option<u32> {
        let place = self.entries.iter().position(|entry| entry.line.key.as_deref() == Some(key))?;
        u32::try_from(place + 1).ok()
    }

    /// The chain of parents of an entry, oldest first.
    pub(crate) fn path(&self, to: Option<u32>) -> Vec<u32> {
        let mut path: Vec<u32> =
            std::iter::successors(to, |number| self.entry(*number).and_then(|entry| entry.parent)).collect();
        path.reverse();
        path
    }
}

impl Work {
    fn any(&mut self, life: &Life) -> Check<&mut Session> {
        let row = self.model.sessions.get_mut(life.id());
        row.filter(|row| row.life == *life).ok_or(ErrorKind::NotFound)
    }

    fn active(&mut self, life: &Life) -> Check<&mut Session> {
        let row = self.any(life)?;
        if row.restoring { Err(ErrorKind::NotFound) } else { Ok(row) }
    }

    /// The session changes: its revision moves once per commit.
    fn change(&mut self, life: &Life) -> Check<&mut Session> {
        self.any(life)?;
        let first = self.moved.insert(life.clone()) && !self.made.contains(life);
        let (now, activity) = (self.model.now, self.model.activity);
        let row = self.any(life)?;
        if first {
            row.revision += 1;
            if !row.restoring {
                row.updated_at = row.updated_at.max(now);
                row.activity = activity;
            }
        }
        Ok(row)
    }

    fn op(&mut self, op: &Do) -> Check<Made<u64>> {
        match op {
            Do::WhenKey { session, key, then } => {
                let there = self.active(session)?.keyed(key).is_some();
                self.settled(session)?;
                if there { self.op(then) } else { Ok(Made::Skipped) }
            }
            Do::Create { session, restoring, title } => self.create(session, *restoring, title.as_ref()),
            Do::Patch { session, title, pinned, archived } => {
                self.patch(session, title.as_ref(), *pinned, *archived)
            }
            Do::Delete { session, force } => self.delete(session, *force),
            Do::Append { session, lines } => self.append(session, lines),
            Do::MoveLeaf { session, to } => self.move_leaf(session, to.as_ref()),
            Do::Start { session, run, pending, intent, after } => {
                self.start(session, run, *pending, intent.as_ref(), after.as_ref())
            }
            Do::Move { session, run, from, to, error } => self.transition(session, run, from, *to, *error),
            Do::TakeUp { session, run } => self.take_up(session, run),
            Do::PatchRun { session, run, progress } => self.patch_run(session, run, *progress),
            Do::Usage { session, run, tokens } => self.usage(session, run.as_ref(), *tokens),
            Do::Events { session, stream, next, values } => self.events(session, stream, *next, values),
            Do::DropEvents { session, stream, through, close } => {
                self.drop_events(session, stream, *through, *close)
            }
            Do::Put { collection, key, owner, status, expect, value } => {
                let doc = records::NewDoc { owner, status, expect: *expect, value: *value };
                self.put(collection, key, &doc)
            }
            Do::Remove { collection, key, owner, expect } => {
                self.remove(collection, key, owner.as_ref(), *expect)
            }
            Do::Acquire { lease, token, ttl_ms, takeover } => self.acquire(lease, *token, *ttl_ms, *takeover),
            Do::Renew { lease, ttl_ms } => self.renew(lease, *ttl_ms),
            Do::Release { lease } => self.release(lease),
            Do::Copy { from, to, after, through } => self.copy(from, to, *after, *through),
            Do::Restore { session, first, lines } => self.restore(session, *first, lines),
            Do::Seal { session, leaf, wrong } => self.seal(session, *leaf, *wrong),
        }
    }
}
