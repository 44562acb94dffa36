//! Claiming a tool call before it is executed, and saying what came of it.

use std::sync::Arc;

use turnkeep_core::commit::{Expect, Outcome};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{RecordKey, RunId, SessionRef, TurnId};
use turnkeep_core::model::LeaseName;
use turnkeep_core::{Fence, Payload};

use super::find;
use super::record::{Body, ClaimRecord};
use super::state::{ClaimState, Effect, may_be_claimed};
use crate::awaitable::awaitable;
use crate::lease::Hold;
use crate::message::ToolCall;
use crate::run::RunError;
use crate::session::{Plan, Session};
use crate::state::records;

/// A tool call to be claimed; await it.
#[derive(Debug)]
#[must_use = "nothing is claimed until this is awaited"]
pub struct ClaimTool {
    session: Session,
    key: Result<RecordKey>,
    /// The lease that protects the claim.
    hold: Result<Arc<Hold>>,
    body: Body,
}

/// Who may execute the tool.
#[derive(Debug)]
pub enum Claiming {
    /// This caller, and nobody else.
    Won(Claim),
    /// Nobody who asks now: the record says why. A completed one has the result; use it instead.
    Lost(Box<ClaimRecord>),
}

/// The exclusive right to execute one tool call. Say what came of it before you go on.
///
/// One that is neither completed nor failed is interrupted when its run ends or its lease is given back, or by the
/// recovery of a dead process.
#[derive(Debug)]
pub struct Claim {
    session: Session,
    hold: Arc<Hold>,
    record: Box<ClaimRecord>,
}

impl ClaimTool {
    pub(crate) fn new(session: Session, key: &str, hold: Result<Arc<Hold>>) -> Self {
        Self { session, key: RecordKey::new(key), hold, body: Body::default() }
    }

    pub(crate) fn of_run(mut self, run: RunId, turn: TurnId) -> Self {
        (self.body.run, self.body.turn) = (Some(run), Some(turn));
        self
    }

    /// The tool.
    pub fn tool(mut self, tool: impl Into<String>) -> Self {
        self.body.tool = Some(tool.into());
        self
    }

    /// Tool, id and arguments of a call by a model.
    pub fn call(mut self, call: &ToolCall) -> Self {
        self.body.tool = Some(call.name.clone());
        self.body.call = Some(call.id.clone());
        self.body.arguments = Some(call.arguments.clone());
        self
    }

    /// It only looks and changes nothing, so that an interrupted one may be tried again at once.
    pub fn read_only(mut self) -> Self {
        self.body.effect = Effect::ReadOnly;
        self
    }

    /// Whatever else the host keeps there, byte for byte.
    pub fn meta(mut self, meta: Payload) -> Self {
        self.body.meta = Some(meta);
        self
    }

    async fn go(self) -> Result<Claiming> {
        let Self { session, key, hold, body } = self;
        let (key, hold) = (key?, hold?);
        let epoch = epoch_of(&hold, session.session_ref())?;
        let body = Body { epoch, ..body };
        records::again(|| attempt(&session, &key, &hold, &body)).await
    }
}
awaitable!(ClaimTool => Result<Claiming>);

async fn attempt(session: &Session, key: &RecordKey, hold: &Arc<Hold>, wish: &Body) -> Result<Claiming> {
    let (base, mine) = (session.workspace().base(), session.session_ref());
    let now = base.now();
    let (attempts, effect, expect, since) = match find(base, key).await? {
        None => (1, wish.effect, Expect::Absent, now),
        Some(record) => {
            let record = record.in_effect(mine, Some(wish.epoch));
            if record.session != *mine || !may_be_claimed(record.state, record.effect) {
                return Ok(Claiming::Lost(Box::new(record)));
            }
            // What was said first holds: nobody makes a side effect repeatable by calling it read-only.
            let expect = Expect::Version(record.version);
            (record.attempts.saturating_add(1), record.effect, expect, record.created_at)
        }
    };
    let body = Body { attempts, effect, ..wish.clone() };
    let op = body.put(key, mine, ClaimState::Running, expect)?;
    let plan = Plan::new(move |_| Ok(vec![op.clone()])).hold(hold.clone()).at_any_leaf();
    hold.claims();
    let written = session.write(plan).await?;
    let Some(Outcome::Record { version, .. }) = written.receipt.outcomes.get(written.first) else {
        return Err(Error::new(ErrorKind::Corrupt, "the receipt of the claim names no record"));
    };
    let record = body.record(key.clone(), mine.clone(), ClaimState::Running, (since, now), *version);
    Ok(Claiming::Won(Claim { session: session.clone(), hold: hold.clone(), record: Box::new(record) }))
}

impl Claiming {
    /// The claim, if it was won.
    #[must_use]
    pub fn won(self) -> Option<Claim> {
        match self {
            Self::Won(claim) => Some(claim),
            Self::Lost(_) => None,
        }
    }
}

impl Claim {
    /// The record as it was claimed.
    #[must_use]
    pub fn record(&self) -> &ClaimRecord {
        &self.record
    }

    /// Keeps the result, for good: a completed claim is never changed again.
    ///
    /// # Errors
    /// `LeaseLost` when somebody took the session over: the claim is interrupted then, and a person decides.
    /// `VersionConflict` when it was settled before.
    pub async fn complete(&self, result: Payload) -> Result<()> {
        self.settle(ClaimState::Completed, |body| body.result = Some(result)).await
    }

    /// Keeps that it failed for certain, and had no effect that matters. If nobody can know, drop the claim instead.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn fail(&self, error: RunError) -> Result<()> {
        self.settle(ClaimState::Failed, |body| body.error = Some(error)).await
    }

    /// Says that nobody knows how far it came.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn interrupt(&self) -> Result<()> {
        self.settle(ClaimState::Interrupted, |_| {}).await
    }

    async fn settle(&self, to: ClaimState, change: impl FnOnce(&mut Body)) -> Result<()> {
        let op = self.record.moved(to, change)?;
        let plan = Plan::new(move |_| Ok(vec![op.clone()])).hold(self.hold.clone()).at_any_leaf();
        self.session.write(plan).await.map(drop)
    }
}

/// The epoch of the session's own lease.
pub(super) fn epoch_of(hold: &Hold, session: &SessionRef) -> Result<u64> {
    let name = LeaseName::Session(session.clone());
    let fence: Option<&Fence> = hold.fences().iter().find(|fence| fence.name == name);
    fence.map(|fence| fence.epoch).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, "the lease does not name this session").with("session", &session.id)
    })
}
