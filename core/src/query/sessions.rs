//! Listing sessions.

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::id::{SessionId, WorkspaceId};
use crate::model::{Audience, Profile, SessionRow, SessionState};
use crate::mutant;
use crate::query::{Cursor, DEFAULT_LIMIT};

/// Which audiences to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum AudienceFilter {
    /// What a person can continue.
    #[default]
    User,
    /// Sessions of sub-agents.
    SubAgent,
    /// Both.
    Any,
}

impl AudienceFilter {
    /// Whether a session for this audience is listed.
    #[must_use]
    pub fn admits(self, audience: Audience) -> bool {
        match self {
            Self::User => audience == Audience::User,
            Self::SubAgent => audience == Audience::SubAgent,
            Self::Any => true,
        }
    }
}

/// The order of a list of sessions. Each is total: ties are broken by id, bytewise ascending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum SessionOrder {
    /// The one that changed last comes first. A session touched meanwhile may be missed by a walk, never repeated.
    #[default]
    RecentFirst,
    /// By id, bytewise ascending. A walk misses and repeats nothing that stays.
    Id,
}

/// Which sessions to list. Every filter narrows; texts are literal, without wildcards.
#[derive(Clone, Debug, Serialize)]
pub struct SessionQuery {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// In use (the default) or being built.
    pub state: SessionState,
    /// For whom.
    pub audience: AudienceFilter,
    /// Made in exactly this working directory.
    pub cwd: Option<String>,
    /// With an id that begins with this, bytewise.
    pub id_prefix: Option<String>,
    /// With this text in id, directory, channel, title, or the text of an entry. ASCII letters match in either case.
    pub text: Option<String>,
    /// With at least one conversation message.
    pub with_messages: bool,
    /// Archived or not.
    pub archived: Option<bool>,
    /// Pinned or not.
    pub pinned: Option<bool>,
    /// Of this project.
    pub project: Option<String>,
    /// Coming from this session.
    pub parent: Option<SessionId>,
    /// The order.
    pub order: SessionOrder,
    /// Sessions to pass over before the first; for numbered pages. Not together with a cursor.
    pub offset: u64,
    /// Count all that fit, too.
    pub total: bool,
    /// At most this many.
    #[serde(skip)]
    pub limit: u32,
    /// Where to go on.
    #[serde(skip)]
    pub cursor: Option<Cursor>,
}

impl SessionQuery {
    /// The newest sessions of a workspace that a person can continue.
    #[must_use]
    pub fn new(workspace: WorkspaceId) -> Self {
        Self {
            workspace,
            state: SessionState::Active,
            audience: AudienceFilter::User,
            cwd: None,
            id_prefix: None,
            text: None,
            with_messages: false,
            archived: None,
            pinned: None,
            project: None,
            parent: None,
            order: SessionOrder::RecentFirst,
            offset: 0,
            total: false,
            limit: DEFAULT_LIMIT,
            cursor: None,
        }
    }

    /// Where the page begins, for backends: beyond this activity number, 0 in the order by id, and this id.
    ///
    /// # Errors
    /// `Invalid` for an offset and a cursor at once, and for a cursor that is not of this query.
    pub fn position(&self) -> Result<Option<(u64, SessionId)>> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        if self.offset > 0 {
            return Err(Error::new(ErrorKind::Invalid, "give an offset or a cursor, not both"));
        }
        cursor.open(self).map(Some)
    }

    /// The cursor after a session, for backends.
    ///
    /// # Errors
    /// `Invalid` when the query has no JSON form.
    pub fn cursor_after(&self, last: &SessionRow) -> Result<Cursor> {
        let activity = if self.order == SessionOrder::Id { 0 } else { last.activity };
        // A page that began at an offset is continued by its cursor alone.
        Cursor::seal(&Self { offset: 0, ..self.clone() }, &(activity, &last.id))
    }

    /// Whether what callers say of a session fits.
    #[must_use]
    pub fn admits(&self, profile: &Profile) -> bool {
        self.audience.admits(profile.audience)
            && (self.cwd.is_none() || profile.cwd == self.cwd)
            && self.archived.is_none_or(|archived| {
                profile.archived == archived || mutant::is("lists/archived-not-compared")
            })
            && self.pinned.is_none_or(|pinned| profile.pinned == pinned)
            && (self.project.is_none() || profile.project == self.project)
            && (self.parent.is_none() || profile.parent == self.parent)
    }
}
