//! Ranked full-text search: a capability.
//!
//! What fits, and how well, is decided by the text of an entry alone, so that every backend gives the same hits in the
//! same order, with an index or without one: `needle.rs` has the rule, `words.rs` says what a word is.

mod best;
mod needle;
mod snippet;
mod words;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use best::{BestHits, HitPlace};
pub use needle::{Fit, Found, Needle, Term};
pub use words::words_of;

use crate::id::{EntryKind, EntryNo, Role, SessionRef, WorkspaceId};
use crate::model::{Visibility, VisibilitySet};
use crate::query::{AudienceFilter, Cursor, DEFAULT_LIMIT};
use crate::time::Timestamp;

/// What to search for. The text is literal: no operator in it means anything.
///
/// The text is split at white space into terms, and an entry fits when its text has every one of them, in either case.
/// A term counts where a word begins: `pars` is found in `parser`, and `arse` is not. Terms whose last word is shorter
/// than three characters must end with a word too. A text of white space alone finds nothing.
///
/// Ranking, best first: entries that have the words as whole words, one after another; those that have all terms as
/// whole words; those where a term is only the beginning of a word. Among equals the session that was made last comes
/// first, and in a session its newest entry.
#[derive(Clone, Debug, Serialize)]
pub struct SearchQuery {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The words; at most [`COLUMN_BYTES`](crate::limits::COLUMN_BYTES) long.
    pub text: String,
    /// Only in this session, whoever it is for; `NotFound` if this life of it is over.
    pub session: Option<SessionRef>,
    /// Only in sessions for these.
    pub audience: AudienceFilter,
    /// Only these kinds of entries; empty means all.
    pub kinds: Vec<EntryKind>,
    /// Only these roles; empty means all, also entries without one.
    pub roles: Vec<Role>,
    /// Only what these may see.
    pub visibility: VisibilitySet,
    /// At most this many.
    #[serde(skip)]
    pub limit: u32,
    /// Where to go on.
    #[serde(skip)]
    pub cursor: Option<Cursor>,
}

impl SearchQuery {
    /// Everything in the sessions of a workspace that people can continue, but partials, that has these words.
    #[must_use]
    pub fn new(workspace: WorkspaceId, text: impl Into<String>) -> Self {
        Self {
            workspace,
            text: text.into(),
            session: None,
            audience: AudienceFilter::User,
            kinds: Vec::new(),
            roles: Vec::new(),
            visibility: VisibilitySet::COMMITTED,
            limit: DEFAULT_LIMIT,
            cursor: None,
        }
    }

    /// Whether an entry fits every filter but the text. The one place that says what the filters mean.
    #[must_use]
    pub fn admits(&self, kind: &EntryKind, role: Option<&Role>, visibility: Visibility) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(kind))
            && (self.roles.is_empty() || role.is_some_and(|role| self.roles.contains(role)))
            && self.visibility.contains(visibility)
    }

    /// Whether the sessions of an audience are searched.
    #[must_use]
    pub fn admits_audience(&self, audience: crate::model::Audience) -> bool {
        self.session.is_some() || self.audience.admits(audience)
    }
}

/// An entry that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchHit {
    /// The session.
    pub session: SessionRef,
    /// The entry.
    pub entry: EntryNo,
    /// What it is.
    pub kind: EntryKind,
    /// Who speaks.
    pub role: Option<Role>,
    /// When it happened, as the caller said.
    pub at: Timestamp,
    /// Higher fits better. Says the class of the ranking; hits of one class are ordered by age.
    pub score: f64,
    /// The text around the hit, on one line; `…` stands where something was left out.
    pub snippet: String,
    /// The places of the terms in the snippet, as ranges of bytes, ascending.
    pub marks: Vec<Range<usize>>,
}
