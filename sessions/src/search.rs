//! Searching what was said.

use turnkeep_core::Page;
use turnkeep_core::error::Result;
use turnkeep_core::id::{EntryKind, Role};
use turnkeep_core::model::{VisibilitySet, entry_kind};
use turnkeep_core::query::{AudienceFilter, SearchHit, SearchQuery};

use crate::awaitable::awaitable;
use crate::paged::paged;
use crate::session::Session;
use crate::workspace::Workspace;

/// A ranked search over the words of a workspace; await it. [`SearchQuery`] says what fits and in which order.
///
/// Text is literal: `C++`, quotes and `AND` are looked for as they stand. By default everything that was said, but
/// unfinished text, in the sessions that people can continue.
#[derive(Debug)]
#[must_use = "nothing is read until this is awaited"]
pub struct Search {
    workspace: Workspace,
    query: SearchQuery,
}

impl Search {
    pub(crate) fn new(workspace: Workspace, text: String) -> Self {
        let query = SearchQuery::new(workspace.id().clone(), text);
        Self { workspace, query }
    }

    /// Only in this session, whoever it is for.
    pub fn session(mut self, session: &Session) -> Self {
        self.query.session = Some(session.session_ref().clone());
        self
    }

    /// In sessions for these.
    pub fn audience(mut self, audience: AudienceFilter) -> Self {
        self.query.audience = audience;
        self
    }

    /// Only messages: no summaries, labels or the like.
    pub fn messages_only(self) -> Self {
        match EntryKind::new(entry_kind::MESSAGE) {
            Ok(kind) => self.kind(kind),
            Err(_) => self,
        }
    }

    /// Only entries of this kind; may be said several times.
    pub fn kind(mut self, kind: EntryKind) -> Self {
        self.query.kinds.push(kind);
        self
    }

    /// Only what this role said; may be said several times.
    pub fn role(mut self, role: Role) -> Self {
        self.query.roles.push(role);
        self
    }

    /// Only what these may see.
    pub fn visibility(mut self, visibility: VisibilitySet) -> Self {
        self.query.visibility = visibility;
        self
    }

    async fn go(self) -> Result<Page<SearchHit>> {
        self.workspace.base().store().search(&self.query).await
    }
}
paged!(Search.query);
awaitable!(Search => Result<Page<SearchHit>>);
