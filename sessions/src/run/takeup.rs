//! Taking a run up again: one that waits for a person, or one that is over and can be reopened.

use std::sync::Arc;

use serde::Serialize;
use turnkeep_core::commit::{Commit, LeaseGrant, Op, Takeover};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryKind, IntentId, RunId, SessionRef, TurnId};
use turnkeep_core::model::{LeasePurpose, RunState, RunStates, entry_kind};
use turnkeep_core::query::{EntryQuery, Order};
use turnkeep_core::{Fence, Timestamp};

use super::begin::begin_turn;
use super::care::AdmissionCare;
use super::close::run_event;
use super::{Run, Stage};
use crate::awaitable::awaitable;
use crate::base::Base;
use crate::lease::{Hold, granted, session_lease};
use crate::recovery;
use crate::session::{Plan, Session};

/// The states of a run that waits for a person.
pub(crate) const WAITING: RunStates = RunStates::of(&[RunState::WaitingApproval, RunState::WaitingInput]);

/// A run to be taken up again; await it.
#[derive(Debug)]
#[must_use = "nothing is taken up until this is awaited"]
pub struct TakeUp {
    session: Session,
    run: RunId,
    reopen: bool,
}

#[derive(Clone, Debug)]
struct Blueprint {
    session: SessionRef,
    run: RunId,
    turn: TurnId,
    intent: Option<IntentId>,
    grant: LeaseGrant,
    reopen: bool,
}

#[derive(Serialize)]
struct TakenUp<'a> {
    turn: &'a TurnId,
}

impl TakeUp {
    pub(crate) fn resume(session: Session, run: RunId) -> Self {
        Self { session, run, reopen: false }
    }

    pub(crate) fn reopen(session: Session, run: RunId) -> Self {
        Self { session, run, reopen: true }
    }

    async fn go(self) -> Result<Run> {
        let base = self.session.workspace().base();
        let row = self.session.runs().get(&self.run).await?;
        let turn = if self.reopen {
            TurnId::new(base.fresh_id()?)?
        } else {
            turn_of(base, self.session.session_ref(), &self.run).await?.ok_or_else(|| {
                Error::new(ErrorKind::TurnNotOpen, "the run has no turn to go on with").with("run", &self.run)
            })?
        };
        let waited = (!self.reopen).then_some(row.state);
        let hold = take_up(&self.session, &self.run, turn.clone(), row.intent, waited).await?;
        // The turn that goes on may have streamed text before.
        Ok(Run::new(self.session.clone(), self.run, turn, hold, Stage::Running, !self.reopen))
    }
}
awaitable!(TakeUp => Result<Run>);

/// Takes lease and run in one commit, and executes from then on. A run that `waited` goes on; another is reopened.
pub(super) async fn take_up(
    session: &Session,
    run: &RunId,
    turn: TurnId,
    intent: Option<IntentId>,
    waited: Option<RunState>,
) -> Result<Arc<Hold>> {
    match attempt(session, run, &turn, intent.clone(), waited, Takeover::IfExpired).await {
        Err(error) if recovery::may_help(error.kind()) => {
            recovery::clear_the_way(session, error).await?;
            attempt(session, run, &turn, intent, waited, Takeover::IfOwnerDead).await
        }
        taken => taken,
    }
}

async fn attempt(
    session: &Session,
    run: &RunId,
    turn: &TurnId,
    intent: Option<IntentId>,
    waited: Option<RunState>,
    takeover: Takeover,
) -> Result<Arc<Hold>> {
    let base = session.workspace().base();
    let ttl = base.lease_ttl();
    let grant = base.grant(session_lease(session.session_ref()), LeasePurpose::Execution, ttl, takeover)?;
    let blueprint = Blueprint {
        session: session.session_ref().clone(),
        run: run.clone(),
        turn: turn.clone(),
        intent,
        grant: grant.clone(),
        reopen: waited.is_none(),
    };
    let care = AdmissionCare::prepare(session, run.clone(), turn.clone(), grant.clone()).waited(waited);
    let plan =
        Plan::new(move |now| blueprint.ops(now)).arm(move |commit: &Commit, first| care.arm(commit, first));
    let written = session.write(plan).await?;
    let fences = granted(std::slice::from_ref(&grant), &written.receipt, written.first)?;
    let hold = Hold::start(session.workspace().keeper(), base, fences, ttl);
    session.execute(run.clone(), hold.clone());
    Ok(hold)
}

impl Blueprint {
    fn ops(&self, now: Timestamp) -> Result<Vec<Op>> {
        let Self { session, run, turn, intent, grant, reopen } = self;
        let mut ops = vec![Op::AcquireLease(grant.clone())];
        let event = if *reopen {
            ops.push(Op::ReopenRun { session: session.clone(), run: run.clone() });
            ops.push(Op::Append {
                session: session.clone(),
                entries: vec![begin_turn(run, intent.as_ref(), turn, now)?],
            });
            "run_reopened"
        } else {
            ops.push(Op::TransitionRun {
                session: session.clone(),
                run: run.clone(),
                from: WAITING,
                to: RunState::Running,
                error: None,
            });
            "run_resumed"
        };
        ops.push(run_event(session, run, event, now, &TakenUp { turn })?);
        Ok(ops)
    }
}

/// Lets a run wait in a state and gives its lease back.
pub(super) fn wait_ops(
    session: &SessionRef,
    run: &RunId,
    turn: &TurnId,
    state: RunState,
    fences: &[Fence],
    now: Timestamp,
) -> Result<Vec<Op>> {
    let event = match state {
        RunState::WaitingInput => "run_waiting_input",
        _ => "run_waiting_approval",
    };
    let from = RunStates::of(&[RunState::Running]);
    let mut ops = vec![
        Op::TransitionRun { session: session.clone(), run: run.clone(), from, to: state, error: None },
        run_event(session, run, event, now, &TakenUp { turn })?,
    ];
    ops.extend(fences.iter().map(|fence| Op::ReleaseLease { fence: fence.clone() }));
    Ok(ops)
}

/// The newest turn of a run.
pub(crate) async fn turn_of(base: &Base, session: &SessionRef, run: &RunId) -> Result<Option<TurnId>> {
    let mut query = EntryQuery::new(base.workspace().clone(), session.clone());
    query.kinds = vec![EntryKind::new(entry_kind::TURN_START)?];
    query.run = Some(run.clone());
    query.order = Order::Descending;
    query.limit = 1;
    Ok(base.store().entries(&query).await?.items.pop().and_then(|entry| entry.turn))
}
