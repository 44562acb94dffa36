//! From the words of a tape to a commit of the contract.

use std::collections::BTreeMap;
use std::str::FromStr;

use turnkeep_core::commit::{
    Expect, Fence, Guard, LeaseGrant, NewEntry, NewEvent, NewRun, NewSession, OnKey, Op, Parent, Put,
    RefTarget, Request, RequestId, RunPatch, SessionPatch, Takeover,
};
use turnkeep_core::model::{
    Entry, LeasePurpose, Profile, Reference, Row, RunState, RunStates, SessionState, Title, TitleSource,
    Usage, Version,
};
use turnkeep_core::rules::{copied, fold_row};
use turnkeep_core::{Commit, EntryNo, Error, OwnerId, Timestamp, WorkspaceId};

use super::mind::{Handle, Mind, NOWHERE};
use super::names;
use super::ops::{Condition, Do, Expected, Follows, Hold, Life, Line, Spot, Taking};
use super::script::Change;
use crate::kit::{name, payload};

/// The time of every entry and event: order must never depend on it.
const THEN: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// What the sender of a session in the making has sent: rows, and the digest over them.
pub(crate) type Built = BTreeMap<Life, (u64, [u8; 32])>;

/// What it takes to say the words of a client to a store.
#[derive(Debug)]
pub(crate) struct Translator<'a> {
    pub(crate) workspace: &'a WorkspaceId,
    pub(crate) handle: Handle,
    pub(crate) mind: &'a Mind<Version>,
    pub(crate) owners: &'a BTreeMap<Handle, OwnerId>,
    /// As it is when the commit lands.
    pub(crate) built: Built,
    /// The suite sets the store's clock. Where it does not, no lease may expire by itself.
    pub(crate) clock: bool,
}

/// How long leases last that must not expire while a tape is played.
const LONG_MS: u64 = 3_600_000;

impl Translator<'_> {
    /// The commit.
    pub(crate) fn commit(&mut self, change: &Change) -> Commit {
        let change = self.mind.resolve(change);
        let mut commit = Commit::new(self.workspace.clone());
        if let Some(asked) = &change.request {
            let id = RequestId::Host(asked.id.clone());
            commit = commit.request(match &asked.within {
                Some(life) => Request::in_session(id, names::session(life)),
                None => Request::in_workspace(id),
            });
        }
        for lease in &change.fences {
            commit = commit.fence(self.fence(lease));
        }
        for guard in &change.guards {
            commit = commit.guard(self.guard(guard));
        }
        for op in &change.ops {
            let op = self.op(op);
            commit = commit.op(op);
        }
        commit
    }

    fn owner(&self, handle: Handle) -> OwnerId {
        self.owners.get(&handle).copied().unwrap_or(OwnerId::from_bytes([0; 16]))
    }

    fn ttl(&self, ttl_ms: u64) -> u64 {
        if self.clock || ttl_ms == 0 { ttl_ms } else { ttl_ms.max(LONG_MS) }
    }

    fn fence(&self, lease: &Hold) -> Fence {
        let proof = self.mind.proof(self.handle.0, lease);
        let (owner, token) = (self.owner(proof.handle), names::token(proof.token));
        Fence { name: names::lease(lease), owner, token, epoch: proof.epoch }
    }

    fn guard(&self, guard: &Condition) -> Guard {
        match guard {
            Condition::Leaf { session, leaf } => {
                Guard::Leaf { session: names::session(session), leaf: leaf.as_ref().map(number) }
            }
            Condition::Head { session, head } => {
                Guard::Head { session: names::session(session), head: head.as_ref().map(number) }
            }
            Condition::Revision { session, revision } => {
                Guard::Revision { session: names::session(session), revision: *revision }
            }
            Condition::NoSession { id } => Guard::SessionAbsent { id: name(id) },
            Condition::NoActiveRun { session } => Guard::NoActiveRun { session: names::session(session) },
            Condition::RunIn { session, run, states } => Guard::RunIn {
                session: names::session(session),
                run: name(run),
                states: RunStates::of(states),
            },
            Condition::KeyThere { session, key } => {
                Guard::KeyPresent { session: names::session(session), key: name(key) }
            }
            Condition::KeyFree { session, key } => {
                Guard::KeyAbsent { session: names::session(session), key: name(key) }
            }
            Condition::Record { collection, key, expect } => Guard::Record {
                collection: name(collection),
                key: name(key),
                expect: self.expect(collection, key, *expect),
            },
        }
    }

    fn expect(&self, collection: &str, key: &str, expect: Expected) -> Expect {
        match expect {
            Expected::Any => Expect::Any,
            Expected::Absent => Expect::Absent,
            Expected::Seen | Expected::Former => {
                let known = self.mind.version(collection, key, expect);
                Expect::Version(known.unwrap_or(Version { birth: 0, count: 0 }))
            }
        }
    }

    fn op(&mut self, op: &Do) -> Op {
        match op {
            Do::WhenKey { session, key, then } => Op::WhenKey {
                session: names::session(session),
                key: name(key),
                then: Box::new(self.op(then)),
            },
            Do::Create { session, restoring, title } => Op::CreateSession(NewSession {
                id: name(session.id()),
                incarnation: names::incarnation(session),
                state: if *restoring { SessionState::Restoring } else { SessionState::Active },
                profile: Profile { title: title.as_deref().map(titled), ..Profile::default() },
            }),
            Do::Patch { session, title, pinned, archived } => Op::PatchSession {
                session: names::session(session),
                patch: SessionPatch {
                    title: title.as_deref().map(|title| Some(titled(title))),
                    pinned: *pinned,
                    archived: *archived,
                    ..SessionPatch::default()
                },
            },
            Do::Delete { session, force } => {
                Op::DeleteSession { session: names::session(session), force: *force }
            }
            Do::Append { session, lines } => Op::Append {
                session: names::session(session),
                entries: lines.iter().map(new_entry).collect(),
            },
            Do::MoveLeaf { session, to } => {
                Op::MoveLeaf { session: names::session(session), to: to.as_ref().map(number) }
            }
            Do::Start { session, run, pending, intent, after } => Op::StartRun {
                session: names::session(session),
                run: NewRun {
                    id: name(run),
                    state: if *pending { RunState::Pending } else { RunState::Running },
                    intent: maybe(intent.as_ref()),
                    after: maybe(after.as_ref()),
                    source: None,
                    model: None,
                    mode: None,
                    work_dir: None,
                },
            },
            Do::Move { session, run, from, to, error } => Op::TransitionRun {
                session: names::session(session),
                run: name(run),
                from: RunStates::of(from),
                to: *to,
                error: error.then(|| payload("{\"why\":\"the tape says so\"}")),
            },
            Do::TakeUp { session, run } => Op::ReopenRun { session: names::session(session), run: name(run) },
            Do::PatchRun { session, run, progress } => Op::PatchRun {
                session: names::session(session),
                run: name(run),
                patch: RunPatch {
                    progress: Some(progress.map(|value| payload(&names::value(value)))),
                    ..RunPatch::default()
                },
            },
            Do::Usage { session, run, tokens } => Op::AddUsage {
                session: names::session(session),
                run: maybe(run.as_ref()),
                usage: Usage { output_tokens: *tokens, ..Usage::default() },
            },
            Do::Events { session, stream, next, values } => Op::AppendEvents {
                session: names::session(session),
                stream: name(stream),
                expect_next: *next,
                events: values.iter().copied().map(new_event).collect(),
            },
            Do::DropEvents { session, stream, through, close } => Op::DropEvents {
                session: names::session(session),
                stream: name(stream),
                through: *through,
                close: *close,
            },
            _ => self.other_op(op),
        }
    }

    /// Records, leases, and sessions in the making.
    fn other_op(&mut self, op: &Do) -> Op {
        match op {
            Do::Put { collection, key, owner, status, expect, value } => Op::PutRecord(Put {
                collection: name(collection),
                key: name(key),
                owner: owner.as_ref().map(names::session),
                status: maybe(status.as_ref()),
                expect: self.expect(collection, key, *expect),
                payload: payload(&names::value(*value)),
            }),
            Do::Remove { collection, key, owner, expect } => Op::DeleteRecord {
                collection: name(collection),
                key: name(key),
                owner: owner.as_ref().map(names::session),
                expect: self.expect(collection, key, *expect),
            },
            Do::Acquire { lease, token, ttl_ms, takeover } => Op::AcquireLease(LeaseGrant {
                name: names::lease(lease),
                owner: self.owner(self.handle),
                token: names::token(*token),
                purpose: LeasePurpose::Execution,
                ttl_ms: self.ttl(*ttl_ms),
                takeover: match takeover {
                    Taking::Expired => Takeover::IfExpired,
                    Taking::Dead => Takeover::IfOwnerDead,
                    Taking::Force => Takeover::Force,
                },
            }),
            Do::Renew { lease, ttl_ms } => {
                Op::RenewLease { fence: self.fence(lease), ttl_ms: self.ttl(*ttl_ms) }
            }
            Do::Release { lease } => Op::ReleaseLease { fence: self.fence(lease) },
            Do::Copy { from, to, after, through } => {
                let (source, end) = (names::session(from), entry_no(*through));
                let sent = self.built.entry(to.clone()).or_default();
                let rows = u64::from(through.saturating_sub(after.unwrap_or(0)));
                *sent = (sent.0.saturating_add(rows), copied(&source, end));
                let after = after.map(entry_no);
                Op::CopyEntries { from: source, to: names::session(to), after, through: end }
            }
            Do::Restore { session, first, lines } => {
                let rows: Vec<Row> =
                    lines.iter().zip(*first..).map(|(line, number)| exact(line, number)).collect();
                let sent = self.built.entry(session.clone()).or_default();
                for row in &rows {
                    *sent = (sent.0 + 1, fold_row(&sent.1, row));
                }
                Op::Restore { session: names::session(session), rows }
            }
            Do::Seal { session, leaf, wrong } => {
                let (rows, digest) = self.built.get(session).copied().unwrap_or_default();
                let rows = if *wrong { rows + 1 } else { rows };
                Op::SealSession { session: names::session(session), leaf: leaf.map(entry_no), rows, digest }
            }
            _ => self.op(op),
        }
    }
}

fn maybe<T: FromStr<Err = Error>>(text: Option<&String>) -> Option<T> {
    text.map(|text| name(text))
}

fn titled(text: &str) -> Title {
    Title { text: text.to_owned(), source: TitleSource::Manual }
}

fn entry_no(number: u32) -> EntryNo {
    EntryNo::new(number).or(EntryNo::new(NOWHERE)).unwrap_or(EntryNo::FIRST)
}

fn number(spot: &Spot) -> EntryNo {
    match spot {
        Spot::No(number) => entry_no(*number),
        Spot::Of(_) => entry_no(NOWHERE),
    }
}

fn new_event(value: u32) -> NewEvent {
    NewEvent { kind: name("tick"), run: None, at: THEN, payload: payload(&names::value(value)) }
}

fn new_entry(line: &Line) -> NewEntry {
    let mut entry = NewEntry::new(name(line.sort.kind()), THEN, payload(&names::text(&line.text)));
    entry.parent = match &line.follows {
        Follows::Leaf => Parent::Leaf,
        Follows::Root => Parent::Root,
        Follows::Entry(spot) => Parent::Number(number(spot)),
        Follows::Place(place) => Parent::InCommit(*place),
    };
    entry.advance_leaf = line.sort.on_path();
    entry.role = line.sort.role().map(name);
    entry.run = maybe(line.run.as_ref());
    entry.key = maybe(line.key.as_ref());
    entry.on_key = if line.skip { OnKey::Skip } else { OnKey::Refuse };
    entry.visibility = line.sort.visibility();
    entry.refs =
        line.refs.iter().map(|spot| (name("label_target"), RefTarget::Number(number(spot)))).collect();
    entry.text = Some(line.text.clone());
    entry
}

/// A line as the row that a sender has of it.
fn exact(line: &Line, at: u32) -> Row {
    let reference = |spot| Reference { relation: name("label_target"), entry: number(spot) };
    Row::Entry(Entry {
        number: entry_no(at),
        parent: match &line.follows {
            Follows::Entry(spot) => Some(number(spot)),
            _ => None,
        },
        on_path: line.sort.on_path(),
        kind: name(line.sort.kind()),
        role: line.sort.role().map(name),
        run: maybe(line.run.as_ref()),
        turn: None,
        key: maybe(line.key.as_ref()),
        visibility: line.sort.visibility(),
        at: THEN,
        refs: line.refs.iter().map(reference).collect(),
        text: Some(line.text.clone()),
        payload: payload(&names::text(&line.text)),
    })
}
