//! The life of runs.

use crate::commit::{NewRun, Outcome, RunPatch};
use crate::error::{Error, ErrorKind, Result};
use crate::id::{RunId, SessionRef};
use crate::model::{Run, RunState, RunStates, Usage};
use crate::mutant;
use crate::payload::Payload;
use crate::rules::{AttemptFact, REOPENABLE, SessionChange, may_follow};

use super::state::State;

pub(super) fn start(state: &mut State<'_>, session: &SessionRef, new: &NewRun) -> Result<Outcome> {
    state.work_on(session)?;
    if state.run(session, &new.id).is_ok() && !mutant::is("runs/started-over-another") {
        return Err(Error::new(ErrorKind::AlreadyExists, "a run with this id is there; it was not touched")
            .with("session", &session.id)
            .with("run", &new.id));
    }
    no_active_run(state, session)?;
    let attempt = next_attempt(state, session, new)?;
    let now = state.stamp.now;
    let row = state.touch(session, SessionChange::Counters)?;
    let number = row.runs.checked_add(1).ok_or_else(|| {
        Error::new(ErrorKind::TooLarge, "the session holds as many runs as it can; fork it to go on")
            .with("session", &session.id)
    })?;
    row.runs = number;
    row.active_run = Some(new.id.clone());
    let run = Run {
        session: session.clone(),
        id: new.id.clone(),
        number,
        state: new.state,
        intent: new.intent.clone(),
        attempt,
        retry_of: new.after.clone(),
        source: new.source.clone(),
        model: new.model.clone(),
        mode: new.mode.clone(),
        work_dir: new.work_dir.clone(),
        created_at: now,
        updated_at: now,
        finished_at: None,
        error: None,
        progress: None,
        context_usage: None,
        usage: Usage::default(),
    };
    state.put_run(run, true);
    Ok(Outcome::Run { number, attempt })
}

pub(super) fn no_active_run(state: &State<'_>, session: &SessionRef) -> Result<()> {
    match &state.active(session)?.active_run {
        None => Ok(()),
        Some(_) if mutant::is("runs/two-active") => Ok(()),
        Some(run) => Err(Error::new(ErrorKind::ActiveRun, "the session has an active run; finish it first")
            .with("session", &session.id)
            .with("run", run)),
    }
}

/// The next attempt at a request, if the caller knows the newest one.
fn next_attempt(state: &mut State<'_>, session: &SessionRef, new: &NewRun) -> Result<u32> {
    let Some(intent) = &new.intent else { return Ok(1) };
    let key = (session.clone(), intent.clone());
    let latest = state.facts.attempts.get(&key);
    if latest.map(|latest| &latest.run) != new.after.as_ref() && !mutant::is("runs/attempt-after-any") {
        let observed = latest.map_or("none", |latest| latest.run.as_str()).to_owned();
        return Err(Error::new(
            ErrorKind::VersionConflict,
            "the newest attempt at this request is another one",
        )
        .with("session", &session.id)
        .with("intent", intent)
        .with("observed", observed));
    }
    let attempt = latest.map_or(0, |latest| latest.attempt).saturating_add(1);
    state.facts.attempts.insert(key, AttemptFact { run: new.id.clone(), attempt });
    Ok(attempt)
}

pub(super) fn transition(
    state: &mut State<'_>,
    session: &SessionRef,
    run: &RunId,
    from: RunStates,
    to: RunState,
    error: Option<&Payload>,
) -> Result<Outcome> {
    state.work_on(session)?;
    let mut row = state.run(session, run)?.clone();
    let named = from.contains(row.state) || mutant::is("runs/from-any-state");
    if !named || !(may_follow(row.state, to) || mutant::is("runs/table-not-asked")) {
        return Err(refused(&row, to));
    }
    row.state = to;
    if let Some(error) = error {
        row.error = Some(error.clone());
    }
    finish(state, session, row)
}

pub(super) fn reopen(state: &mut State<'_>, session: &SessionRef, run: &RunId) -> Result<Outcome> {
    state.work_on(session)?;
    let mut row = state.run(session, run)?.clone();
    if !REOPENABLE.contains(row.state) && !mutant::is("runs/completed-reopened") {
        return Err(refused(&row, RunState::Running));
    }
    if !mutant::is("runs/reopened-beside-another") {
        no_active_run(state, session)?;
    }
    row.state = RunState::Running;
    row.error = None;
    finish(state, session, row)
}

/// Stamps a run whose state moved, and keeps the session's active run in step.
fn finish(state: &mut State<'_>, session: &SessionRef, mut run: Run) -> Result<Outcome> {
    let over = run.state.is_terminal();
    run.updated_at = run.updated_at.max(state.stamp.now);
    run.finished_at = over.then_some(run.updated_at);
    let outcome = Outcome::Run { number: run.number, attempt: run.attempt };
    state.touch(session, SessionChange::Counters)?.active_run =
        (!over || mutant::is("runs/stay-active-when-over")).then(|| run.id.clone());
    state.put_run(run, false);
    Ok(outcome)
}

fn refused(run: &Run, to: RunState) -> Error {
    Error::new(ErrorKind::RunState, "the run is in a state that does not allow this")
        .with("session", &run.session.id)
        .with("run", &run.id)
        .with("observed", run.state.as_str())
        .with("wanted", to.as_str())
}

pub(super) fn patch(
    state: &mut State<'_>,
    session: &SessionRef,
    run: &RunId,
    patch: &RunPatch,
) -> Result<Outcome> {
    state.work_on(session)?;
    let mut row = state.run(session, run)?.clone();
    let RunPatch { error, progress, context_usage, model } = patch;
    if let Some(error) = error {
        row.error.clone_from(error);
    }
    if let Some(progress) = progress {
        row.progress.clone_from(progress);
    }
    if let Some(context_usage) = context_usage {
        row.context_usage.clone_from(context_usage);
    }
    if let Some(model) = model {
        row.model.clone_from(model);
    }
    changed(state, session, row)
}

pub(super) fn add_usage(
    state: &mut State<'_>,
    session: &SessionRef,
    run: Option<&RunId>,
    usage: &Usage,
) -> Result<Outcome> {
    state.work_on(session)?;
    if let Some(run) = run {
        let mut row = state.run(session, run)?.clone();
        row.usage = mutant::either("usage/run-forgets-the-sum", *usage, row.usage.plus(usage));
        changed(state, session, row)?;
    }
    let row = state.touch(session, SessionChange::Counters)?;
    row.usage = row.usage.plus(usage);
    Ok(Outcome::Done)
}

fn changed(state: &mut State<'_>, session: &SessionRef, mut run: Run) -> Result<Outcome> {
    run.updated_at = run.updated_at.max(state.stamp.now);
    state.touch(session, SessionChange::Counters)?;
    state.put_run(run, false);
    Ok(Outcome::Done)
}
