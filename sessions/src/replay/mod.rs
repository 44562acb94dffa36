//! Replay: the messages of a session as a model may be shown them again.
//!
//! [`replay`] reads the path of the leaf backwards until the latest compaction, so its cost follows what is replayed
//! and not the length of the history. [`build`] is the rule itself, a pure function over entries: the summary of the
//! latest compaction comes first, entries of runs that came to nothing are left out, and every tool call is answered
//! exactly once, right after the message that holds it. Stored rows never change. [`provider_valid`] checks a list.
//!
//! [`history`] is the other way to read a session: the conversation as people had it, everything kept.

mod build;
mod check;
mod fetch;
mod history;
mod pairs;

use std::collections::BTreeMap;

use turnkeep_core::id::{EntryNo, RunId};

use crate::message::Message;

pub use build::build;
pub use check::provider_valid;
pub use fetch::replay;
pub use history::{HistoryItem, HistoryQuery, history};

/// What to do with a tool call that nobody answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unanswered {
    /// Answer it in the copy, as interrupted.
    #[default]
    Repair,
    /// Refuse the replay.
    Refuse,
}

/// What to do with the unanswered tool calls of a message that was cut off (its stop reason is `aborted` or `error`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutOff {
    /// The same as with any other unanswered call.
    #[default]
    LikeOthers,
    /// Leave the calls out and keep the words.
    DropCalls,
}

/// How to replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayPolicy {
    /// Calls that nobody answered.
    pub unanswered: Unanswered,
    /// Such calls in messages that were cut off.
    pub cut_off: CutOff,
    /// The run that asks. Its entries are replayed although it is not finished; those of other unfinished runs are not.
    pub own_run: Option<RunId>,
    /// Replays what people said in runs that failed, were cancelled or were interrupted. Never what such runs answered.
    pub failed_input: bool,
    /// Replays messages that are internal, too.
    pub internal: bool,
}

impl ReplayPolicy {
    /// The policy of a run that is at work.
    #[must_use]
    pub fn within(run: RunId) -> Self {
        Self { own_run: Some(run), ..Self::default() }
    }
}

/// Why something was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LeftOutReason {
    /// A message of a run that failed.
    FailedRun,
    /// A message of a run that was cancelled.
    CancelledRun,
    /// A message of a run that was interrupted.
    InterruptedRun,
    /// A message of another run that is not finished.
    UnfinishedRun,
    /// A message for machinery.
    Internal,
    /// Text that was never finished.
    Partial,
    /// A message that says nothing: blank, or thoughts only.
    Empty,
    /// An entry that should be a message and is none.
    Unreadable,
    /// An older compaction, which the latest one stands for.
    OlderCompaction,
    /// An answer to a call that is not there.
    ResultWithoutCall,
    /// A second answer to a call.
    RepeatedResult,
    /// A call whose id occurs earlier in the same message.
    RepeatedCall,
    /// An unanswered call of a message that was cut off, by policy.
    CutOffCall,
    /// A block where no provider takes it: a call by anyone but a model, anything but results in a tool message.
    Misplaced,
}

impl LeftOutReason {
    /// A short name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FailedRun => "failed_run",
            Self::CancelledRun => "cancelled_run",
            Self::InterruptedRun => "interrupted_run",
            Self::UnfinishedRun => "unfinished_run",
            Self::Internal => "internal",
            Self::Partial => "partial",
            Self::Empty => "empty",
            Self::Unreadable => "unreadable",
            Self::OlderCompaction => "older_compaction",
            Self::ResultWithoutCall => "result_without_call",
            Self::RepeatedResult => "repeated_result",
            Self::RepeatedCall => "repeated_call",
            Self::CutOffCall => "cut_off_call",
            Self::Misplaced => "misplaced",
        }
    }
}

/// How much was left out, by reason. Only of what was looked at: what a compaction stands for is not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<LeftOutReason, u32>);

impl LeftOut {
    fn add(&mut self, reason: LeftOutReason) {
        *self.0.entry(reason).or_default() += 1;
    }

    /// How much for this reason.
    #[must_use]
    pub fn count(&self, reason: LeftOutReason) -> u32 {
        self.0.get(&reason).copied().unwrap_or(0)
    }

    /// How much in all.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.0.values().sum()
    }

    /// Every reason that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (LeftOutReason, u32)> {
        self.0.iter().map(|(reason, count)| (*reason, *count))
    }
}

/// A message to be shown to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayMessage {
    /// The entry it comes from; `None` for the answer that stands in for a missing one.
    pub entry: Option<EntryNo>,
    /// The message.
    pub message: Message,
}

/// A session as a model may be shown it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// The messages, in order.
    pub messages: Vec<ReplayMessage>,
    /// The compaction whose summary comes first.
    pub compaction: Option<EntryNo>,
    /// What was left out.
    pub left_out: LeftOut,
    /// Calls that were answered in this copy because nobody had.
    pub repaired: u32,
}

impl Replay {
    /// The messages without their entry numbers.
    #[must_use]
    pub fn to_messages(&self) -> Vec<Message> {
        self.messages.iter().map(|replayed| replayed.message.clone()).collect()
    }
}
