//! What a tape says: a small vocabulary over the contract, with names instead of numbers, so that a step keeps its
//! meaning when others are taken out.

use serde::{Deserialize, Serialize};

use super::look::Look;
use super::ops::{Condition, Do, Hold, Life};

/// The version of the form that tapes are written in.
pub(crate) const VERSION: u32 = 1;

/// Who plays a tape, and so what is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Player {
    /// One step after the other: every answer and every read is the model's.
    Sequential,
    /// The clients of a round at once: some order of their steps explains all answers and what is stored.
    Concurrent,
    /// As sequential, but everything before the kill in another process, which is killed there.
    Killed,
}

/// A whole run of the suite against a store, as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tape {
    /// The version of this form.
    pub(crate) version: u32,
    /// The clause that drew it.
    pub(crate) clause: String,
    /// What it was drawn from.
    pub(crate) seed: u64,
    /// Who plays it.
    pub(crate) player: Player,
    /// How many clients open the store.
    pub(crate) clients: u32,
    /// What happens, in order.
    pub(crate) steps: Vec<Step>,
}

/// One thing that one client does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Which client.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) client: u32,
    /// What it does.
    pub(crate) act: Act,
}

/// What a client does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Act {
    /// Makes a commit.
    Commit(Change),
    /// Reads.
    Look(Look),
    /// Store time passes, in milliseconds; backwards too.
    Clock(i64),
    /// The client closes its handle and opens another one.
    Reopen,
    /// Deleted sessions are purged, where the store does that on demand.
    Purge,
    /// The process that played until here is killed: once the step before was acknowledged, or while it is made.
    Kill(Moment),
    /// All clients wait for each other. What is stored is compared here.
    Meet,
}

/// When a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Moment {
    /// After the acknowledgement of the step before.
    Acknowledged,
    /// While the step before is under way: so many microseconds after it began.
    UnderWay(u32),
}

/// A commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Change {
    /// The request id, and the life that it is unique in; else the workspace.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) request: Option<Asked>,
    /// Leases that this client believes to hold.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) fences: Vec<Hold>,
    /// What must be so.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) guards: Vec<Condition>,
    /// What to do.
    pub(crate) ops: Vec<Do>,
    /// The future is dropped after so many polls: the commit is whole or absent.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) dropped: Option<u32>,
}

/// A request id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) within: Option<Life>,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Tape {
    /// As text that a person can read: one step a line.
    pub(crate) fn to_json(&self) -> String {
        let head = serde_json::json!({
            "version": self.version, "clause": self.clause, "seed": self.seed,
            "player": self.player, "clients": self.clients,
        });
        let head = head.to_string();
        let steps: Vec<String> = self.steps.iter().map(|step| format!("  {}", line(step))).collect();
        format!("{},\n \"steps\": [\n{}\n ]}}\n", head.trim_end_matches('}'), steps.join(",\n"))
    }

    /// A tape from its text.
    pub(crate) fn from_json(text: &str) -> Result<Self, String> {
        let tape: Self = serde_json::from_str(text).map_err(|error| format!("this is no tape: {error}"))?;
        if tape.version != VERSION {
            return Err(format!("the tape has version {}; this suite plays version {VERSION}", tape.version));
        }
        if tape.clients == 0 || tape.clients > 64 {
            return Err(format!("a tape has 1 to 64 clients, not {}", tape.clients));
        }
        Ok(tape)
    }
}

/// A step on one line.
pub(crate) fn line(step: &Step) -> String {
    serde_json::to_string(step).unwrap_or_else(|error| format!("{{\"unwritable\":{:?}}}", error.to_string()))
}
