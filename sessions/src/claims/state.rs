//! The life of a claim: which state may follow which, and who may claim. The one place.

use serde::{Deserialize, Serialize};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::Status;
use turnkeep_core::mutant;

/// Where the execution of a tool stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimState {
    /// Somebody executes it.
    Running,
    /// Done; the result is kept. Final.
    Completed,
    /// It failed for certain; the error is kept. Final.
    Failed,
    /// Whoever executed it is gone. Nobody knows whether it had an effect.
    Interrupted,
    /// A person wants an interrupted one to be tried again.
    RetryRequested,
    /// A person gave an interrupted one up. Final.
    Abandoned,
}

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It changes something: executing it twice is not the same as once. The default, because it is the safe one.
    #[default]
    SideEffect,
    /// It only looks: an interrupted one may be tried again at once.
    ReadOnly,
}

use ClaimState::{Abandoned, Completed, Failed, Interrupted, RetryRequested, Running};

/// From each state, the states that may follow.
const TRANSITIONS: [(ClaimState, &[ClaimState]); 6] = [
    (Running, &[Completed, Failed, Interrupted]),
    (Completed, &[]),
    (Failed, &[]),
    (Interrupted, &[Running, RetryRequested, Abandoned]),
    (RetryRequested, &[Running, Abandoned]),
    (Abandoned, &[]),
];

impl ClaimState {
    /// Every state.
    pub const ALL: [Self; 6] = [Running, Completed, Failed, Interrupted, RetryRequested, Abandoned];

    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Running => "running",
            Completed => "completed",
            Failed => "failed",
            Interrupted => "interrupted",
            RetryRequested => "retry_requested",
            Abandoned => "abandoned",
        }
    }

    pub(super) fn status(self) -> Result<Status> {
        Status::new(self.as_str())
    }

    pub(super) fn from_status(status: Option<&Status>) -> Result<Self> {
        let found =
            status.and_then(|status| Self::ALL.into_iter().find(|state| state.as_str() == status.as_str()));
        found.ok_or_else(|| Error::new(ErrorKind::Corrupt, "the claim is in a state that is not known"))
    }

    /// Whether it is over for good.
    #[must_use]
    pub fn is_final(self) -> bool {
        !TRANSITIONS.iter().any(|(from, next)| *from == self && !next.is_empty())
    }

    pub(super) fn may_become(self, to: Self) -> bool {
        let undone = mutant::is("claims/completed-can-be-given-up") && self == Completed;
        undone || TRANSITIONS.iter().any(|(from, next)| *from == self && next.contains(&to))
    }
}

/// Whether a claim that is there may be claimed anew: one that changes something only when a person said so.
pub(super) fn may_be_claimed(state: ClaimState, effect: Effect) -> bool {
    match state {
        RetryRequested => true,
        Interrupted => effect == Effect::ReadOnly || mutant::is("claims/side-effect-tried-again"),
        Running => mutant::is("claims/taken-from-the-living"),
        Completed | Failed | Abandoned => false,
    }
}
