//! Random commits, whole ones refused and accepted, keep the store sound and leave nothing behind when all is deleted.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use turnkeep_core::commit::{Commit, Fence, NewEntry, OnKey, Outcome, Parent, Request, RequestId, Takeover};
use turnkeep_core::id::{EntryKey, IntentId};
use turnkeep_core::model::{
    LeaseName, Profile, Row, RowKind, RunState, RunStates, SessionRow, SessionState, Usage,
};
use turnkeep_core::query::{RowQuery, SessionOrder, SessionQuery};
use turnkeep_core::rules::{WriteSet, copied, fold_row};
use turnkeep_core::{EntryNo, Expect, Op, Receipt, RunId, SessionRef, Store};
use turnkeep_memory::{MemoryStore, Tables};

use crate::support::{
    Bench, beside, collection, creation, event, grant, life, new_run, no, put, record_key, run, stream, user,
    ws,
};

/// Part of a commit. The numbers pick among few, so that parts meet.
#[derive(Clone, Debug)]
enum Part {
    Create(u8),
    Build(u8),
    Delete(Pick, bool),
    Append(Pick, Vec<(u8, u8)>),
    Move(Pick, u8),
    Start(Pick, u8),
    Transition(Pick, u8, u8),
    Reopen(Pick, u8),
    Use(Pick, Option<u8>),
    Put(Option<Pick>, u8, bool),
    Unput(Option<Pick>, u8, bool),
    Events(Pick, u8, bool),
    Drop(Pick, u8, bool),
    Acquire(Pick, u8),
    Release(Pick),
    Copy(Pick, Pick, u8),
    Restore(Pick, Pick),
    Seal(Pick, u8),
    When(Pick, u8),
}

/// Which of the sessions that the part may be about: in use, or being built, or one that is gone.
type Pick = u8;

#[derive(Clone, Debug)]
struct Draft {
    parts: Vec<Part>,
    fenced: bool,
    request: Option<(Pick, bool, u8)>,
    wait_ms: i64,
}

fn part() -> impl Strategy<Value = Part> {
    let pick = || 0..32_u8;
    prop_oneof![
        2 => (0..3_u8).prop_map(Part::Create),
        2 => (0..3_u8).prop_map(Part::Build),
        1 => (pick(), any::<bool>()).prop_map(|(s, force)| Part::Delete(s, force)),
        8 => (pick(), vec((0..12_u8, 0..6_u8), 1..4)).prop_map(|(s, entries)| Part::Append(s, entries)),
        1 => (pick(), 0..8_u8).prop_map(|(s, to)| Part::Move(s, to)),
        2 => (pick(), 0..3_u8).prop_map(|(s, id)| Part::Start(s, id)),
        3 => (pick(), 0..3_u8, 0..9_u8).prop_map(|(s, id, to)| Part::Transition(s, id, to)),
        1 => (pick(), 0..3_u8).prop_map(|(s, id)| Part::Reopen(s, id)),
        1 => (pick(), option::of(0..3_u8)).prop_map(|(s, id)| Part::Use(s, id)),
        3 => (option::of(pick()), 0..3_u8, any::<bool>()).prop_map(|(s, key, host)| Part::Put(s, key, host)),
        1 => (option::of(pick()), 0..3_u8, any::<bool>()).prop_map(|(s, key, host)| Part::Unput(s, key, host)),
        2 => (pick(), 0..3_u8, any::<bool>()).prop_map(|(s, count, host)| Part::Events(s, count + 1, host)),
        1 => (pick(), 0..4_u8, any::<bool>()).prop_map(|(s, through, close)| Part::Drop(s, through, close)),
        3 => (pick(), 0..4_u8).prop_map(|(s, how)| Part::Acquire(s, how)),
        2 => pick().prop_map(Part::Release),
        5 => (pick(), pick(), 1..5_u8).prop_map(|(from, to, count)| Part::Copy(from, to, count)),
        2 => (pick(), pick()).prop_map(|(from, to)| Part::Restore(from, to)),
        4 => (pick(), 0..8_u8).prop_map(|(s, leaf)| Part::Seal(s, leaf)),
        1 => (pick(), 0..6_u8).prop_map(|(s, key)| Part::When(s, key)),
    ]
}

fn draft() -> impl Strategy<Value = Draft> {
    let request = option::weighted(0.1, (0..32_u8, any::<bool>(), 0..30_u8));
    let wait = prop_oneof![9 => Just(1_i64), 1 => Just(40_000_i64)];
    (vec(part(), 1..4), prop::bool::weighted(0.95), request, wait)
        .prop_map(|(parts, fenced, request, wait_ms)| Draft { parts, fenced, request, wait_ms })
}

fn run_id(id: u8) -> RunId {
    RunId::new(format!("r{id}")).unwrap()
}

fn key(key: u8) -> EntryKey {
    EntryKey::new(format!("k{key}")).unwrap()
}

/// One store and what its only client knows of it.
struct Client {
    bench: Bench,
    other: MemoryStore,
    fences: HashMap<SessionRef, Fence>,
    known: Known,
}

/// How far a session came that is being built.
#[derive(Clone, Default)]
struct Built {
    /// What it is a copy of. It goes on where it began.
    source: Option<SessionRef>,
    restored: bool,
    digest: [u8; 32],
    rows: u64,
    last: Option<EntryNo>,
}

/// What a client keeps in mind; kept only if its commit landed.
#[derive(Clone, Default)]
struct Known {
    /// How many lives an id had.
    lives: HashMap<u8, u8>,
    active: Vec<SessionRef>,
    building: Vec<SessionRef>,
    heads: HashMap<SessionRef, u32>,
    built: HashMap<SessionRef, Built>,
}

impl Known {
    fn next_life(&mut self, id: u8) -> SessionRef {
        let count = self.lives.entry(id).or_default();
        *count += 1;
        life(["a", "b", "c"][usize::from(id)], *count)
    }

    fn pick(of: &[SessionRef], pick: Pick) -> SessionRef {
        let gone = life("a", 1);
        if pick == 0 { gone } else { of.get(usize::from(pick) % of.len().max(1)).cloned().unwrap_or(gone) }
    }

    fn session(&self, pick: Pick) -> SessionRef {
        Self::pick(&self.active, pick)
    }
}

impl Client {
    fn new() -> Self {
        let bench = Bench::new();
        let other = bench.store.reopen();
        Self { bench, other, fences: HashMap::new(), known: Known::default() }
    }

    /// Two sessions with a few entries, and one that is being built, so that most parts find what they are about.
    fn settled() -> Self {
        let mut client = Self::new();
        let entries = || vec![(6, 9), (0, 9), (0, 4), (7, 9)];
        for parts in [
            vec![Part::Create(0), Part::Create(1), Part::Build(2)],
            vec![Part::Append(1, entries()), Part::Start(1, 1)],
            vec![Part::Append(2, entries()), Part::Transition(1, 1, 6)],
        ] {
            let draft = Draft { parts, fenced: true, request: None, wait_ms: 1 };
            assert!(client.commit(&draft).is_some(), "{draft:?}");
        }
        client
    }

    fn entry(&self, parent: u8, key_or_none: u8) -> NewEntry {
        let mut entry = user("text");
        entry.run = parent.is_multiple_of(3).then(|| run_id(parent % 2));
        if key_or_none < 4 {
            entry.key = Some(key(key_or_none));
            entry.on_key = if key_or_none < 2 { OnKey::Skip } else { OnKey::Refuse };
        }
        match parent {
            0..6 => entry,
            6 => NewEntry { parent: Parent::Root, ..entry },
            7 => beside(2, entry),
            8 => NewEntry { parent: Parent::InCommit(0), ..entry },
            number => NewEntry { parent: Parent::Number(no(u32::from(number) - 8)), ..entry },
        }
    }

    fn grant(&self, of: &SessionRef, how: u8) -> Op {
        let store = if how.is_multiple_of(2) { &self.bench.store } else { &self.other };
        let (mut grant, _) = grant(store, LeaseName::Session(of.clone()), how);
        if how > 1 {
            grant.takeover = Takeover::Force;
        }
        Op::AcquireLease(grant)
    }

    /// The ops of a part, and what is known once they landed.
    fn ops(&self, part: &Part, known: &mut Known) -> Vec<Op> {
        let session = |pick: Pick| known.session(pick);
        let op = match part {
            Part::Create(id) => {
                let s = known.next_life(*id);
                known.active.push(s.clone());
                creation(&s, SessionState::Active, Profile::default())
            }
            Part::Build(id) => {
                let s = known.next_life(*id);
                known.building.push(s.clone());
                return vec![creation(&s, SessionState::Restoring, Profile::default()), self.grant(&s, 0)];
            }
            Part::Delete(s, force) => Op::DeleteSession { session: session(*s), force: *force },
            Part::Append(s, entries) => {
                let entries = entries.iter().enumerate().map(|(at, (parent, key))| {
                    let parent = if *parent == 8 && at == 0 { 0 } else { *parent };
                    self.entry(parent, *key)
                });
                Op::Append { session: session(*s), entries: entries.collect() }
            }
            Part::Move(s, to) => Op::MoveLeaf { session: session(*s), to: EntryNo::new((*to).into()) },
            Part::Start(s, id) => {
                let mut new = new_run(run_id(*id).as_str());
                new.intent = (*id == 0).then(|| IntentId::new("i").unwrap());
                Op::StartRun { session: session(*s), run: new }
            }
            Part::Transition(s, id, to) => Op::TransitionRun {
                session: session(*s),
                run: run_id(*id),
                from: RunStates::ACTIVE,
                to: RunState::ALL[usize::from(*to)],
                error: None,
            },
            Part::Reopen(s, id) => Op::ReopenRun { session: session(*s), run: run_id(*id) },
            Part::Use(s, id) => Op::AddUsage {
                session: session(*s),
                run: id.map(run_id),
                usage: Usage { requests: 1, ..Usage::default() },
            },
            Part::Put(owner, key, host) => {
                let name = if *host { "host" } else { "intents" };
                Op::PutRecord(put(name, &format!("k{key}"), owner.map(session).as_ref()))
            }
            Part::Unput(owner, key, host) => Op::DeleteRecord {
                collection: collection(if *host { "host" } else { "intents" }),
                key: record_key(&format!("k{key}")),
                owner: owner.map(session),
                expect: Expect::Any,
            },
            Part::Events(s, count, host) => Op::AppendEvents {
                session: session(*s),
                stream: stream(if *host { "host" } else { "runs" }),
                expect_next: None,
                events: (0..*count).map(|_| event("e")).collect(),
            },
            Part::Drop(s, through, close) => Op::DropEvents {
                session: session(*s),
                stream: stream("host"),
                through: Some((*through).into()),
                close: *close,
            },
            Part::Acquire(s, how) => self.grant(&session(*s), *how),
            Part::Release(s) => match self.fences.get(&session(*s)) {
                Some(fence) => Op::ReleaseLease { fence: fence.clone() },
                None => return Vec::new(),
            },
            Part::Copy(from, to, count) => {
                let to = Known::pick(&known.building, *to);
                let from = session(*from);
                let built = known.built.entry(to.clone()).or_default();
                if built.restored {
                    return Vec::new();
                }
                let from = built.source.get_or_insert(from).clone();
                let (after, before) = (built.last, built.last.map_or(0, EntryNo::get));
                let last = (before + u32::from(*count)).min(known.heads.get(&from).copied().unwrap_or(0));
                let Some(through) = EntryNo::new(last) else { return Vec::new() };
                built.digest = copied(&from, through);
                built.rows = u64::from(last);
                built.last = Some(through);
                Op::CopyEntries { from, to, after, through }
            }
            Part::Restore(from, to) => {
                let to = Known::pick(&known.building, *to);
                let from = session(*from);
                let built = known.built.entry(to.clone()).or_default();
                if built.rows > 0 {
                    return Vec::new();
                }
                let query = RowQuery { limit: 1_000, ..RowQuery::session(ws(), from) };
                let rows = run(self.bench.store.rows(&query)).map(|page| page.items).unwrap_or_default();
                // A record is in one place only, so what is owned does not come along.
                let rows: Vec<Row> = rows.into_iter().filter(|row| row.kind() != RowKind::Record).collect();
                built.digest = rows.iter().fold([0; 32], |digest, row| fold_row(&digest, row));
                (built.rows, built.restored) = (rows.len() as u64, true);
                Op::Restore { session: to, rows }
            }
            Part::Seal(s, leaf) => {
                let s = Known::pick(&known.building, *s);
                let Built { digest, rows, .. } = known.built.get(&s).cloned().unwrap_or_default();
                let leaf = EntryNo::new(u32::from(*leaf).min(u32::try_from(rows).unwrap()));
                Op::SealSession { session: s, leaf, rows, digest }
            }
            Part::When(s, by) => Op::WhenKey {
                session: session(*s),
                key: key(*by),
                then: Box::new(Op::MoveLeaf { session: session(*s), to: None }),
            },
        };
        vec![op]
    }

    /// Reads what is there.
    fn look(&mut self) {
        let list = |state| {
            let query = SessionQuery { state, order: SessionOrder::Id, ..SessionQuery::new(ws()) };
            run(self.bench.store.sessions(&query)).unwrap().items
        };
        let (active, building) = (list(SessionState::Active), list(SessionState::Restoring));
        let head = |row: &SessionRow| (row.session_ref(), row.head.map_or(0, EntryNo::get));
        self.known.heads = active.iter().map(head).collect();
        self.known.active = active.iter().map(SessionRow::session_ref).collect();
        self.known.building = building.iter().map(SessionRow::session_ref).collect();
    }

    fn commit(&mut self, draft: &Draft) -> Option<Receipt> {
        self.bench.clock.advance_ms(draft.wait_ms);
        self.look();
        let mut known = self.known.clone();
        let ops: Vec<Op> = draft.parts.iter().flat_map(|part| self.ops(part, &mut known)).collect();
        let mut commit = Commit::new(ws());
        if draft.fenced {
            let text = format!("{ops:?}");
            let mut fences: Vec<_> = self.fences.iter().collect();
            fences.sort_by_key(|(session, _)| (*session).clone());
            for (session, fence) in fences {
                if text.contains(&session.incarnation.to_string()) {
                    commit = commit.fence(fence.clone());
                }
            }
        }
        if let Some((pick, in_workspace, id)) = draft.request {
            let id = RequestId::host(format!("q{id}")).unwrap();
            commit = commit.request(if in_workspace {
                Request::in_workspace(id).owned_by(known.session(pick))
            } else {
                Request::in_session(id, known.session(pick))
            });
        }
        commit.ops = ops.clone();
        let before = self.bench.store.table_rows().unwrap();
        match self.bench.commit(commit) {
            Err(_) => {
                assert_eq!(self.bench.store.table_rows().unwrap(), before, "a refused commit left rows");
                None
            }
            Ok(receipt) if receipt.replayed => Some(receipt),
            Ok(receipt) => {
                self.known = known;
                for (op, outcome) in ops.iter().zip(&receipt.outcomes) {
                    if let (Op::AcquireLease(grant), Outcome::Lease { epoch, .. }) = (op, outcome)
                        && let LeaseName::Session(session) = &grant.name
                    {
                        let (name, owner, token) = (grant.name.clone(), grant.owner, grant.token);
                        let fence = Fence { name, owner, token, epoch: *epoch };
                        self.fences.insert(session.clone(), fence);
                    }
                }
                Some(receipt)
            }
        }
    }

    /// Everything that reads show.
    fn everything(&self) -> Vec<Row> {
        let store = &self.bench.store;
        let list = SessionQuery { order: SessionOrder::Id, ..SessionQuery::new(ws()) };
        let sessions = run(store.sessions(&list)).unwrap().items;
        let of_sessions = sessions.iter().map(|row| RowQuery::session(ws(), row.session_ref()));
        of_sessions
            .chain([RowQuery::unowned(ws())])
            .flat_map(|query| run(store.rows(&RowQuery { limit: 10_000, ..query })).unwrap().items)
            .collect()
    }

    /// Tables made of the image of these, by way of JSON, as a log would keep it, are equal and sound.
    fn assert_made_anew_is_equal(&self) {
        run(self.bench.store.maintenance().unwrap().purge()).unwrap();
        let image = self.bench.store.image().unwrap();
        let mut anew = Tables::default();
        for (activity, set) in image.clone() {
            let line = serde_json::to_string(&set).unwrap();
            anew.apply(serde_json::from_str::<WriteSet>(&line).unwrap(), activity);
        }
        let mut again = Vec::new();
        let taken = anew.image(|activity, set| {
            again.push((activity, set));
            Ok(())
        });
        assert_eq!((taken.is_ok(), again), (true, image));
        assert_eq!(anew.table_rows(), self.bench.store.table_rows().unwrap());
        assert_eq!(anew.verify().damage, []);
    }

    fn delete_everything(&mut self) {
        for state in [SessionState::Active, SessionState::Restoring] {
            let list = SessionQuery { state, ..SessionQuery::new(ws()) };
            for row in run(self.bench.store.sessions(&list)).unwrap().items {
                self.bench.op(Op::DeleteSession { session: row.session_ref(), force: true });
            }
        }
        run(self.bench.store.maintenance().unwrap().purge()).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_commits_keep_the_store_sound(drafts in vec(draft(), 1..40)) {
        let (mut one, mut two) = (Client::settled(), Client::settled());
        for draft in &drafts {
            let receipt = one.commit(draft);
            prop_assert_eq!(&receipt, &two.commit(draft), "two stores with one seed disagree");
            one.bench.assert_sound();
        }
        prop_assert_eq!(one.everything(), two.everything());
        one.assert_made_anew_is_equal();
        one.delete_everything();
        prop_assert_eq!(one.bench.store.residue().unwrap(), vec![]);
        one.bench.assert_sound();
    }
}
