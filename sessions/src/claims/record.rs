//! A claim as it is stored, and as it is read.

use serde::{Deserialize, Serialize};
use turnkeep_core::commit::{Expect, Op};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{RecordKey, RunId, SessionRef, TurnId};
use turnkeep_core::model::{Record, Version, collection};
use turnkeep_core::{Payload, Timestamp};

use super::state::{ClaimState, Effect};
use crate::run::RunError;
use crate::state::records;

/// The execution of one tool call, as it is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimRecord {
    /// Its key, unique in the workspace.
    pub key: RecordKey,
    /// The session that it belongs to.
    pub session: SessionRef,
    /// Where it stands.
    pub state: ClaimState,
    /// What the tool does to the world.
    pub effect: Effect,
    /// The tool.
    pub tool: Option<String>,
    /// The call's id, as the model gave it.
    pub call: Option<String>,
    /// The arguments, byte for byte.
    pub arguments: Option<Payload>,
    /// Whatever else the host keeps there, byte for byte.
    pub meta: Option<Payload>,
    /// The run that claimed it last.
    pub run: Option<RunId>,
    /// The turn in which it was claimed last.
    pub turn: Option<TurnId>,
    /// What came of it, byte for byte.
    pub result: Option<Payload>,
    /// Why it failed.
    pub error: Option<RunError>,
    /// How often it was claimed.
    pub attempts: u32,
    /// When it was claimed first.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The epoch of the session's lease under which it was claimed.
    pub(super) epoch: u64,
    pub(super) version: Version,
}

/// The stored form. JSON of the host stands inside of strings, so that its bytes are kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Body {
    pub(super) effect: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) turn: Option<TurnId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<RunError>,
    pub(super) attempts: u32,
    pub(super) epoch: u64,
}

impl Body {
    /// The op that keeps it.
    pub(super) fn put(
        &self,
        key: &RecordKey,
        session: &SessionRef,
        state: ClaimState,
        expect: Expect,
    ) -> Result<Op> {
        let status = Some(state.status()?);
        records::put(collection::TOOL_CLAIMS, key.clone(), Some(session), status, expect, self)
    }

    /// The record of it, made and changed at these times.
    pub(super) fn record(
        self,
        key: RecordKey,
        session: SessionRef,
        state: ClaimState,
        (created_at, updated_at): (Timestamp, Timestamp),
        version: Version,
    ) -> ClaimRecord {
        let Self { effect, tool, call, arguments, meta, run, turn, result, error, attempts, epoch } = self;
        ClaimRecord {
            key,
            session,
            state,
            effect,
            tool,
            call,
            arguments,
            meta,
            run,
            turn,
            result,
            error,
            attempts,
            created_at,
            updated_at,
            epoch,
            version,
        }
    }
}

impl ClaimRecord {
    pub(super) fn read(record: Record) -> Result<Self> {
        let body: Body = record.payload.parse()?;
        let session = record.owner.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "the claim belongs to no session").with("key", &record.key)
        })?;
        let state = ClaimState::from_status(record.status.as_ref())?;
        let times = (record.created_at, record.updated_at);
        Ok(body.record(record.key, session, state, times, record.version))
    }

    /// As it stands for who may write to the session `mine`, under this holding of its lease or under none: one that is said
    /// to run under another holding belongs to somebody who is gone.
    pub(super) fn in_effect(mut self, mine: &SessionRef, epoch: Option<u64>) -> Self {
        if self.state == ClaimState::Running && self.session == *mine && epoch != Some(self.epoch) {
            self.state = ClaimState::Interrupted;
        }
        self
    }

    pub(super) fn body(&self) -> Body {
        let Self { effect, tool, call, arguments, meta, run, turn, result, error, attempts, epoch, .. } =
            self.clone();
        Body { effect, tool, call, arguments, meta, run, turn, result, error, attempts, epoch }
    }

    /// The op that moves it to a state, if the table allows it and nobody was faster.
    ///
    /// # Errors
    /// `VersionConflict` when the state does not follow.
    pub(super) fn moved(&self, to: ClaimState, change: impl FnOnce(&mut Body)) -> Result<Op> {
        if !self.state.may_become(to) {
            let message = "the claim is in a state that does not allow this; read it and decide again";
            return Err(Error::new(ErrorKind::VersionConflict, message)
                .with("key", &self.key)
                .with("state", self.state.as_str())
                .with("wanted", to.as_str()));
        }
        let mut body = self.body();
        change(&mut body);
        body.put(&self.key, &self.session, to, Expect::Version(self.version))
    }
}
