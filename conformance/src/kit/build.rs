//! Building what commits are made of.

use turnkeep_core::commit::{
    LeaseGrant, NewEntry, NewEvent, NewRun, NewSession, Put, Request, RequestId, Takeover,
};
use turnkeep_core::model::{LeaseName, LeasePurpose, Profile, RunState, SessionState, entry_kind, role};
use turnkeep_core::{
    Commit, EntryNo, Expect, Incarnation, LeaseToken, OwnerId, Payload, SessionId, SessionRef, Timestamp,
};

use super::{Kit, name};

/// A time that all entries share unless a clause says otherwise: order must never depend on it.
const THEN: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A JSON text that the suite itself writes.
///
/// # Panics
/// When it is no payload: a bug of the suite.
#[track_caller]
pub(crate) fn payload(json: &str) -> Payload {
    match Payload::new(json) {
        Ok(payload) => payload,
        Err(error) => panic!("the suite's own payload is refused: {error}"),
    }
}

/// A number of an entry.
///
/// # Panics
/// For 0, which no entry has: a bug of the suite.
#[track_caller]
pub(crate) fn no(number: u32) -> EntryNo {
    match EntryNo::new(number) {
        Some(number) => number,
        None => panic!("the suite asks for entry 0"),
    }
}

/// A message of a person.
pub(crate) fn user(text: &str) -> NewEntry {
    let content = serde_json::Value::from(text).to_string();
    let payload = payload(&format!("{{\"role\":\"user\",\"content\":{content}}}"));
    let mut entry = NewEntry::new(name(entry_kind::MESSAGE), THEN, payload);
    entry.role = Some(name(role::USER));
    entry.text = Some(text.to_owned());
    entry
}

/// A message with a key.
pub(crate) fn keyed(key: &str, text: &str) -> NewEntry {
    NewEntry { key: Some(name(key)), ..user(text) }
}

/// Host data that lies on no path and leaves the leaf where it is.
pub(crate) fn note(text: &str) -> NewEntry {
    NewEntry { kind: name(entry_kind::LABEL), role: None, advance_leaf: false, ..user(text) }
}

/// An event with a number in it.
pub(crate) fn event(kind: &str, content: u64) -> NewEvent {
    NewEvent { kind: name(kind), run: None, at: THEN, payload: payload(&format!("{{\"n\":{content}}}")) }
}

/// A running run.
pub(crate) fn run(id: &str) -> NewRun {
    NewRun::new(name(id), RunState::Running)
}

/// A record that nobody owns, whatever is there now.
pub(crate) fn put(collection: &str, key: &str, json: &str) -> Put {
    Put {
        collection: name(collection),
        key: name(key),
        owner: None,
        status: None,
        expect: Expect::Any,
        payload: payload(json),
    }
}

/// A lease for executing, if it is free or expired.
pub(crate) fn grant(lease: LeaseName, owner: OwnerId, token: LeaseToken, ttl_ms: u64) -> LeaseGrant {
    LeaseGrant {
        name: lease,
        owner,
        token,
        purpose: LeasePurpose::Execution,
        ttl_ms,
        takeover: Takeover::IfExpired,
    }
}

impl Kit {
    /// An empty commit.
    pub(crate) fn commit(&self) -> Commit {
        Commit::new(self.workspace.clone())
    }

    /// A fresh incarnation.
    pub(crate) fn incarnation(&self) -> Incarnation {
        Incarnation::from_bytes(self.draw.next())
    }

    /// A fresh lease token.
    pub(crate) fn token(&self) -> LeaseToken {
        LeaseToken::from_bytes(self.draw.next())
    }

    /// A fresh life of a session id.
    pub(crate) fn life(&self, id: &str) -> SessionRef {
        SessionRef { id: name::<SessionId>(id), incarnation: self.incarnation() }
    }

    /// What it takes to create a life of a session.
    pub(crate) fn new_session(&self, session: &SessionRef) -> NewSession {
        NewSession {
            id: session.id.clone(),
            incarnation: session.incarnation,
            state: SessionState::Active,
            profile: Profile::default(),
        }
    }

    /// A lease on a session in the name of this client, with a fresh token.
    pub(crate) fn session_grant(&self, session: &SessionRef, ttl_ms: u64) -> LeaseGrant {
        grant(LeaseName::Session(session.clone()), self.store.info().owner, self.token(), ttl_ms)
    }

    /// A request id drawn now.
    pub(crate) fn request_id(&self) -> RequestId {
        let mut random = [0; 10];
        random.copy_from_slice(&self.draw.next()[..10]);
        RequestId::generated(self.now(), random)
    }

    /// A host's request in a session.
    pub(crate) fn request(&self, id: &str, session: &SessionRef) -> Request {
        Request::in_session(RequestId::Host(id.to_owned()), session.clone())
    }
}
