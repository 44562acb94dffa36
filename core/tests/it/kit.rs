//! Short names for what every test needs.

use std::fmt::Debug;
use std::str::FromStr;

use turnkeep_core::commit::{Commit, Fence, LeaseGrant, NewEntry, NewRun, NewSession, Op, Takeover};
use turnkeep_core::id::{LeaseToken, OwnerId};
use turnkeep_core::model::{LeaseName, LeasePurpose, Profile, RunState, SessionState};
use turnkeep_core::rules::Stamp;
use turnkeep_core::{EntryNo, Incarnation, Payload, RunId, SessionRef, Timestamp, WorkspaceId};

pub(crate) const NOON: i64 = 1_700_000_000_000;

/// Any text id.
pub(crate) fn name<T>(text: impl AsRef<str>) -> T
where
    T: FromStr,
    T::Err: Debug,
{
    text.as_ref().parse().unwrap()
}

pub(crate) fn workspace() -> WorkspaceId {
    name("w")
}

pub(crate) fn no(number: u32) -> EntryNo {
    EntryNo::new(number).unwrap()
}

pub(crate) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(NOON + ms)
}

pub(crate) fn owner(byte: u8) -> OwnerId {
    OwnerId::from_bytes([byte; 16])
}

pub(crate) fn token(byte: u8) -> LeaseToken {
    LeaseToken::from_bytes([byte; 16])
}

pub(crate) fn session(id: &str, life: u8) -> SessionRef {
    SessionRef { id: name(id), incarnation: Incarnation::from_bytes([life; 16]) }
}

pub(crate) fn json(text: &str) -> Payload {
    Payload::new(text).unwrap()
}

pub(crate) fn commit() -> Commit {
    Commit::new(workspace())
}

pub(crate) fn stamp(activity: u64) -> Stamp {
    Stamp { now: at(0), activity, nonce: activity << 20 }
}

pub(crate) fn create(session: &SessionRef, state: SessionState) -> Op {
    Op::CreateSession(NewSession {
        id: session.id.clone(),
        incarnation: session.incarnation,
        state,
        profile: Profile::default(),
    })
}

pub(crate) fn message(text: &str) -> NewEntry {
    NewEntry {
        role: Some(name("user")),
        text: Some(text.to_owned()),
        ..NewEntry::new(name("message"), at(0), Payload::from_value(&text).unwrap())
    }
}

pub(crate) fn append(session: &SessionRef, entries: Vec<NewEntry>) -> Op {
    Op::Append { session: session.clone(), entries }
}

pub(crate) fn start(session: &SessionRef, run: &str) -> Op {
    Op::StartRun { session: session.clone(), run: new_run(run) }
}

pub(crate) fn new_run(run: &str) -> NewRun {
    NewRun::new(name(run), RunState::Running)
}

pub(crate) fn run_id(run: &str) -> RunId {
    name(run)
}

pub(crate) fn lease_of(session: &SessionRef) -> LeaseName {
    LeaseName::Session(session.clone())
}

/// A lease for a minute.
pub(crate) fn acquire(name: LeaseName, client: u8) -> Op {
    Op::AcquireLease(LeaseGrant {
        name,
        owner: owner(client),
        token: token(client),
        purpose: LeasePurpose::Mutation,
        ttl_ms: 60_000,
        takeover: Takeover::IfExpired,
    })
}

pub(crate) fn fence(name: LeaseName, client: u8, epoch: u64) -> Fence {
    Fence { name, owner: owner(client), token: token(client), epoch }
}
