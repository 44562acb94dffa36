//! Entries: the conversation and everything else that belongs to its order.

use serde::{Deserialize, Serialize};

use crate::id::{EntryKey, EntryKind, EntryNo, Relation, Role, RunId, TurnId};
use crate::payload::Payload;
use crate::time::Timestamp;

/// The entry kinds that turnkeep itself writes. Any other kind is kept and given back.
pub mod entry_kind {
    /// A conversation message.
    pub const MESSAGE: &str = "message";
    /// A summary that stands for everything before its first kept entry.
    pub const COMPACTION: &str = "compaction";
    /// The model was changed.
    pub const MODEL_CHANGE: &str = "model_change";
    /// The mode was changed.
    pub const MODE_CHANGE: &str = "mode_change";
    /// The thinking level was changed.
    pub const THINKING_LEVEL_CHANGE: &str = "thinking_level_change";
    /// The complete set of additional directories.
    pub const ADDITIONAL_DIRECTORIES: &str = "additional_directories";
    /// A summary of the branch that was left.
    pub const BRANCH_SUMMARY: &str = "branch_summary";
    /// Host data that is not part of the conversation.
    pub const CUSTOM: &str = "custom";
    /// Host data that is shown to the model.
    pub const CUSTOM_MESSAGE: &str = "custom_message";
    /// A label on another entry.
    pub const LABEL: &str = "label";
    /// A title of the session.
    pub const SESSION_INFO: &str = "session_info";
    /// The beginning of a turn.
    pub const TURN_START: &str = "turn_start";
    /// The end of a turn.
    pub const TURN_END: &str = "turn_end";
    /// The header of an imported session.
    pub const SESSION: &str = "session";
}

/// The roles that turnkeep itself writes. Any other role is kept and given back.
pub mod role {
    /// Instructions.
    pub const SYSTEM: &str = "system";
    /// A person.
    pub const USER: &str = "user";
    /// A model.
    pub const ASSISTANT: &str = "assistant";
    /// The result of a tool call.
    pub const TOOL: &str = "tool";
}

/// Who sees an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Part of the conversation as people know it.
    #[default]
    Conversation,
    /// For models and machinery: summaries, boundaries, provider data.
    Internal,
    /// Unfinished text that is shown but never replayed.
    Partial,
}

/// A set of visibilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VisibilitySet(u8);

impl VisibilitySet {
    /// Everything.
    pub const ALL: Self = Self(0b111);
    /// The committed history: everything but partials.
    pub const COMMITTED: Self = Self(0b011);

    /// Just one.
    #[must_use]
    pub const fn only(visibility: Visibility) -> Self {
        Self(1 << visibility as u8)
    }

    /// The set and one more.
    #[must_use]
    pub const fn with(self, visibility: Visibility) -> Self {
        Self(self.0 | 1 << visibility as u8)
    }

    /// Whether `visibility` is in the set.
    #[must_use]
    pub const fn contains(self, visibility: Visibility) -> bool {
        self.0 & (1 << visibility as u8) != 0
    }
}

/// A typed reference to another entry of the same session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// What the other entry is to this one: `first_kept`, `label_target`, …
    pub relation: Relation,
    /// The other entry.
    pub entry: EntryNo,
}

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, which is its id.
    pub number: EntryNo,
    /// The entry it follows; `None` at a root.
    pub parent: Option<EntryNo>,
    /// Whether it lies on a path. Labels and partials stand beside it.
    pub on_path: bool,
    /// What it is.
    pub kind: EntryKind,
    /// Who speaks.
    pub role: Option<Role>,
    /// The run that wrote it.
    pub run: Option<RunId>,
    /// The turn it belongs to.
    pub turn: Option<TurnId>,
    /// The host's key, unique in the session.
    pub key: Option<EntryKey>,
    /// Who sees it.
    pub visibility: Visibility,
    /// When it happened, as the caller says.
    pub at: Timestamp,
    /// References to other entries.
    pub refs: Vec<Reference>,
    /// What search and previews use.
    pub text: Option<String>,
    /// The content, byte for byte.
    pub payload: Payload,
}
