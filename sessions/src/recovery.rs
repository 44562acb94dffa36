//! Recovery: closing the runs that a dead process left behind. By lease first, so that the living are left alone.

use turnkeep_core::commit::{Commit, Op, Takeover};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryKind, EntryNo, RunId, SessionRef, TurnId};
use turnkeep_core::model::{
    LeaseKey, LeasePurpose, LeaseState, LeaseView, Liveness, Run, RunState, RunStates, SessionState,
    entry_kind,
};
use turnkeep_core::mutant;
use turnkeep_core::query::{AudienceFilter, EntryQuery, Order, RunQuery, SessionQuery};

use crate::base::{Base, Repeat};
use crate::lease::{granted, release, session_lease};
use crate::run::close::{Closing, Verdict, closed_by_others};
use crate::session::Session;

/// The states of a run that somebody must be executing. Runs that wait for a person hold no lease and are no orphans.
const EXECUTED: RunStates = RunStates::of(&[RunState::Pending, RunState::Running, RunState::Cancelling]);

/// How long a session may be under construction without a builder before it is removed, in milliseconds.
const ABANDONED_MS: i64 = 24 * 60 * 60 * 1000;

/// What recovery did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Runs that were closed as interrupted.
    pub interrupted: Vec<RecoveredRun>,
    /// Runs that are executed by a living or merely stopped process, or may be.
    pub left_alone: Vec<RunAtWork>,
    /// Unfinished forks and imports whose builder is gone, and that were removed.
    pub removed: Vec<SessionRef>,
    /// Sessions that could not be recovered. The others were.
    pub failed: Vec<(SessionRef, Error)>,
}

impl RecoveryReport {
    /// Whether there was nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.interrupted.is_empty() && self.removed.is_empty() && self.failed.is_empty()
    }
}

/// A run that was closed as interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredRun {
    /// Its session.
    pub session: SessionRef,
    /// The run.
    pub run: RunId,
    /// Where it stood.
    pub from: RunState,
    /// Whether text that was streamed was kept for display.
    pub kept_partial: bool,
}

/// A run that was left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAtWork {
    /// Its session.
    pub session: SessionRef,
    /// The run.
    pub run: RunId,
    /// What is known of its owner.
    pub owner: Liveness,
}

/// Whether a refusal may come from what a dead process left behind.
pub(crate) fn may_help(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ActiveRun | ErrorKind::LeaseHeld)
}

/// Closes what dead processes left behind in the whole workspace.
pub(crate) async fn recover(base: &Base) -> Result<RecoveryReport> {
    let mut report = RecoveryReport::default();
    let mut query = RunQuery::new(base.workspace().clone());
    query.states = EXECUTED;
    let mut orphans = Vec::new();
    loop {
        let page = base.store().runs(&query).await?;
        orphans.extend(page.items);
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => break,
        }
    }
    for run in orphans {
        let session = run.session.clone();
        if let Err(error) = recover_run(base, run, &mut report).await {
            report.failed.push((session, error));
        }
    }
    remove_abandoned(base, &mut report).await?;
    Ok(report)
}

/// Closes what a dead process left behind in one session. Answers the leaf before and after, if something was closed.
pub(crate) async fn recover_session(base: &Base, session: &SessionRef) -> Result<Option<Moved>> {
    let mut query = RunQuery::new(base.workspace().clone());
    query.session = Some(session.clone());
    query.states = EXECUTED;
    query.limit = 1;
    let Some(run) = base.store().runs(&query).await?.items.pop() else { return Ok(None) };
    let mut report = RecoveryReport::default();
    recover_run(base, run, &mut report).await
}

/// Closes what a dead process left behind in the way of a run to be begun. `refused` comes back if nothing of the kind
/// is in the way; a lease that is merely held may still turn out to be a dead owner's.
pub(crate) async fn clear_the_way(session: &Session, refused: Error) -> Result<()> {
    let before = session.leaf();
    match recover_session(session.workspace().base(), session.session_ref()).await? {
        Some(moved) => session.advance(before, moved),
        None if refused.kind() == ErrorKind::LeaseHeld => {}
        None => return Err(refused),
    }
    Ok(())
}

/// How a recovery moved the leaf of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) before: Option<EntryNo>,
    pub(crate) after: Option<EntryNo>,
}

async fn recover_run(base: &Base, run: Run, report: &mut RecoveryReport) -> Result<Option<Moved>> {
    let session = run.session.clone();
    let name = session_lease(&session);
    let key = LeaseKey { workspace: base.workspace().clone(), name: name.clone() };
    if let Some(owner) = executor(base.store().lease(&key).await?.as_ref()) {
        report.left_alone.push(RunAtWork { session, run: run.id, owner });
        return Ok(None);
    }
    let takeover = mutant::either("recovery/takes-from-the-living", Takeover::Force, Takeover::IfOwnerDead);
    let grant = base.grant(name, LeasePurpose::Recovery, base.lease_ttl(), takeover)?;
    let commit = Commit::new(base.workspace().clone())
        .request(base.request_in_session(Repeat::default(), &session)?)
        .op(Op::AcquireLease(grant.clone()));
    let landed = match base.commit(commit).await {
        Ok(landed) => landed,
        // Somebody else was faster: it is theirs now, or gone.
        Err(error) if error.kind() == ErrorKind::LeaseHeld => {
            report.left_alone.push(RunAtWork { session, run: run.id, owner: Liveness::Alive });
            return Ok(None);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let fences = granted(std::slice::from_ref(&grant), &landed.receipt, 0)?;
    let closed = close(base, &run, fences.clone()).await;
    match closed {
        Ok(Some((recovered, moved))) => {
            report.interrupted.push(recovered);
            Ok(Some(moved))
        }
        Ok(None) => {
            release(base, &fences).await?;
            Ok(None)
        }
        Err(error) => {
            // The error matters more than whether the lease could be given back; it expires.
            let _ = release(base, &fences).await;
            Err(error)
        }
    }
}

/// Who executes a run, if somebody does or may.
pub(crate) fn executor(lease: Option<&LeaseView>) -> Option<Liveness> {
    let lease = lease?;
    let gone = lease.state == LeaseState::Released
        || lease.liveness == Liveness::Dead
        || (lease.liveness == Liveness::Unknown && lease.expired);
    let gone = mutant::either("recovery/takes-from-the-living", true, gone);
    (!gone).then_some(lease.liveness)
}

/// Reads the run again under the lease, and closes it if it is still unfinished.
async fn close(
    base: &Base,
    run: &Run,
    fences: Vec<turnkeep_core::Fence>,
) -> Result<Option<(RecoveredRun, Moved)>> {
    let session = &run.session;
    let mut query = RunQuery::new(base.workspace().clone());
    query.session = Some(session.clone());
    query.id = Some(run.id.clone());
    query.states = EXECUTED;
    query.limit = 1;
    let Some(run) = base.store().runs(&query).await?.items.pop() else { return Ok(None) };
    let key = turnkeep_core::SessionKey { workspace: base.workspace().clone(), id: session.id.clone() };
    let before = base.store().session(&key).await?.and_then(|row| row.path.leaf);
    let closing = Closing {
        session: session.clone(),
        run: run.id.clone(),
        turn: turn_of(base, session, &run.id).await?,
        verdict: Verdict::left_behind(),
        drafts: Vec::new(),
        usage: None,
        partial: None,
        tail: None,
        streamed: false,
        fences,
    };
    let (receipt, kept_partial) = match closing.commit(base).await {
        Ok(closed) => closed,
        Err(error) if closed_by_others(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let after = receipt.session(session).and_then(|mark| mark.leaf);
    let recovered = RecoveredRun { session: session.clone(), run: run.id, from: run.state, kept_partial };
    Ok(Some((recovered, Moved { before, after })))
}

async fn turn_of(base: &Base, session: &SessionRef, run: &RunId) -> Result<Option<TurnId>> {
    let mut query = EntryQuery::new(base.workspace().clone(), session.clone());
    query.kinds = vec![EntryKind::new(entry_kind::TURN_START)?];
    query.run = Some(run.clone());
    query.order = Order::Descending;
    query.limit = 1;
    Ok(base.store().entries(&query).await?.items.pop().and_then(|entry| entry.turn))
}

/// Removes sessions whose fork or import was given up by a builder that is gone.
async fn remove_abandoned(base: &Base, report: &mut RecoveryReport) -> Result<()> {
    let mut query = SessionQuery::new(base.workspace().clone());
    query.state = SessionState::Restoring;
    query.audience = AudienceFilter::Any;
    loop {
        let page = base.store().sessions(&query).await?;
        for row in &page.items {
            let session = row.session_ref();
            let key = LeaseKey { workspace: base.workspace().clone(), name: session_lease(&session) };
            let lease = base.store().lease(&key).await?;
            // A restored row keeps the times of its source, so the lease says when the builder last worked.
            let since = lease.as_ref().map_or(row.updated_at, |lease| lease.expires_at);
            if executor(lease.as_ref()).is_some() || base.now().since_ms(since) < ABANDONED_MS {
                continue;
            }
            match remove(base, &session).await {
                Ok(true) => report.removed.push(session),
                Ok(false) => {}
                Err(error) => report.failed.push((session, error)),
            }
        }
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return Ok(()),
        }
    }
}

async fn remove(base: &Base, session: &SessionRef) -> Result<bool> {
    let name = session_lease(session);
    let grant = base.grant(name, LeasePurpose::Recovery, base.lease_ttl(), Takeover::IfOwnerDead)?;
    let commit = Commit::new(base.workspace().clone())
        .request(base.request_in_workspace(Repeat::default(), None)?)
        .op(Op::AcquireLease(grant))
        .op(Op::DeleteSession { session: session.clone(), force: false });
    match base.commit(commit).await {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::LeaseHeld | ErrorKind::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}
