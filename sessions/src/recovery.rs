//! Recovery: closing the runs that a dead process left behind. By lease first, so that the living are left alone.

use turnkeep_core::commit::{Commit, Fence, Op, Takeover};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryNo, RunId, SessionRef};
use turnkeep_core::model::{
    LeaseKey, LeasePurpose, LeaseState, LeaseView, Liveness, Run, RunState, RunStates, SessionState,
};
use turnkeep_core::mutant;
use turnkeep_core::query::{AudienceFilter, RunQuery, SessionQuery};

use crate::awaitable::awaitable;
use crate::base::{Base, Repeat};
use crate::claims::{self, ClaimRecord};
use crate::lease::{granted, release, session_lease};
use crate::run::close::{Closing, Verdict, closed_by_others};
use crate::run::turn_of;
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
    /// Tool calls whose executor is gone, and that were interrupted. A person may have to say what becomes of them.
    pub claims: Vec<ClaimRecord>,
    /// Unfinished forks and imports whose builder is gone, and that were removed.
    pub removed: Vec<SessionRef>,
    /// Sessions that could not be recovered. The others were.
    pub failed: Vec<(SessionRef, Error)>,
}

impl RecoveryReport {
    /// Whether there was nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.interrupted.is_empty()
            && self.claims.is_empty()
            && self.removed.is_empty()
            && self.failed.is_empty()
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
    interrupt_claims(base, &mut report).await?;
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
    let Some(fences) = take(base, &session, takeover).await? else {
        report.left_alone.push(RunAtWork { session, run: run.id, owner: Liveness::Alive });
        return Ok(None);
    };
    close_under(base, &run, &Verdict::left_behind(), fences, report).await
}

/// Takes the lease of a session to clear up under it. `None` if somebody else has it, or the session is gone.
async fn take(base: &Base, session: &SessionRef, takeover: Takeover) -> Result<Option<Vec<Fence>>> {
    let grant = base.grant(session_lease(session), LeasePurpose::Recovery, base.lease_ttl(), takeover)?;
    let commit = Commit::new(base.workspace().clone())
        .request(base.request_in_session(Repeat::default(), session)?)
        .op(Op::AcquireLease(grant.clone()));
    match base.commit(commit).await {
        Ok(landed) => granted(std::slice::from_ref(&grant), &landed.receipt, 0).map(Some),
        Err(error) if matches!(error.kind(), ErrorKind::LeaseHeld | ErrorKind::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Closes a run under a lease that was taken for it, and gives the lease back whatever happens.
async fn close_under(
    base: &Base,
    run: &Run,
    verdict: &Verdict,
    fences: Vec<Fence>,
    report: &mut RecoveryReport,
) -> Result<Option<Moved>> {
    match close(base, run, verdict, fences.clone()).await {
        Ok(Some((recovered, claims, moved))) => {
            report.interrupted.push(recovered);
            report.claims.extend(claims);
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

/// Interrupts claims that were made under a lease alone, by somebody who is gone.
async fn interrupt_claims(base: &Base, report: &mut RecoveryReport) -> Result<()> {
    for session in claims::sessions_at_work(base).await? {
        match interrupt_claims_of(base, &session).await {
            Ok(claims) => report.claims.extend(claims),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::LeaseLost) => {}
            Err(error) => report.failed.push((session, error)),
        }
    }
    Ok(())
}

async fn interrupt_claims_of(base: &Base, session: &SessionRef) -> Result<Vec<ClaimRecord>> {
    let key = LeaseKey { workspace: base.workspace().clone(), name: session_lease(session) };
    if executor(base.store().lease(&key).await?.as_ref()).is_some() {
        return Ok(Vec::new());
    }
    let Some(fences) = take(base, session, Takeover::IfOwnerDead).await? else { return Ok(Vec::new()) };
    let claims = claims::interrupt_left_behind(base, session, &fences).await?;
    release(base, &fences).await?;
    Ok(claims)
}

/// The session to be taken over from somebody who sleeps or hangs; await it.
#[derive(Debug)]
#[must_use = "nothing is taken over until this is awaited"]
pub struct TakeOver {
    session: Session,
    force: bool,
}

impl Session {
    /// Closes a run whose executor sleeps or hangs, as interrupted, once its lease has expired; recovery leaves it alone
    /// as long as its process lives. Whoever it was is refused when it wakes, and its loss signal fires. Answers the
    /// run; `None` if nobody is at work. A run that waits for a person is not at work.
    ///
    /// # Errors
    /// On await: `LeaseHeld` while the lease has not expired.
    pub fn take_over(&self) -> TakeOver {
        TakeOver { session: self.clone(), force: false }
    }
}

impl TakeOver {
    /// Also from somebody who is at work.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    async fn go(self) -> Result<Option<RecoveredRun>> {
        let base = self.session.workspace().base();
        let session = self.session.session_ref();
        let Some(run) = self.session.runs().list().states(EXECUTED).limit(1).await?.items.pop() else {
            return Ok(None);
        };
        let takeover = if self.force { Takeover::Force } else { Takeover::IfExpired };
        // Whoever is dead needs no expiry.
        let fences = match take(base, session, takeover).await? {
            Some(fences) => Some(fences),
            None => take(base, session, Takeover::IfOwnerDead).await?,
        };
        let Some(fences) = fences else {
            return Err(Error::new(
                ErrorKind::LeaseHeld,
                "somebody is at work on the session, and its lease holds",
            )
            .with("session", &session.id)
            .with("run", &run.id));
        };
        let mut report = RecoveryReport::default();
        let before = self.session.leaf();
        let moved = close_under(base, &run, &Verdict::taken_over(), fences, &mut report).await?;
        if let Some(moved) = moved {
            self.session.advance(before, moved);
        }
        Ok(report.interrupted.pop())
    }
}
awaitable!(TakeOver => Result<Option<RecoveredRun>>);

/// Who executes a run, if somebody does or may.
pub(crate) fn executor(lease: Option<&LeaseView>) -> Option<Liveness> {
    let lease = lease?;
    let gone = lease.state == LeaseState::Released
        || (lease.liveness == Liveness::Dead && !mutant::is("recovery/the-dead-left-alone"))
        || (lease.liveness == Liveness::Unknown && lease.expired);
    let gone = mutant::either("recovery/takes-from-the-living", true, gone);
    (!gone).then_some(lease.liveness)
}

/// Reads the run again under the lease, and closes it if it is still unfinished.
async fn close(
    base: &Base,
    run: &Run,
    verdict: &Verdict,
    fences: Vec<Fence>,
) -> Result<Option<(RecoveredRun, Vec<ClaimRecord>, Moved)>> {
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
        verdict: verdict.clone(),
        drafts: Vec::new(),
        usage: None,
        partial: None,
        tail: None,
        streamed: false,
        claims: Vec::new(),
        fences,
    };
    let closed = match closing.commit(base).await {
        Ok(closed) => closed,
        Err(error) if closed_by_others(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let after = closed.receipt.session(session).and_then(|mark| mark.leaf);
    let kept_partial = closed.kept_partial;
    let recovered = RecoveredRun { session: session.clone(), run: run.id, from: run.state, kept_partial };
    Ok(Some((recovered, closed.claims, Moved { before, after })))
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
