//! The operations of a tape.

use serde::{Deserialize, Serialize};
use turnkeep_core::model::{RunState, Visibility};

use super::script::is_default;

/// One life of a session: `a.2` is the second life of the id `a`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Life(pub(crate) String);

impl Life {
    pub(crate) fn new(id: &str, life: u32) -> Self {
        Self(format!("{id}.{life}"))
    }

    /// The session id.
    pub(crate) fn id(&self) -> &str {
        self.0.split('.').next().unwrap_or(&self.0)
    }
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hold {
    Session(Life),
    Named(String),
}

/// An entry: by the label of the line that made it, or by its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Spot {
    No(u32),
    Of(String),
}

/// Which entry a line follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Follows {
    #[default]
    Leaf,
    Root,
    Entry(Spot),
    /// The line at this place of the same append.
    Place(usize),
}

/// What kind of entry a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sort {
    #[default]
    User,
    Assistant,
    /// A label: it lies beside the path.
    Note,
    /// An unfinished text: beside the path, and seen only when asked for.
    Partial,
    /// An entry of the path that is no message.
    Summary,
    /// A message of the path that people do not see.
    Internal,
}

impl Sort {
    pub(crate) fn on_path(self) -> bool {
        !matches!(self, Self::Note | Self::Partial)
    }

    pub(crate) fn visibility(self) -> Visibility {
        match self {
            Self::Partial => Visibility::Partial,
            Self::Internal => Visibility::Internal,
            _ => Visibility::Conversation,
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Note => "label",
            Self::Summary => "compaction",
            _ => "message",
        }
    }

    pub(crate) fn role(self) -> Option<&'static str> {
        match self {
            Self::User => Some("user"),
            Self::Assistant | Self::Partial | Self::Internal => Some("assistant"),
            Self::Note | Self::Summary => None,
        }
    }
}

/// An entry to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Line {
    /// What later steps call it.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) label: Option<String>,
    pub(crate) text: String,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) sort: Sort,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) follows: Follows,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) key: Option<String>,
    /// A taken key leaves the line out instead of refusing the commit.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) skip: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) run: Option<String>,
    /// Entries that it refers to.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) refs: Vec<Spot>,
}

/// What a record must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Expected {
    #[default]
    Any,
    Absent,
    /// At the version that this client saw last; one that never was when it saw none.
    Seen,
    /// At the version that this client saw first.
    Former,
}

/// When a lease may be taken from somebody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Taking {
    #[default]
    Expired,
    Dead,
    Force,
}

/// A condition of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Condition {
    Leaf { session: Life, leaf: Option<Spot> },
    Head { session: Life, head: Option<Spot> },
    Revision { session: Life, revision: u64 },
    NoSession { id: String },
    NoActiveRun { session: Life },
    RunIn { session: Life, run: String, states: Vec<RunState> },
    KeyThere { session: Life, key: String },
    KeyFree { session: Life, key: String },
    Record { collection: String, key: String, expect: Expected },
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Do {
    Create {
        session: Life,
        #[serde(default, skip_serializing_if = "is_default")]
        restoring: bool,
        #[serde(default, skip_serializing_if = "is_default")]
        title: Option<String>,
    },
    Patch {
        session: Life,
        #[serde(default, skip_serializing_if = "is_default")]
        title: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        pinned: Option<bool>,
        #[serde(default, skip_serializing_if = "is_default")]
        archived: Option<bool>,
    },
    Delete {
        session: Life,
        #[serde(default, skip_serializing_if = "is_default")]
        force: bool,
    },
    Append {
        session: Life,
        lines: Vec<Line>,
    },
    MoveLeaf {
        session: Life,
        to: Option<Spot>,
    },
    Start {
        session: Life,
        run: String,
        #[serde(default, skip_serializing_if = "is_default")]
        pending: bool,
        #[serde(default, skip_serializing_if = "is_default")]
        intent: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        after: Option<String>,
    },
    Move {
        session: Life,
        run: String,
        from: Vec<RunState>,
        to: RunState,
        #[serde(default, skip_serializing_if = "is_default")]
        error: bool,
    },
    TakeUp {
        session: Life,
        run: String,
    },
    PatchRun {
        session: Life,
        run: String,
        progress: Option<u32>,
    },
    Usage {
        session: Life,
        run: Option<String>,
        tokens: u64,
    },
    Events {
        session: Life,
        stream: String,
        #[serde(default, skip_serializing_if = "is_default")]
        next: Option<u64>,
        values: Vec<u32>,
    },
    DropEvents {
        session: Life,
        stream: String,
        through: Option<u64>,
        #[serde(default, skip_serializing_if = "is_default")]
        close: bool,
    },
    Put {
        collection: String,
        key: String,
        #[serde(default, skip_serializing_if = "is_default")]
        owner: Option<Life>,
        #[serde(default, skip_serializing_if = "is_default")]
        status: Option<String>,
        #[serde(default, skip_serializing_if = "is_default")]
        expect: Expected,
        value: u32,
    },
    Remove {
        collection: String,
        key: String,
        #[serde(default, skip_serializing_if = "is_default")]
        owner: Option<Life>,
        #[serde(default, skip_serializing_if = "is_default")]
        expect: Expected,
    },
    Acquire {
        lease: Hold,
        /// The secret it is taken with.
        token: u32,
        ttl_ms: u64,
        #[serde(default, skip_serializing_if = "is_default")]
        takeover: Taking,
    },
    Renew {
        lease: Hold,
        ttl_ms: u64,
    },
    Release {
        lease: Hold,
    },
    Copy {
        from: Life,
        to: Life,
        after: Option<u32>,
        through: u32,
    },
    /// Exact entries, from this number on.
    Restore {
        session: Life,
        first: u32,
        lines: Vec<Line>,
    },
    Seal {
        session: Life,
        leaf: Option<u32>,
        /// With a row count that is wrong.
        #[serde(default, skip_serializing_if = "is_default")]
        wrong: bool,
    },
    WhenKey {
        session: Life,
        key: String,
        then: Box<Do>,
    },
}

impl Do {
    /// Every life that it names.
    pub(crate) fn lives(&self) -> Vec<&Life> {
        match self {
            Self::Create { session, .. }
            | Self::Patch { session, .. }
            | Self::Delete { session, .. }
            | Self::Append { session, .. }
            | Self::MoveLeaf { session, .. }
            | Self::Start { session, .. }
            | Self::Move { session, .. }
            | Self::TakeUp { session, .. }
            | Self::PatchRun { session, .. }
            | Self::Usage { session, .. }
            | Self::Events { session, .. }
            | Self::DropEvents { session, .. }
            | Self::Restore { session, .. }
            | Self::Seal { session, .. } => vec![session],
            Self::Put { owner, .. } | Self::Remove { owner, .. } => owner.iter().collect(),
            Self::Acquire { lease, .. } | Self::Renew { lease, .. } | Self::Release { lease } => {
                match lease {
                    Hold::Session(session) => vec![session],
                    Hold::Named(_) => Vec::new(),
                }
            }
            Self::Copy { from, to, .. } => vec![from, to],
            Self::WhenKey { session, then, .. } => {
                let mut lives = then.lives();
                lives.push(session);
                lives
            }
        }
    }

    /// What it is called in a report.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Patch { .. } => "patch",
            Self::Delete { .. } => "delete",
            Self::Append { .. } => "append",
            Self::MoveLeaf { .. } => "move leaf",
            Self::Start { .. } => "start",
            Self::Move { .. } => "move",
            Self::TakeUp { .. } => "take up",
            Self::PatchRun { .. } => "patch run",
            Self::Usage { .. } => "usage",
            Self::Events { .. } => "events",
            Self::DropEvents { .. } => "drop events",
            Self::Put { .. } => "put",
            Self::Remove { .. } => "remove",
            Self::Acquire { .. } => "acquire",
            Self::Renew { .. } => "renew",
            Self::Release { .. } => "release",
            Self::Copy { .. } => "copy",
            Self::Restore { .. } => "restore",
            Self::Seal { .. } => "seal",
            Self::WhenKey { .. } => "when key",
        }
    }
}
