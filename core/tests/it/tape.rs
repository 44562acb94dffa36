//! Random commits, made from bytes and from what the model knows, so that most of them have a chance.

use std::collections::BTreeMap;

use turnkeep_core::commit::{
    Commit, Expect, Guard, LeaseGrant, NewEntry, NewEvent, NewRun, OnKey, Op, Parent, Put, RefTarget,
    Request, RequestId, RunPatch, SessionPatch, Takeover,
};
use turnkeep_core::id::{Collection, RecordKey};
use turnkeep_core::limits::REQUEST_MS;
use turnkeep_core::model::{
    LeaseName, LeasePurpose, Liveness, Record, Row, RunState, RunStates, SessionState, Title, TitleSource,
    Usage, Version, Visibility,
};
use turnkeep_core::rules::fold_row;
use turnkeep_core::{EntryNo, Payload, SessionRef};

use crate::bench::Bench;
use crate::kit::{acquire, append, at, commit, create, fence, json, name, no, owner, session, token};
use crate::model::{Job, Session};

/// Bytes that decide. When they are used up, every choice is the first one.
pub(crate) struct Draw<'b> {
    bytes: std::slice::Iter<'b, u8>,
}

impl<'b> Draw<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes: bytes.iter() }
    }

    /// A number below `most`.
    pub(crate) fn below(&mut self, most: u8) -> u8 {
        self.bytes.next().map_or(0, |byte| byte % most)
    }

    /// True in about `percent` of a hundred cases.
    pub(crate) fn chance(&mut self, percent: u8) -> bool {
        self.below(100) < percent
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.below(u8::try_from(choices.len()).unwrap()))].clone()
    }
}

/// One commit on its way.
pub(crate) struct Tape<'t, 'b> {
    draw: &'t mut Draw<'b>,
    bench: &'t mut Bench,
    /// Who acts. Never a dead client.
    client: u8,
    focus: SessionRef,
}

impl<'t, 'b> Tape<'t, 'b> {
    pub(crate) fn new(draw: &'t mut Draw<'b>, bench: &'t mut Bench) -> Self {
        let dead = |client: &u8| bench.world.alive.get(&owner(*client)) == Some(&Liveness::Dead);
        let first = draw.of(&[0, 0, 0, 1, 2]);
        let client = (first..first + 3).map(|client| client % 3).find(|client| !dead(client)).unwrap_or(3);
        let focus = Self::some_session(draw, bench);
        Self { draw, bench, client, focus }
    }

    fn some_session(draw: &mut Draw<'_>, bench: &mut Bench) -> SessionRef {
        let id = draw.of(&["a", "b", "c"]);
        match bench.model.sessions.get(&name::<turnkeep_core::SessionId>(id)) {
            Some(row) if draw.chance(95) => SessionRef { id: name(id), incarnation: row.incarnation },
            _ if draw.chance(70) => bench.fresh(id),
            _ => session(id, draw.below(4)),
        }
    }

    fn known(&self, session: &SessionRef) -> Option<&Session> {
        self.bench.model.session(session)
    }

    fn focused(&self) -> Option<&Session> {
        self.known(&self.focus)
    }

    pub(crate) fn commit(mut self) -> Commit {
        let mut commit = commit();
        if self.focused().is_none() && self.draw.chance(90) {
            let state = if self.draw.chance(8) { SessionState::Restoring } else { SessionState::Active };
            let focus = self.focus.clone();
            commit.ops.push(create(&focus, state));
            if state == SessionState::Restoring {
                commit.ops.push(acquire(LeaseName::Session(focus), self.client));
            }
            if self.draw.chance(60) {
                return commit;
            }
        }
        let names = [LeaseName::Session(self.focus.clone()), LeaseName::Named(name("line"))];
        for (lease, percent) in names.into_iter().zip([85, 10]) {
            if let Some((secret, epoch)) = self.bench.proof(self.client, &lease)
                && self.draw.chance(percent)
            {
                let epoch = if self.draw.chance(5) { epoch + 1 } else { epoch };
                commit
                    .fences
                    .push(turnkeep_core::Fence { token: token(secret), ..fence(lease, self.client, epoch) });
            }
        }
        for _ in 0..self.draw.below(6).saturating_sub(3) {
            commit.guards.push(self.guard());
        }
        for _ in 0..=self.draw.below(3) {
            let op = self.op();
            commit.ops.push(op);
        }
        self.seal_rightly(&mut commit.ops);
        if self.draw.chance(35) {
            commit.request = Some(self.request());
        }
        commit
    }

    fn request(&mut self) -> Request {
        let id = if self.draw.chance(50) {
            RequestId::host(format!("q{}", self.draw.below(6))).unwrap()
        } else {
            let age = self.draw.of(&[0, 0, REQUEST_MS - 1, REQUEST_MS + 1]);
            let now = self.bench.world.now.plus_ms(-age);
            RequestId::generated(now, [self.draw.below(3); 10])
        };
        if self.draw.chance(40) {
            return Request::in_session(id, self.focus.clone());
        }
        let request = Request::in_workspace(id);
        if self.draw.chance(50) { request.owned_by(self.focus.clone()) } else { request }
    }

    fn guard(&mut self) -> Guard {
        let session = self.focus.clone();
        let off = u32::from(self.draw.chance(10));
        let number = |number: Option<u32>| EntryNo::new(number.unwrap_or(0) + off);
        match self.draw.below(9) {
            0 => Guard::Leaf { leaf: number(self.focused().and_then(|row| row.leaf)), session },
            1 => Guard::Head { head: number(self.focused().and_then(Session::head)), session },
            2 => {
                let revision = self.focused().map_or(1, |row| row.revision);
                Guard::Revision { session, revision: revision + u64::from(off) }
            }
            3 => Guard::SessionAbsent { id: name(self.draw.of(&["d", "d", "a"])) },
            4 => {
                let (run, states) = self.run_and_states();
                Guard::RunIn { session, run, states }
            }
            5 => Guard::KeyPresent { session, key: self.entry_key() },
            6 => Guard::KeyAbsent { session, key: self.entry_key() },
            7 => Guard::NoActiveRun { session },
            _ => {
                let (collection, key) = self.record_key();
                let expect = self.expect(&(collection.clone(), key.clone()));
                Guard::Record { collection, key, expect }
            }
        }
    }

    fn op(&mut self) -> Op {
        let session = self.focus.clone();
        let restoring = self.focused().is_some_and(|row| row.state == SessionState::Restoring);
        let idle = self.focused().is_none_or(|row| row.runs.is_empty());
        let kind = match self.draw.below(49) {
            // What needs a run is no use without one, and what is being built takes little else.
            14..24 if idle => 10,
            0..46 if restoring && self.draw.chance(80) => 48,
            kind => kind,
        };
        match kind {
            0..8 => self.append(),
            8..10 => Op::MoveLeaf { session, to: EntryNo::new(self.number()) },
            10..14 => self.start_run(),
            14..20 => {
                let (run, from) = self.run_and_states();
                let to = if self.draw.chance(50) { RunState::Failed } else { self.draw.of(&RunState::ALL) };
                let error = self.draw.chance(30).then(|| json("{\"why\":1}"));
                Op::TransitionRun { session, run, from, to, error }
            }
            20..22 => {
                let over = |run: &&Job| RunStates::TERMINAL.contains(run.state);
                let known = self.focused().and_then(|row| row.runs.iter().rfind(over));
                let known = known.map(|run| run.id.clone());
                Op::ReopenRun { session, run: known.unwrap_or_else(|| self.some_run()) }
            }
            22 => {
                let run = self.some_run();
                let patch = RunPatch {
                    error: self.draw.of(&[None, Some(None), Some(Some(json("\"e\"")))]),
                    progress: self.draw.of(&[None, Some(None), Some(Some(json("0.5")))]),
                    context_usage: None,
                    model: self.draw.of(&[None, Some(Some("m".to_owned()))]),
                };
                Op::PatchRun { session, run, patch }
            }
            23 => {
                let run = self.draw.chance(60).then(|| self.some_run());
                let output_tokens = self.draw.of(&[1, u64::MAX]);
                Op::AddUsage { session, run, usage: Usage { requests: 1, output_tokens, ..Usage::default() } }
            }
            24..28 => self.append_events(),
            28..30 => {
                let through = self.draw.of(&[None, Some(0), Some(1), Some(2), Some(9)]);
                let close = self.draw.chance(40);
                Op::DropEvents { session, stream: self.stream(), through, close }
            }
            30..34 => self.put(),
            34..36 => {
                let (collection, key) = self.record_key();
                let at = (collection.clone(), key.clone());
                let known = self.bench.model.doc(&at).and_then(|doc| doc.owner.clone());
                let owner = if self.draw.chance(85) { known } else { None };
                Op::DeleteRecord { expect: self.expect(&at), collection, key, owner }
            }
            36..40 => self.acquire(),
            40 => match self.proof() {
                Some(fence) => Op::RenewLease { fence, ttl_ms: u64::from(self.draw.below(50)) * 100 + 1 },
                None => self.acquire(),
            },
            41 => match self.proof() {
                Some(fence) => Op::ReleaseLease { fence },
                None => self.acquire(),
            },
            42 => {
                let title = Title { text: "t".to_owned(), source: TitleSource::Auto };
                let title = self.draw.of(&[None, Some(None), Some(Some(title))]);
                let pinned = self.draw.of(&[None, Some(true), Some(false)]);
                Op::PatchSession { session, patch: SessionPatch { title, pinned, ..SessionPatch::default() } }
            }
            43..46 => match self.draw.below(4) {
                0..2 => Op::DeleteSession { session, force: self.draw.chance(50) },
                2 => {
                    let again = self.bench.fresh(session.id.as_str());
                    create(&again, SessionState::Active)
                }
                _ => Op::RestoreRecord { record: self.exact_record() },
            },
            46..48 => {
                let then = match self.draw.below(3) {
                    0 => self.append(),
                    1 => self.put(),
                    _ => self.start_run(),
                };
                Op::WhenKey { session, key: self.entry_key(), then: Box::new(then) }
            }
            _ => match self.draw.below(3) {
                0 => Op::Restore { session, rows: vec![Row::Record(self.exact_record())] },
                // Rows and digest are filled in when the commit is complete.
                _ => Op::SealSession { session, leaf: None, rows: 0, digest: [0; 32] },
            },
        }
    }

    fn append(&mut self) -> Op {
        let count = self.draw.below(3) + 1;
        let entries = (0..count).map(|place| self.entry(usize::from(place))).collect();
        append(&self.focus, entries)
    }

    fn entry(&mut self, place: usize) -> NewEntry {
        let earlier = |draw: &mut Draw<'_>| usize::from(draw.below(4)).min(place.saturating_sub(1));
        let parent = match self.draw.below(10) {
            0..5 => Parent::Leaf,
            5 => Parent::Root,
            6 if place > 0 => Parent::InCommit(earlier(self.draw)),
            _ => EntryNo::new(self.number()).map_or(Parent::Leaf, Parent::Number),
        };
        let mut refs = Vec::new();
        if self.draw.chance(15) {
            let target = match place {
                0 => RefTarget::Number(no(self.number().max(1))),
                _ => RefTarget::InCommit(earlier(self.draw)),
            };
            refs.push((name("label_target"), target));
        }
        let text = self.draw.of(&["one  two", "x"]);
        NewEntry {
            parent,
            advance_leaf: self.draw.chance(80),
            role: Some(name(self.draw.of(&["user", "assistant"]))),
            key: self.draw.chance(40).then(|| self.entry_key()),
            on_key: self.draw.of(&[OnKey::Skip, OnKey::Refuse]),
            visibility: self.draw.of(&[Visibility::Conversation, Visibility::Internal, Visibility::Partial]),
            refs,
            text: self.draw.chance(70).then(|| text.to_owned()),
            ..NewEntry::new(name(self.draw.of(&["message", "label"])), at(0), self.payload())
        }
    }

    fn start_run(&mut self) -> Op {
        let intent = self.draw.chance(50).then(|| name(self.draw.of(&["i0", "i1"])));
        let latest = intent.as_ref().and_then(|intent| {
            let runs = &self.focused()?.runs;
            Some(runs.iter().rev().find(|run| run.intent.as_ref() == Some(intent))?.id.clone())
        });
        let after = if self.draw.chance(85) { latest } else { Some(name("r0")) };
        let run = NewRun {
            id: name(format!("r{}", self.draw.below(5))),
            state: self.draw.of(&[RunState::Pending, RunState::Running]),
            after: intent.is_some().then_some(after).flatten(),
            intent,
            source: None,
            model: Some("m0".to_owned()),
            mode: None,
            work_dir: None,
        };
        Op::StartRun { session: self.focus.clone(), run }
    }

    fn append_events(&mut self) -> Op {
        let stream = self.stream();
        let count = self.draw.below(2) + 1;
        let next = self.focused().and_then(|row| row.streams.get(&stream)).map_or(0, |log| log.events.len());
        let next = next as u64 + 1;
        let expect_next = match self.draw.below(10) {
            0..4 => None,
            4..7 => Some(next),
            7..9 => Some(next.saturating_sub(u64::from(count)).max(1)),
            _ => Some(next + 1),
        };
        let events = (0..count).map(|_| NewEvent {
            kind: name("delta"),
            run: None,
            at: self.bench.world.now,
            payload: json(self.draw.of(&["1", "1", "2"])),
        });
        let events = events.collect();
        Op::AppendEvents { session: self.focus.clone(), stream, expect_next, events }
    }

    fn put(&mut self) -> Op {
        let (collection, key) = self.record_key();
        let at = (collection.clone(), key.clone());
        let owner = match self.draw.below(10) {
            0..4 => Some(self.focus.clone()),
            4..8 => self.bench.model.doc(&at).and_then(|doc| doc.owner.clone()),
            8 => None,
            _ => Some(Self::some_session(self.draw, self.bench)),
        };
        let status = self.draw.chance(50).then(|| name("open"));
        let expect = self.expect(&at);
        Op::PutRecord(Put { collection, key, owner, status, expect, payload: self.payload() })
    }

    fn exact_record(&mut self) -> Record {
        let (collection, key) = self.record_key();
        Record {
            collection,
            key,
            owner: None,
            status: None,
            ordinal: u64::from(self.draw.below(9)),
            version: Version { birth: 1, count: 1 },
            created_at: at(-5),
            updated_at: at(-4),
            payload: self.payload(),
        }
    }

    fn acquire(&mut self) -> Op {
        let secret = self.client + if self.draw.chance(10) { 100 } else { 0 };
        Op::AcquireLease(LeaseGrant {
            name: self.lease_name(),
            owner: owner(self.client),
            token: token(secret),
            purpose: self.draw.of(&LeasePurpose::ALL),
            ttl_ms: u64::from(self.draw.below(60)) * 100 + 1,
            takeover: match self.draw.below(10) {
                0..4 => Takeover::IfExpired,
                4..9 => Takeover::IfOwnerDead,
                _ => Takeover::Force,
            },
        })
    }

    fn lease_name(&mut self) -> LeaseName {
        if self.draw.chance(85) {
            LeaseName::Session(self.focus.clone())
        } else {
            LeaseName::Named(name("line"))
        }
    }

    fn proof(&mut self) -> Option<turnkeep_core::Fence> {
        let lease = self.lease_name();
        let (secret, epoch) = self.bench.proof(self.client, &lease)?;
        Some(turnkeep_core::Fence { token: token(secret), ..fence(lease, self.client, epoch) })
    }

    fn run_and_states(&mut self) -> (turnkeep_core::RunId, RunStates) {
        let any = name(format!("r{}", self.draw.below(5)));
        let wide = self.draw.chance(85);
        let known = self.focused().and_then(Session::active_run).map(|run| (run.id.clone(), run.state));
        match known {
            Some((run, state)) if wide => (run, self.draw.of(&[RunStates::ALL, RunStates::of(&[state])])),
            _ => (any, self.draw.of(&[RunStates::ALL, RunStates::ACTIVE, RunStates::TERMINAL])),
        }
    }

    /// A number of the session, seldom none or the next one.
    fn number(&mut self) -> u32 {
        let head = self.focused().and_then(Session::head).unwrap_or(0);
        match self.draw.below(20) {
            0 => 0,
            1 => head + 1,
            _ => (u32::from(self.draw.below(250)) % head.max(1) + 1).min(head),
        }
    }

    fn some_run(&mut self) -> turnkeep_core::RunId {
        let choice = usize::from(self.draw.below(6));
        let known = self.focused().and_then(|row| row.runs.iter().rev().nth(choice % row.runs.len().max(1)));
        known.map_or_else(|| name("r0"), |run| run.id.clone())
    }

    fn entry_key(&mut self) -> turnkeep_core::id::EntryKey {
        let known = self.draw.chance(50);
        let mut keys = self.focused().into_iter().flat_map(|row| &row.entries);
        match keys.find_map(|line| line.key.clone()) {
            Some(key) if known => key,
            _ => name(format!("k{}", self.draw.below(8))),
        }
    }

    fn record_key(&mut self) -> (Collection, RecordKey) {
        (name(self.draw.of(&["bindings", "tool-claims"])), name(self.draw.of(&["x0", "x1"])))
    }

    fn stream(&mut self) -> turnkeep_core::id::StreamName {
        name(self.draw.of(&["notes", "runs", "partial/t"]))
    }

    fn payload(&mut self) -> Payload {
        json(self.draw.of(&["{}", "[1.0]"]))
    }

    fn expect(&mut self, key: &(Collection, RecordKey)) -> Expect {
        let versions = self.bench.seen.get(key).map(Vec::as_slice).unwrap_or_default();
        match (self.draw.below(10), versions) {
            (0..3, _) => Expect::Any,
            (3..6, _) | (_, []) => Expect::Absent,
            (9, [first, ..]) => Expect::Version(*first),
            (_, [.., last]) => Expect::Version(*last),
        }
    }

    /// Gives each seal the digest of what arrived until then.
    fn seal_rightly(&self, ops: &mut [Op]) {
        let mut built: BTreeMap<SessionRef, (u64, [u8; 32])> = BTreeMap::new();
        for op in ops {
            let (Op::Restore { session, .. } | Op::SealSession { session, .. }) = &*op else { continue };
            let stored = self.bench.store.row(session).and_then(|row| row.restore).unwrap_or_default();
            let sum = built.entry(session.clone()).or_insert((stored.rows, stored.digest));
            match op {
                Op::Restore { rows: new, .. } => {
                    sum.0 += new.len() as u64;
                    sum.1 = new.iter().fold(sum.1, |digest, row| fold_row(&digest, row));
                }
                Op::SealSession { rows, digest, .. } => (*rows, *digest) = *sum,
                _ => {}
            }
        }
    }
}
