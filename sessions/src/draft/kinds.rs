//! The typed entry kinds beside messages. Fields that are not known here stay in the entry's payload.

use serde::{Deserialize, Serialize};
use turnkeep_core::error::Result;
use turnkeep_core::id::{EntryKind, EntryNo, RunId};
use turnkeep_core::model::{Entry, Title, TitleSource, Visibility, entry_kind};
use turnkeep_core::{Payload, id::IntentId, mutant};

use super::{Body, Draft, expect_kind, reference};

/// The relations between entries that turnkeep writes.
pub mod relation {
    /// From a compaction: the first entry that replay keeps.
    pub const FIRST_KEPT: &str = "first_kept";
    /// From a compaction: the compaction before it.
    pub const PREVIOUS_COMPACTION: &str = "previous_compaction";
    /// From a compaction: the last entry that its summary covers.
    pub const LAST_SUMMARIZED: &str = "last_summarized";
    /// From a branch summary: the end of the branch that was left.
    pub const BRANCH_SOURCE: &str = "branch_source";
    /// From a label: the entry that it names.
    pub const LABEL_TARGET: &str = "label_target";
}

/// A typed kind: how it becomes an entry, and back.
macro_rules! kind {
    ($type:ident, $kind:path, $visibility:ident) => {
        impl From<$type> for Draft {
            fn from(value: $type) -> Self {
                Self::from_body(value.body())
            }
        }

        impl $type {
            /// Reads it from an entry.
            ///
            /// # Errors
            /// `Invalid` when the entry is of another kind or its payload does not fit.
            pub fn from_entry(entry: &Entry) -> Result<Self> {
                expect_kind(entry, $kind)?;
                let value: Self = entry.payload.parse()?;
                Ok(value.with_references(entry))
            }

            fn plain(&self) -> Result<Body> {
                let mut body = Body::new(EntryKind::new($kind)?, Payload::from_value(self)?);
                body.visibility = Visibility::$visibility;
                Ok(body)
            }
        }
    };
}

/// A summary that stands for what came before its first kept entry. Nothing is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// What the model reads instead.
    pub summary: String,
    /// The first entry that replay keeps.
    #[serde(skip)]
    pub first_kept: Option<EntryNo>,
    /// The compaction before it.
    #[serde(skip)]
    pub previous: Option<EntryNo>,
    /// The last entry that the summary covers.
    #[serde(skip)]
    pub last_summarized: Option<EntryNo>,
    /// Tokens of the context before.
    #[serde(default)]
    pub tokens_before: u64,
    /// The version of the summary's form, as the host counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_version: Option<u32>,
}

impl Compaction {
    /// A summary of everything before `first_kept`.
    #[must_use]
    pub fn new(summary: impl Into<String>, first_kept: EntryNo) -> Self {
        Self {
            summary: summary.into(),
            first_kept: Some(first_kept),
            previous: None,
            last_summarized: None,
            tokens_before: 0,
            summary_version: None,
        }
    }

    fn body(&self) -> Result<Body> {
        let mut body = self.plain()?;
        body.text = Some(without_nul(&self.summary));
        body.refers(relation::FIRST_KEPT, self.first_kept)?
            .refers(relation::PREVIOUS_COMPACTION, self.previous)?
            .refers(relation::LAST_SUMMARIZED, self.last_summarized)
    }

    fn with_references(mut self, entry: &Entry) -> Self {
        self.first_kept = reference(entry, relation::FIRST_KEPT);
        self.previous = reference(entry, relation::PREVIOUS_COMPACTION);
        self.last_summarized = reference(entry, relation::LAST_SUMMARIZED);
        self
    }
}
kind!(Compaction, entry_kind::COMPACTION, Internal);

/// A summary of the branch that was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchSummary {
    /// What happened there.
    pub summary: String,
    /// The end of that branch.
    #[serde(skip)]
    pub from: Option<EntryNo>,
}

impl BranchSummary {
    /// A summary of the branch that ends at `from`.
    #[must_use]
    pub fn new(summary: impl Into<String>, from: EntryNo) -> Self {
        Self { summary: summary.into(), from: Some(from) }
    }

    fn body(&self) -> Result<Body> {
        let mut body = self.plain()?;
        body.text = Some(without_nul(&self.summary));
        body.refers(relation::BRANCH_SOURCE, self.from)
    }

    fn with_references(mut self, entry: &Entry) -> Self {
        self.from = reference(entry, relation::BRANCH_SOURCE);
        self
    }
}
kind!(BranchSummary, entry_kind::BRANCH_SUMMARY, Internal);

/// The model was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChange {
    /// Who serves it.
    pub provider: String,
    /// The model.
    pub model: String,
}

impl ModelChange {
    /// A model of a provider.
    #[must_use]
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }

    fn body(&self) -> Result<Body> {
        self.plain()
    }

    fn with_references(self, _: &Entry) -> Self {
        self
    }
}
kind!(ModelChange, entry_kind::MODEL_CHANGE, Internal);

/// The mode was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChange {
    /// The mode.
    pub mode: String,
}

impl ModeChange {
    /// A mode.
    #[must_use]
    pub fn new(mode: impl Into<String>) -> Self {
        Self { mode: mode.into() }
    }

    fn body(&self) -> Result<Body> {
        self.plain()
    }

    fn with_references(self, _: &Entry) -> Self {
        self
    }
}
kind!(ModeChange, entry_kind::MODE_CHANGE, Internal);

/// The thinking level was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThinkingLevel {
    /// The level.
    pub level: String,
}

impl ThinkingLevel {
    /// A level.
    #[must_use]
    pub fn new(level: impl Into<String>) -> Self {
        Self { level: level.into() }
    }

    fn body(&self) -> Result<Body> {
        self.plain()
    }

    fn with_references(self, _: &Entry) -> Self {
        self
    }
}
kind!(ThinkingLevel, entry_kind::THINKING_LEVEL_CHANGE, Internal);

/// The complete, ordered set of additional directories; it replaces the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directories {
    /// The directories.
    pub directories: Vec<String>,
}

impl Directories {
    /// A complete set.
    #[must_use]
    pub fn new<S: Into<String>>(directories: impl IntoIterator<Item = S>) -> Self {
        Self { directories: directories.into_iter().map(Into::into).collect() }
    }

    fn body(&self) -> Result<Body> {
        self.plain()
    }

    fn with_references(self, _: &Entry) -> Self {
        self
    }
}
kind!(Directories, entry_kind::ADDITIONAL_DIRECTORIES, Internal);

/// A label on another entry. It stands beside the path, so that it moves no leaf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The label; `None` takes it away.
    pub label: Option<String>,
    /// The entry that it names.
    #[serde(skip)]
    pub target: Option<EntryNo>,
}

impl Label {
    /// A label on `target`.
    #[must_use]
    pub fn new(target: EntryNo, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), target: Some(target) }
    }

    /// Takes the label of `target` away.
    #[must_use]
    pub fn clear(target: EntryNo) -> Self {
        Self { label: None, target: Some(target) }
    }

    fn body(&self) -> Result<Body> {
        let mut body = self.plain()?;
        body.on_path = mutant::is("drafts/label-moves-the-leaf");
        body.text = self.label.as_deref().map(without_nul);
        body.refers(relation::LABEL_TARGET, self.target)
    }

    fn with_references(mut self, entry: &Entry) -> Self {
        self.target = reference(entry, relation::LABEL_TARGET);
        self
    }
}
kind!(Label, entry_kind::LABEL, Internal);

/// The beginning of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStart {
    /// The run that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The accepted request behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<IntentId>,
}

impl TurnStart {
    fn body(&self) -> Result<Body> {
        self.plain()
    }

    fn with_references(self, _: &Entry) -> Self {
        self
    }
}
kind!(TurnStart, entry_kind::TURN_START, Internal);

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// Answered.
    Completed,
    /// By an error.
    Failed,
    /// By a person.
    Cancelled,
    /// Left unfinished.
    Incomplete,
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// How it ended.
    pub status: TurnStatus,
    /// Why, as the provider or the host says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
}

impl TurnEnd {
    fn body(&self) -> Result<Body> {
        self.plain()
    }

    fn with_references(self, _: &Entry) -> Self {
        self
    }
}
kind!(TurnEnd, entry_kind::TURN_END, Internal);

#[derive(Serialize)]
struct TitlePayload<'a> {
    title: &'a str,
    source: TitleSource,
}

pub(super) fn title(text: String, source: TitleSource) -> Result<Body> {
    let payload = Payload::from_value(&TitlePayload { title: &text, source })?;
    let mut body = Body::new(EntryKind::new(entry_kind::SESSION_INFO)?, payload);
    body.visibility = Visibility::Internal;
    body.text = Some(without_nul(&text));
    body.title = Some(Title { text, source });
    Ok(body)
}

/// Text columns hold no NUL character; the payload keeps it.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
