//! Runs.

use turnkeep_core::commit::{NewRun, RunPatch};
use turnkeep_core::model::{RunState, RunStates, Usage};
use turnkeep_core::{ErrorKind, Payload, RunId, SessionRef};

use super::{Check, Done, Job, Session, Work};

/// The sentence of the design, not the table of the rules: "pending -> running <-> waiting_approval | waiting_input;
/// running -> cancelling; any of these -> completed | failed | cancelled | interrupted".
pub(crate) fn allowed(from: RunState, to: RunState) -> bool {
    use RunState::{Cancelling, Pending, Running, WaitingApproval, WaitingInput};
    if from.is_terminal() {
        return false;
    }
    to.is_terminal()
        || matches!(
            (from, to),
            (Pending | WaitingApproval | WaitingInput, Running)
                | (Running, WaitingApproval | WaitingInput | Cancelling)
        )
}

fn find<'s>(session: &'s mut Session, run: &RunId) -> Check<(u32, &'s mut Job)> {
    let place = session.runs.iter().position(|known| known.id == *run).ok_or(ErrorKind::NotFound)?;
    Ok((u32::try_from(place + 1).unwrap(), &mut session.runs[place]))
}

impl Work<'_> {
    pub(super) fn start(&mut self, session: &SessionRef, new: &NewRun) -> Check<Done> {
        self.exclusive(session)?;
        let row = self.active(session)?;
        if row.runs.iter().any(|run| run.id == new.id) {
            return Err(ErrorKind::AlreadyExists);
        }
        if row.active_run().is_some() {
            return Err(ErrorKind::ActiveRun);
        }
        let tries = || row.runs.iter().filter(|run| run.intent.is_some() && run.intent == new.intent);
        if new.intent.is_some() && tries().next_back().map(|run| &run.id) != new.after.as_ref() {
            return Err(ErrorKind::VersionConflict);
        }
        let attempt = u32::try_from(tries().count() + 1).unwrap();
        let row = self.change(session)?;
        row.runs.push(Job {
            id: new.id.clone(),
            state: new.state,
            intent: new.intent.clone(),
            attempt,
            retry_of: new.after.clone(),
            finished: false,
            error: None,
            progress: None,
            model: new.model.clone(),
            usage: Usage::default(),
        });
        Ok(Done::Run(u32::try_from(row.runs.len()).unwrap(), attempt))
    }

    pub(super) fn transition(
        &mut self,
        session: &SessionRef,
        run: &RunId,
        from: RunStates,
        to: RunState,
        error: Option<&Payload>,
    ) -> Check<Done> {
        self.exclusive(session)?;
        let (_, job) = find(self.active(session)?, run)?;
        if !from.contains(job.state) || !allowed(job.state, to) {
            return Err(ErrorKind::RunState);
        }
        let (number, job) = find(self.change(session)?, run)?;
        (job.state, job.finished) = (to, to.is_terminal());
        if error.is_some() {
            job.error = error.cloned();
        }
        Ok(Done::Run(number, job.attempt))
    }

    pub(super) fn reopen(&mut self, session: &SessionRef, run: &RunId) -> Check<Done> {
        self.exclusive(session)?;
        let row = self.active(session)?;
        let busy = row.active_run().is_some();
        let (_, job) = find(row, run)?;
        if !matches!(job.state, RunState::Failed | RunState::Cancelled | RunState::Interrupted) {
            return Err(ErrorKind::RunState);
        }
        if busy {
            return Err(ErrorKind::ActiveRun);
        }
        let (number, job) = find(self.change(session)?, run)?;
        (job.state, job.finished, job.error) = (RunState::Running, false, None);
        Ok(Done::Run(number, job.attempt))
    }

    pub(super) fn patch_run(&mut self, session: &SessionRef, run: &RunId, patch: &RunPatch) -> Check<Done> {
        self.exclusive(session)?;
        find(self.active(session)?, run)?;
        let (_, job) = find(self.change(session)?, run)?;
        if let Some(error) = &patch.error {
            job.error.clone_from(error);
        }
        if let Some(progress) = &patch.progress {
            job.progress.clone_from(progress);
        }
        if let Some(model) = &patch.model {
            job.model.clone_from(model);
        }
        Ok(Done::Plain)
    }

    pub(super) fn usage(&mut self, session: &SessionRef, run: Option<&RunId>, usage: &Usage) -> Check<Done> {
        self.exclusive(session)?;
        if let Some(run) = run {
            let (_, job) = find(self.active(session)?, run)?;
            job.usage = sum(&job.usage, usage);
        }
        let row = self.change(session)?;
        row.usage = sum(&row.usage, usage);
        Ok(Done::Plain)
    }
}

/// The tape uses two of the counters.
fn sum(a: &Usage, b: &Usage) -> Usage {
    let most = i64::MAX as u64;
    Usage {
        requests: a.requests + b.requests,
        output_tokens: most.min(a.output_tokens.saturating_add(b.output_tokens)),
        ..Usage::default()
    }
}
