//! Runs: one execution of an agent each.

use serde::{Deserialize, Serialize};

use crate::id::{IntentId, RunId, SessionRef};
use crate::model::Usage;
use crate::payload::Payload;
use crate::time::Timestamp;

/// Where a run stands. `rules::transitions` holds the table of what may follow what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Admitted, not started.
    Pending,
    /// At work.
    Running,
    /// Waiting for a person to approve.
    WaitingApproval,
    /// Waiting for a person's input.
    WaitingInput,
    /// Asked to stop.
    Cancelling,
    /// Done; its answer is in the history.
    Completed,
    /// Ended by an error; its input is kept and not replayed.
    Failed,
    /// Stopped by a person.
    Cancelled,
    /// Left behind by a process that died or gave up.
    Interrupted,
}

impl RunState {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Running,
        Self::WaitingApproval,
        Self::WaitingInput,
        Self::Cancelling,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Interrupted,
    ];

    /// Whether the run is over.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Interrupted)
    }

    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::WaitingApproval => "waiting_approval",
            Self::WaitingInput => "waiting_input",
            Self::Cancelling => "cancelling",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    /// The state of a stored name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// A set of run states.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunStates(u16);

impl RunStates {
    /// Every state.
    pub const ALL: Self = Self::of(&RunState::ALL);
    /// The states of a run that is not over.
    pub const ACTIVE: Self = Self::of(&[
        RunState::Pending,
        RunState::Running,
        RunState::WaitingApproval,
        RunState::WaitingInput,
        RunState::Cancelling,
    ]);
    /// The states of a run that is over.
    pub const TERMINAL: Self =
        Self::of(&[RunState::Completed, RunState::Failed, RunState::Cancelled, RunState::Interrupted]);

    /// The set of `states`.
    #[must_use]
    pub const fn of(states: &[RunState]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < states.len() {
            bits |= 1 << states[at] as u16;
            at += 1;
        }
        Self(bits)
    }

    /// Whether `state` is in the set.
    #[must_use]
    pub const fn contains(self, state: RunState) -> bool {
        self.0 & (1 << state as u16) != 0
    }

    /// The states of the set.
    pub fn iter(self) -> impl Iterator<Item = RunState> {
        RunState::ALL.into_iter().filter(move |state| self.contains(*state))
    }
}

impl std::fmt::Debug for RunStates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter().map(RunState::as_str)).finish()
    }
}

/// A run as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The session.
    pub session: SessionRef,
    /// The id, unique in the session.
    pub id: RunId,
    /// Its place among the runs of the session, from 1.
    pub number: u32,
    /// Where it stands.
    pub state: RunState,
    /// The accepted request it tries to fulfil.
    pub intent: Option<IntentId>,
    /// Which attempt at that request, from 1.
    pub attempt: u32,
    /// The attempt before it.
    pub retry_of: Option<RunId>,
    /// Where the request came from.
    pub source: Option<String>,
    /// The model asked for.
    pub model: Option<String>,
    /// The mode.
    pub mode: Option<String>,
    /// The working directory.
    pub work_dir: Option<String>,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it ended, structured, as the host gives it.
    pub error: Option<Payload>,
    /// How far it is, as the host gives it.
    pub progress: Option<Payload>,
    /// How full the context window is, as the host gives it.
    pub context_usage: Option<Payload>,
    /// What it consumed.
    pub usage: Usage,
}
