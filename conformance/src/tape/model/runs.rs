//! Runs.

use turnkeep_core::ErrorKind;
use turnkeep_core::model::RunState;

use super::{Check, Made, Run, Session, Work};
use crate::tape::ops::Life;

/// As the specification says it, not as the table of the rules: pending and waiting runs begin to run; a running one
/// waits or is being cancelled; whatever is not over can end in any way.
fn may_become(from: RunState, to: RunState) -> bool {
    use RunState::{Cancelling, Pending, Running, WaitingApproval, WaitingInput};
    if from.is_terminal() {
        return false;
    }
    if to.is_terminal() {
        return true;
    }
    match to {
        Running => matches!(from, Pending | WaitingApproval | WaitingInput),
        WaitingApproval | WaitingInput | Cancelling => from == Running,
        _ => false,
    }
}

fn find<'s>(session: &'s mut Session, run: &str) -> Check<&'s mut Run> {
    session.runs.iter_mut().find(|known| known.id == run).ok_or(ErrorKind::NotFound)
}

impl Work {
    pub(super) fn start(
        &mut self,
        life: &Life,
        id: &str,
        pending: bool,
        intent: Option<&String>,
        after: Option<&String>,
    ) -> Check<Made<u64>> {
        self.exclusive(life)?;
        self.untouched_by_copies(life)?;
        let row = self.active(life)?;
        if row.runs.iter().any(|run| run.id == id) {
            return Err(ErrorKind::AlreadyExists);
        }
        if row.active_run().is_some() {
            return Err(ErrorKind::ActiveRun);
        }
        let mut attempt = 1;
        if intent.is_some() {
            let tries = row.runs.iter().filter(|run| run.intent.as_ref() == intent);
            let newest = tries.max_by_key(|run| run.attempt);
            if newest.map(|run| &run.id) != after {
                return Err(ErrorKind::VersionConflict);
            }
            attempt = newest.map_or(0, |run| run.attempt) + 1;
        }
        let now = self.model.now;
        let row = self.change(life)?;
        row.run_head += 1;
        let number = row.run_head;
        row.runs.push(Run {
            id: id.to_owned(),
            number,
            state: if pending { RunState::Pending } else { RunState::Running },
            intent: intent.cloned(),
            attempt,
            retry_of: after.cloned(),
            created_at: now,
            updated_at: now,
            finished_at: None,
            error: false,
            progress: None,
            tokens: 0,
        });
        Ok(Made::Run { number, attempt })
    }

    /// The run of exclusive work, after its session has moved.
    fn touch_run(&mut self, life: &Life, id: &str) -> Check<&mut Run> {
        let now = self.model.now;
        let run = find(self.change(life)?, id)?;
        run.updated_at = run.updated_at.max(now);
        Ok(run)
    }

    pub(super) fn transition(
        &mut self,
        life: &Life,
        id: &str,
        from: &[RunState],
        to: RunState,
        error: bool,
    ) -> Check<Made<u64>> {
        self.exclusive(life)?;
        self.untouched_by_copies(life)?;
        let state = find(self.active(life)?, id)?.state;
        if !from.contains(&state) || !may_become(state, to) {
            return Err(ErrorKind::RunState);
        }
        let run = self.touch_run(life, id)?;
        run.state = to;
        run.error |= error;
        run.finished_at = to.is_terminal().then_some(run.updated_at);
        Ok(Made::Run { number: run.number, attempt: run.attempt })
    }

    pub(super) fn take_up(&mut self, life: &Life, id: &str) -> Check<Made<u64>> {
        self.exclusive(life)?;
        self.untouched_by_copies(life)?;
        let state = find(self.active(life)?, id)?.state;
        if !matches!(state, RunState::Failed | RunState::Cancelled | RunState::Interrupted) {
            return Err(ErrorKind::RunState);
        }
        if self.active(life)?.active_run().is_some() {
            return Err(ErrorKind::ActiveRun);
        }
        let run = self.touch_run(life, id)?;
        (run.state, run.error, run.finished_at) = (RunState::Running, false, None);
        Ok(Made::Run { number: run.number, attempt: run.attempt })
    }

    pub(super) fn patch_run(&mut self, life: &Life, id: &str, progress: Option<u32>) -> Check<Made<u64>> {
        self.exclusive(life)?;
        self.untouched_by_copies(life)?;
        find(self.active(life)?, id)?;
        self.touch_run(life, id)?.progress = progress;
        Ok(Made::Plain)
    }

    pub(super) fn usage(&mut self, life: &Life, run: Option<&String>, tokens: u64) -> Check<Made<u64>> {
        self.exclusive(life)?;
        self.untouched_by_copies(life)?;
        if let Some(id) = run {
            find(self.active(life)?, id)?;
            let run = self.touch_run(life, id)?;
            run.tokens = sum(run.tokens, tokens);
        }
        let row = self.change(life)?;
        row.tokens = sum(row.tokens, tokens);
        Ok(Made::Plain)
    }
}

/// Counters stop at the largest signed number.
fn sum(a: u64, b: u64) -> u64 {
    a.saturating_add(b).min(i64::MAX.unsigned_abs())
}
