//! Retention: old sessions go when somebody asks for it, and only then.

use std::time::Duration;

use serde::Serialize;
use turnkeep_core::Timestamp;
use turnkeep_core::commit::{Commit, Guard, Op};
use turnkeep_core::error::{ErrorKind, Result};
use turnkeep_core::id::SessionId;
use turnkeep_core::model::{LeaseKey, SessionRow};
use turnkeep_core::query::{AudienceFilter, SessionOrder, SessionQuery};

use crate::awaitable::awaitable;
use crate::base::{Repeat, millis};
use crate::lease::session_lease;
use crate::recovery::executor;
use crate::workspace::Workspace;

/// Sessions of one page.
const PAGE: u32 = 500;

/// What may go of a workspace, once somebody asks. Nothing ever goes by itself.
#[derive(Clone, Debug)]
pub struct Retention {
    workspace: Workspace,
}

impl Retention {
    pub(crate) fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }

    /// Sessions that did not change for this long. Await it to learn which would go; nothing is deleted unless
    /// [`apply`](Prune::apply) says so.
    pub fn older_than(&self, age: Duration) -> Prune {
        Prune {
            workspace: self.workspace.clone(),
            age,
            audience: AudienceFilter::User,
            archived: false,
            apply: false,
        }
    }
}

/// Old sessions to be found, and deleted if it is said; await it.
///
/// Pinned sessions stay, however old, and so do those with a run that is not over, and those that somebody is at work
/// on.
#[derive(Clone, Debug)]
#[must_use = "nothing is looked for until this is awaited"]
pub struct Prune {
    workspace: Workspace,
    age: Duration,
    audience: AudienceFilter,
    archived: bool,
    apply: bool,
}

/// A session that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrunedSession {
    /// The session.
    pub session: SessionId,
    /// Its title.
    pub title: Option<String>,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// How many messages it has.
    pub messages: u32,
}

/// What went, or would go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PruneReport {
    /// Whether they are gone; else this is what would go.
    pub applied: bool,
    /// The sessions, by id.
    pub sessions: Vec<PrunedSession>,
    /// Old sessions that stay because they are pinned.
    pub kept_pinned: u64,
    /// Old sessions that stay because a run of them is not over, somebody is at work on them, or they changed just now.
    pub kept_active: u64,
}

impl Prune {
    /// For whom; only what a person can continue, by default.
    pub fn audience(mut self, audience: AudienceFilter) -> Self {
        self.audience = audience;
        self
    }

    /// Only those that were put away.
    pub fn only_archived(mut self) -> Self {
        self.archived = true;
        self
    }

    /// Deletes them, for good.
    pub fn apply(mut self) -> Self {
        self.apply = true;
        self
    }

    async fn go(self) -> Result<PruneReport> {
        let base = self.workspace.base();
        let age = i64::try_from(millis(self.age)).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(base.now().as_millis().saturating_sub(age));
        let mut query = SessionQuery::new(base.workspace().clone());
        query.audience = self.audience;
        query.archived = self.archived.then_some(true);
        // A walk by id misses and repeats nothing while sessions go.
        query.order = SessionOrder::Id;
        query.limit = PAGE;
        let mut report = PruneReport { applied: self.apply, ..PruneReport::default() };
        loop {
            let page = base.store().sessions(&query).await?;
            for row in page.items.into_iter().filter(|row| row.updated_at < before) {
                if row.profile.pinned {
                    report.kept_pinned += 1;
                } else if self.is_at_work(&row).await? || (self.apply && !self.delete(&row).await?) {
                    report.kept_active += 1;
                } else {
                    report.sessions.push(PrunedSession {
                        session: row.id,
                        title: row.profile.title.map(|title| title.text),
                        updated_at: row.updated_at,
                        messages: row.messages,
                    });
                }
            }
            query.cursor = page.next;
            if query.cursor.is_none() {
                return Ok(report);
            }
        }
    }

    /// Whether a run of it is not over, or somebody has its lease and lives.
    async fn is_at_work(&self, row: &SessionRow) -> Result<bool> {
        let base = self.workspace.base();
        let key = LeaseKey { workspace: base.workspace().clone(), name: session_lease(&row.session_ref()) };
        let lease = base.store().lease(&key).await?;
        Ok(row.active_run.is_some() || executor(lease.as_ref()).is_some())
    }

    /// Deletes a session as it was seen; `false` if it has changed since, or somebody is at work on it.
    async fn delete(&self, row: &SessionRow) -> Result<bool> {
        let base = self.workspace.base();
        let session = row.session_ref();
        let commit = Commit::new(base.workspace().clone())
            .request(base.request_in_workspace(Repeat::default(), None)?)
            .guard(Guard::Revision { session: session.clone(), revision: row.revision })
            .op(Op::DeleteSession { session, force: false });
        match base.commit(commit).await {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                ErrorKind::StaleLeaf | ErrorKind::NotFound | ErrorKind::LeaseHeld | ErrorKind::ActiveRun => {
                    Ok(false)
                }
                _ => Err(error),
            },
        }
    }
}
awaitable!(Prune => Result<PruneReport>);
