//! What a host appends: messages, and everything else that belongs to the order of a session.

mod kinds;

use turnkeep_core::commit::{NewEntry, OnKey, Parent, RefTarget};
use turnkeep_core::digest::FieldDigest;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryKey, EntryKind, EntryNo, Relation, Role, RunId, TurnId};
use turnkeep_core::model::{Entry, Title, TitleSource, Visibility, entry_kind};
use turnkeep_core::{Payload, Timestamp, mutant};

pub use kinds::{
    BranchSummary, Compaction, Directories, Label, ModeChange, ModelChange, ThinkingLevel, TurnEnd,
    TurnStart, TurnStatus, relation,
};

use crate::message::Message;
use crate::redact::Redaction;

/// An entry to be appended. Made from a [`Message`], one of the typed kinds, or [`Draft::of_kind`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Draft {
    body: Result<Body, Fault>,
    at: Option<Timestamp>,
    key: Option<String>,
    on_key: OnKey,
    visibility: Option<Visibility>,
    text: Option<Option<String>>,
}

/// The first thing wrong with a draft, told when it is appended.
type Fault = std::sync::Arc<Error>;

#[derive(Clone, Debug)]
struct Body {
    kind: EntryKind,
    role: Option<Role>,
    payload: Payload,
    text: Option<String>,
    visibility: Visibility,
    refs: Vec<(Relation, RefTarget)>,
    on_path: bool,
    title: Option<Title>,
}

impl Draft {
    /// An entry of any kind, also one that nobody here knows. The payload is kept byte for byte.
    pub fn of_kind(kind: impl AsRef<str>, payload: Payload) -> Self {
        let kind = mutant::either("drafts/unknown-kind-is-custom", entry_kind::CUSTOM, kind.as_ref());
        Self::from_body(EntryKind::new(kind).map(|kind| Body::new(kind, payload)))
    }

    /// Host data that is not part of the conversation: kind `custom`, for machinery only.
    pub fn custom(payload: Payload) -> Self {
        Self::of_kind(entry_kind::CUSTOM, payload).visibility(Visibility::Internal)
    }

    /// A message of the host that is shown to the model but is no part of the conversation: kind `custom_message`.
    pub fn custom_message(message: &Message) -> Self {
        let body = message.to_new_entry(Timestamp::default()).and_then(|entry| {
            let mut body = Body::new(EntryKind::new(entry_kind::CUSTOM_MESSAGE)?, entry.payload);
            body.role = entry.role;
            body.text = entry.text;
            body.visibility = Visibility::Internal;
            Ok(body)
        });
        Self::from_body(body)
    }

    /// A title of the session, which becomes its display name in the same commit: kind `session_info`.
    pub fn title(text: impl Into<String>, source: TitleSource) -> Self {
        Self::from_body(kinds::title(text.into(), source))
    }

    fn from_body(body: Result<Body>) -> Self {
        let body = body.map_err(std::sync::Arc::new);
        Self { body, at: None, key: None, on_key: OnKey::Refuse, visibility: None, text: None }
    }

    /// When it happened; the time of the append by default.
    pub fn at(mut self, at: Timestamp) -> Self {
        self.at = Some(at);
        self
    }

    /// A key of the host, unique in the session. An entry whose key is taken refuses the append.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// As [`key`](Self::key), but an entry whose key is taken is left out, and its number is that of the one there.
    pub fn key_once(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self.on_key = OnKey::Skip;
        self
    }

    /// Who sees it.
    pub fn visibility(mut self, visibility: Visibility) -> Self {
        self.visibility = Some(visibility);
        self
    }

    /// What search and previews use.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(Some(text.into()));
        self
    }

    /// Whether the leaf stays where it is: the entry then stands beside the path.
    pub(crate) fn beside(mut self) -> Self {
        if let Ok(body) = &mut self.body {
            body.on_path = false;
        }
        self
    }

    /// The key under which a title is to be there once, if it gives the session a display name.
    pub(crate) fn title_once(&self) -> Option<&str> {
        let names = self.on_key == OnKey::Skip && self.session_title().is_some();
        self.key.as_deref().filter(|_| names)
    }

    /// Leaves the display name as it is.
    pub(crate) fn names_nothing(&mut self) {
        if let Ok(body) = &mut self.body {
            body.title = None;
        }
    }

    /// The display name that it gives the session.
    pub(crate) fn session_title(&self) -> Option<&Title> {
        self.body.as_ref().ok().and_then(|body| body.title.as_ref())
    }

    /// The entry as the store takes it.
    pub(crate) fn into_entry(
        self,
        now: Timestamp,
        run: Option<&RunId>,
        turn: Option<&TurnId>,
    ) -> Result<NewEntry> {
        let body = self.body.map_err(|fault| fault.duplicate())?;
        let mut entry = NewEntry::new(body.kind, self.at.unwrap_or(now), body.payload);
        entry.parent = Parent::Leaf;
        if entry.kind.as_str() == entry_kind::COMPACTION && mutant::is("compactions/begin-anew") {
            entry.parent = Parent::Root;
        }
        entry.advance_leaf = body.on_path;
        entry.role = body.role;
        entry.run = run.cloned();
        entry.turn = turn.cloned();
        entry.key = self.key.map(EntryKey::new).transpose()?;
        entry.on_key = self.on_key;
        entry.visibility = self.visibility.unwrap_or(body.visibility);
        entry.refs = mutant::either("drafts/references-dropped", Vec::new(), body.refs);
        entry.text = self.text.unwrap_or(body.text);
        Ok(entry)
    }
}

impl Body {
    fn new(kind: EntryKind, payload: Payload) -> Self {
        Self {
            kind,
            role: None,
            payload,
            text: None,
            visibility: Visibility::Conversation,
            refs: Vec::new(),
            on_path: true,
            title: None,
        }
    }

    fn refers(mut self, relation: &'static str, to: Option<EntryNo>) -> Result<Self> {
        if let Some(to) = to {
            self.refs.push((Relation::new(relation)?, RefTarget::Number(to)));
        }
        Ok(self)
    }
}

impl From<Message> for Draft {
    fn from(message: Message) -> Self {
        Self::from(&message)
    }
}

impl From<&Message> for Draft {
    fn from(message: &Message) -> Self {
        let body = message.to_new_entry(Timestamp::default()).map(|entry| {
            let mut body = Body::new(entry.kind, entry.payload);
            body.role = entry.role;
            body.text = entry.text;
            body.visibility = entry.visibility;
            body
        });
        Self::from_body(body)
    }
}

/// The number that a reference of an entry names.
pub(crate) fn reference(entry: &Entry, relation: &str) -> Option<EntryNo> {
    entry.refs.iter().find(|reference| reference.relation.as_str() == relation).map(|found| found.entry)
}

/// Refuses an entry of another kind than the one asked for.
pub(crate) fn expect_kind(entry: &Entry, kind: &'static str) -> Result<()> {
    if entry.kind.as_str() == kind {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Invalid, format!("the entry is no {kind}"))
        .with("entry", entry.number)
        .with("kind", &entry.kind))
}

/// Adds what a caller means by drafts to a digest, as it is stored: no times, and no ids that were drawn for them.
pub(crate) fn meaning(
    mut digest: FieldDigest,
    drafts: &[Draft],
    redaction: Option<&Redaction>,
) -> Result<FieldDigest> {
    for draft in drafts {
        let mut entry = draft.clone().into_entry(Timestamp::default(), None, None)?;
        if let Some(redaction) = redaction {
            redaction.new_entry(&mut entry)?;
        }
        digest = digest.text(entry.kind.as_str()).maybe(entry.role.as_ref().map(Role::as_str));
        digest = digest.maybe(entry.key.as_ref().map(EntryKey::as_str)).number(entry.visibility as u64);
        digest = digest.text(entry.payload.as_str()).maybe(entry.text.as_deref());
        for (relation, target) in &entry.refs {
            if let RefTarget::Number(number) = target {
                digest = digest.text(relation.as_str()).number(u64::from(number.get()));
            }
        }
    }
    Ok(digest)
}
