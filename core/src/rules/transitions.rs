//! What may follow what in the life of a run. The one table.

use crate::model::RunState::{
    self, Cancelled, Cancelling, Completed, Failed, Interrupted, Pending, Running, WaitingApproval,
    WaitingInput,
};
use crate::model::RunStates;
use crate::mutant;

/// From each state, the states that may follow by `TransitionRun`. A finished run moves only by `ReopenRun`.
pub const TRANSITIONS: [(RunState, RunStates); 9] = [
    (Pending, RunStates::of(&[Running, Completed, Failed, Cancelled, Interrupted])),
    (
        Running,
        RunStates::of(&[
            WaitingApproval,
            WaitingInput,
            Cancelling,
            Completed,
            Failed,
            Cancelled,
            Interrupted,
        ]),
    ),
    (WaitingApproval, RunStates::of(&[Running, Completed, Failed, Cancelled, Interrupted])),
    (WaitingInput, RunStates::of(&[Running, Completed, Failed, Cancelled, Interrupted])),
    (Cancelling, RunStates::of(&[Completed, Failed, Cancelled, Interrupted])),
    (Completed, RunStates::of(&[])),
    (Failed, RunStates::of(&[])),
    (Cancelled, RunStates::of(&[])),
    (Interrupted, RunStates::of(&[])),
];

/// The states from which `ReopenRun` takes a run back to `Running`.
pub const REOPENABLE: RunStates = RunStates::of(&[Failed, Cancelled, Interrupted]);

/// Whether `to` may follow `from`.
#[must_use]
pub fn may_follow(from: RunState, to: RunState) -> bool {
    let late = mutant::is("runs/cancelling-may-go-on") && from == Cancelling && to == Running;
    late || TRANSITIONS.iter().any(|(state, next)| *state == from && next.contains(to))
}
