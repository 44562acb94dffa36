//! Listing sessions.

use std::path::Path;

use turnkeep_core::error::{Error, Result};
use turnkeep_core::id::SessionId;
use turnkeep_core::model::SessionRow;
use turnkeep_core::query::{AudienceFilter, SessionOrder, SessionQuery};
use turnkeep_core::{Page, mutant};

use super::create::cwd_text;
use crate::awaitable::awaitable;
use crate::paged::paged;
use crate::state;
use crate::workspace::Workspace;

/// A list of sessions; await it. Reads no bodies of entries, unless a text is searched for.
#[derive(Debug)]
#[must_use = "nothing is read until this is awaited"]
pub struct ListSessions {
    workspace: Workspace,
    query: SessionQuery,
    fault: Option<Error>,
}

impl ListSessions {
    pub(super) fn new(workspace: Workspace) -> Self {
        let mut query = SessionQuery::new(workspace.id().clone());
        query.audience = mutant::either("lists/sub-agents-shown", AudienceFilter::Any, query.audience);
        Self { workspace, query, fault: None }
    }

    /// Only those made in this directory. If it exists, symbolic links in it are resolved.
    pub fn cwd(mut self, cwd: impl AsRef<Path>) -> Self {
        match cwd_text(cwd.as_ref()) {
            Ok(text) => self.query.cwd = Some(text),
            Err(error) => self.fault = Some(error),
        }
        self
    }

    /// Only those with this text in id, directory, channel, title or the text of an entry. Wildcards are literal.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.query.text = Some(text.into());
        self
    }

    /// Only those whose id begins so.
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.query.id_prefix = Some(prefix.into());
        self
    }

    /// Only those with at least one message.
    pub fn with_messages(mut self) -> Self {
        self.query.with_messages = !mutant::is("lists/empty-ones-too");
        self
    }

    /// For whom; what a person can continue, by default.
    pub fn audience(mut self, audience: AudienceFilter) -> Self {
        self.query.audience = audience;
        self
    }

    /// Only archived ones, or only others.
    pub fn archived(mut self, archived: bool) -> Self {
        self.query.archived = Some(archived);
        self
    }

    /// Only pinned ones, or only others.
    pub fn pinned(mut self, pinned: bool) -> Self {
        self.query.pinned = Some(pinned);
        self
    }

    /// Only those of a project, by its id. None, if it was deleted.
    pub fn project(mut self, project: impl Into<String>) -> Self {
        self.query.project = Some(project.into());
        self
    }

    /// Only those that came from this session.
    pub fn parent(mut self, parent: SessionId) -> Self {
        self.query.parent = Some(parent);
        self
    }

    /// Passes over this many first.
    pub fn offset(mut self, offset: u64) -> Self {
        self.query.offset = offset;
        self
    }

    /// Counts all that fit, too: the page's `total`.
    pub fn total(mut self) -> Self {
        self.query.total = true;
        self
    }

    /// How many there are.
    ///
    /// # Errors
    /// Whatever the store answers.
    pub async fn count(self) -> Result<u64> {
        let mut counted = self.total().limit(1);
        counted.query.offset = 0;
        counted.query.cursor = None;
        Ok(counted.go().await?.total.unwrap_or(0))
    }

    async fn go(self) -> Result<Page<SessionRow>> {
        if let Some(error) = self.fault {
            return Err(error);
        }
        let base = self.workspace.base();
        if let Some(project) = &self.query.project
            && !state::is_there(base, project).await?
        {
            return Ok(Page { total: self.query.total.then_some(0), ..Page::empty() });
        }
        let mut page = base.store().sessions(&self.query).await?;
        state::forget_deleted(base, &mut page.items).await?;
        Ok(page)
    }
}
paged!(ListSessions.query, SessionOrder: "the one that changed last first");
awaitable!(ListSessions => Result<Page<SessionRow>>);
