//! Closing a run: its last entries, its verdict, the end of its turn, the event and the lease, in one commit.

use serde::Serialize;
use turnkeep_core::commit::{Commit, NewEvent, OnKey, Op};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryKey, EventKind, RunId, SessionRef, StreamName, TurnId};
use turnkeep_core::limits::ID_BYTES;
use turnkeep_core::model::{RunState, RunStates, Visibility, stream};
use turnkeep_core::{Fence, Payload, Receipt, Timestamp, mutant};

use super::{RunError, partial};
use crate::base::{Base, Repeat};
use crate::claims::{self, ClaimRecord};
use crate::draft::{Draft, TurnEnd, TurnStatus};
use crate::message::Message;
use crate::session::append_ops;
use crate::state::ModelRequest;

/// How a run ends.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) to: RunState,
    pub(crate) error: Option<RunError>,
    pub(crate) stop_reason: Option<String>,
}

impl Verdict {
    pub(crate) fn completed(stop_reason: Option<String>) -> Self {
        Self { to: RunState::Completed, error: None, stop_reason }
    }

    pub(crate) fn failed(error: RunError) -> Self {
        Self { to: RunState::Failed, stop_reason: Some(error.code.clone()), error: Some(error) }
    }

    /// The answer is left out, what was done before it is not.
    pub(crate) fn rejected(reason: RunError) -> Self {
        let to = mutant::either("replay/rejected-turn-as-failed", RunState::Failed, RunState::Completed);
        Self { to, error: Some(reason), stop_reason: Some("rejected".into()) }
    }

    pub(crate) fn cancelled() -> Self {
        Self { to: RunState::Cancelled, error: None, stop_reason: Some("cancelled".into()) }
    }

    /// The run's handle was dropped before it was finished.
    pub(crate) fn dropped() -> Self {
        Self::interrupted(RunError::host("dropped").message("the run was given up before it was finished"))
    }

    /// The process that executed it is gone.
    pub(crate) fn left_behind() -> Self {
        Self::interrupted(
            RunError::new("recovery", "owner_gone").message("the process that executed the run is gone"),
        )
    }

    /// Somebody else went on, because whoever executed it was asleep or hung.
    pub(crate) fn taken_over() -> Self {
        Self::interrupted(
            RunError::new("recovery", "taken_over").message("somebody else took the session over"),
        )
    }

    fn interrupted(error: RunError) -> Self {
        Self {
            to: RunState::Interrupted,
            error: Some(error.retryable()),
            stop_reason: Some("interrupted".into()),
        }
    }

    fn status(&self) -> TurnStatus {
        match self.to {
            RunState::Completed if self.error.is_some() => TurnStatus::Incomplete,
            RunState::Completed => TurnStatus::Completed,
            RunState::Failed => TurnStatus::Failed,
            RunState::Cancelled => TurnStatus::Cancelled,
            _ => TurnStatus::Incomplete,
        }
    }

    fn event(&self) -> &'static str {
        match self.to {
            RunState::Completed => "run_completed",
            RunState::Failed => "run_failed",
            RunState::Cancelled => "run_cancelled",
            _ => "run_interrupted",
        }
    }
}

/// A run to be closed.
#[derive(Clone, Debug)]
pub(crate) struct Closing {
    pub(crate) session: SessionRef,
    pub(crate) run: RunId,
    pub(crate) turn: Option<TurnId>,
    pub(crate) verdict: Verdict,
    pub(crate) drafts: Vec<Draft>,
    pub(crate) usage: Option<ModelRequest>,
    /// Text that was streamed and not finished; kept for display only.
    pub(crate) partial: Option<String>,
    /// The end of such text that was not stored yet.
    pub(crate) tail: Option<String>,
    /// Whether a stream of such text is there and takes no more from now on.
    pub(crate) streamed: bool,
    /// Tool calls that are still said to be executed.
    pub(crate) claims: Vec<ClaimRecord>,
    /// The lease that protected the run, given back in the same commit.
    pub(crate) fences: Vec<Fence>,
}

#[derive(Serialize)]
struct Ended<'a> {
    state: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<&'a TurnId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Closing {
    /// The ops; entries of the caller come first.
    pub(crate) fn ops(&self, now: Timestamp) -> Result<Vec<Op>> {
        let Self { session, run, verdict, .. } = self;
        let turn = self.turn.as_ref();
        let mut ops = Vec::with_capacity(8);
        if !self.drafts.is_empty() {
            ops.extend(append_ops(session, &self.drafts, now, Some(run), turn)?);
        }
        if let Some(text) = &self.partial {
            let shown = Draft::from(Message::assistant(text.clone())).visibility(Visibility::Partial);
            ops.extend(append_ops(session, &[shown.beside()], now, Some(run), turn)?);
        }
        if let Some(turn) = turn {
            ops.push(self.end_of_turn(turn, now)?);
        }
        ops.push(Op::TransitionRun {
            session: session.clone(),
            run: run.clone(),
            from: RunStates::ACTIVE,
            to: verdict.to,
            error: verdict.error.as_ref().map(RunError::payload).transpose()?,
        });
        if let Some(usage) = &self.usage {
            ops.extend(usage.ops(session, Some(run), now)?);
        }
        let ended = Ended {
            state: verdict.to.as_str(),
            turn,
            stop_reason: verdict.stop_reason.as_deref(),
            error: verdict.error.as_ref().map(|error| format!("{}.{}", error.area, error.code)),
        };
        ops.push(run_event(session, run, verdict.event(), now, &ended)?);
        if self.streamed
            && let Some(turn) = turn
        {
            ops.push(Op::DropEvents {
                session: session.clone(),
                stream: partial::stream_of(turn)?,
                through: None,
                close: true,
            });
        }
        ops.extend(claims::interrupt_ops(&self.claims)?);
        ops.extend(self.fences.iter().map(|fence| Op::ReleaseLease { fence: fence.clone() }));
        Ok(ops)
    }

    /// Ends the turn if it was begun, and unless somebody ended it before.
    fn end_of_turn(&self, turn: &TurnId, now: Timestamp) -> Result<Op> {
        let end = TurnEnd { status: self.verdict.status(), stop_reason: self.verdict.stop_reason.clone() };
        let mut entry = Draft::from(end).into_entry(now, Some(&self.run), Some(turn))?;
        entry.key = Some(end_key(turn)?);
        entry.on_key = OnKey::Skip;
        Ok(Op::WhenKey {
            session: self.session.clone(),
            key: start_key(turn)?,
            then: Box::new(Op::Append { session: self.session.clone(), entries: vec![entry] }),
        })
    }

    /// Closes with the lease alone, for a run whose handle is gone. Nobody else could write since, so that the leaf
    /// needs no guard.
    pub(crate) async fn commit(mut self, base: &Base) -> Result<Closed> {
        self.claims = claims::running(base, &self.session).await?;
        if let Some(turn) = &self.turn
            && let Some(streamed) = partial::read(base, &self.session, turn).await?
        {
            self.streamed = true;
            self.partial = Some(streamed).filter(|text| !text.is_empty());
        }
        self.partial = partial::with_tail(base, self.partial.take(), self.tail.take());
        let mut commit = Commit::new(base.workspace().clone())
            .request(base.request_in_session(Repeat::default(), &self.session)?);
        commit.fences = self.fences.clone();
        commit.ops = self.ops(base.now())?;
        let receipt = base.commit(commit).await?.receipt;
        let rest = claims::interrupt_rest(base, &self.session, self.claims.len()).await;
        self.claims.extend(rest);
        Ok(Closed { receipt, kept_partial: self.partial.is_some(), claims: self.claims })
    }
}

/// A run that was closed.
pub(crate) struct Closed {
    pub(crate) receipt: Receipt,
    /// Whether an unfinished text was kept.
    pub(crate) kept_partial: bool,
    /// Tool calls that were interrupted with it.
    pub(crate) claims: Vec<ClaimRecord>,
}

/// How the kinds of the events in a run's life begin.
pub(crate) const OWN_EVENTS: &str = "run_";

/// Bytes of the id of a turn; the keys of its boundaries are longer.
pub(crate) const TURN_BYTES: usize = ID_BYTES - "turn//start".len();

/// The key of the entry that begins a turn.
pub(crate) fn start_key(turn: &TurnId) -> Result<EntryKey> {
    if turn.as_str().len() > TURN_BYTES {
        let bytes = turn.as_str().len();
        let message = format!("the turn id has {bytes} bytes; at most {TURN_BYTES} are allowed");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    EntryKey::new(format!("turn/{turn}/start"))
}

/// A refusal because the key of a turn's beginning is taken, in words of who knows no keys.
pub(crate) fn begun_before(refused: Error, session: &SessionRef, turn: &TurnId) -> Error {
    let taken = |key: EntryKey| refused.context().any(|(name, value)| name == "key" && value == key.as_str());
    if refused.kind() != ErrorKind::AlreadyExists || !start_key(turn).is_ok_and(taken) {
        return refused;
    }
    Error::new(ErrorKind::AlreadyExists, "a turn with this id was begun before; give another id")
        .with("session", &session.id)
        .with("turn", turn)
}

/// The key of the entry that ends a turn.
pub(crate) fn end_key(turn: &TurnId) -> Result<EntryKey> {
    EntryKey::new(format!("turn/{turn}/end"))
}

/// An event in the life of a run.
pub(crate) fn run_event(
    session: &SessionRef,
    run: &RunId,
    kind: &str,
    now: Timestamp,
    payload: &impl Serialize,
) -> Result<Op> {
    Ok(Op::AppendEvents {
        session: session.clone(),
        stream: StreamName::new(stream::RUNS)?,
        expect_next: None,
        events: vec![NewEvent {
            kind: EventKind::new(kind)?,
            run: Some(run.clone()),
            at: now,
            payload: Payload::from_value(payload)?,
        }],
    })
}

/// A refusal that says the run was closed by somebody else already.
pub(crate) fn closed_by_others(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::RunState | ErrorKind::LeaseLost | ErrorKind::NotFound)
}
