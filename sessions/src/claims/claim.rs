//! Claiming a tool call before it is executed, and saying what came of it.

use std::sync::Arc;

use turnkeep_core::commit::Expect;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{RecordKey, RunId, SessionRef, TurnId};
use turnkeep_core::model::LeaseName;
use turnkeep_core::{Fence, Payload};

use super::record::{Body, ClaimRecord};
use super::state::{ClaimState, Effect, may_be_claimed};
use super::{find, interrupted_in_effect};
use crate::awaitable::awaitable;
use crate::lease::Hold;
use crate::message::ToolCall;
use crate::run::RunError;
use crate::session::{Plan, Session};

/// How often a claim is tried again after somebody else changed its record.
const TRIES: u32 = 5;

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
/// One that is neither completed nor failed is interrupted when its run ends, or by the recovery of a dead process.
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
        let (key, hold) = (self.key?, self.hold?);
        let mine = self.session.session_ref();
        let epoch = epoch_of(&hold, mine)?;
        for _ in 0..TRIES {
            let found = find(self.session.workspace().base(), &key).await?;
            let (body, expect) = match found {
                None => (Body { attempts: 1, epoch, ..self.body.clone() }, Expect::Absent),
                Some(record) => {
                    let state = if interrupted_in_effect(&record, mine, epoch) {
                        ClaimState::Interrupted
                    } else {
                        record.state
                    };
                    // What was said first holds: nobody makes a side effect repeatable by calling it read-only.
                    if record.session != *mine || !may_be_claimed(state, record.effect) {
                        return Ok(Claiming::Lost(Box::new(ClaimRecord { state, ..record })));
                    }
                    let attempts = record.attempts.saturating_add(1);
                    let body = Body { attempts, epoch, effect: record.effect, ..self.body.clone() };
                    (body, Expect::Version(record.version))
                }
            };
            let op = body.put(&key, mine, ClaimState::Running, expect)?;
            let plan = Plan::new(move |_| Ok(vec![op.clone()])).hold(hold.clone()).at_any_leaf();
            match self.session.write(plan).await {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::VersionConflict => continue,
                Err(error) => return Err(error),
            }
            let record = find(self.session.workspace().base(), &key).await?;
            if let Some(record) = record.filter(|record| record.state == ClaimState::Running) {
                let record = Box::new(record);
                return Ok(Claiming::Won(Claim { session: self.session, hold, record }));
            }
        }
        Err(Error::new(ErrorKind::Busy, "others keep changing the claim").with("key", &key))
    }
}
awaitable!(ClaimTool => Result<Claiming>);

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
fn epoch_of(hold: &Hold, session: &SessionRef) -> Result<u64> {
    let name = LeaseName::Session(session.clone());
    let fence: Option<&Fence> = hold.fences().iter().find(|fence| fence.name == name);
    fence.map(|fence| fence.epoch).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, "the lease does not name this session").with("session", &session.id)
    })
}
