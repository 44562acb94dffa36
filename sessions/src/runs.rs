//! Reading runs: of one session, or of all of a workspace.

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{IntentId, RecordKey, RunId};
use turnkeep_core::model::{Event, Run, RunStates, collection, stream};
use turnkeep_core::query::{EventQuery, Order, RunQuery};
use turnkeep_core::{Page, mutant};

use crate::awaitable::awaitable;
use crate::paged::paged;
use crate::run::Intent;
use crate::session::Session;
use crate::state::records;
use crate::workspace::Workspace;

/// The runs of a session.
#[derive(Clone, Debug)]
pub struct Runs {
    session: Session,
}

/// The runs of a workspace.
#[derive(Clone, Debug)]
pub struct WorkspaceRuns {
    workspace: Workspace,
}

/// A list of runs; await it.
#[derive(Debug)]
#[must_use = "nothing is read until this is awaited"]
pub struct ListRuns {
    workspace: Workspace,
    query: RunQuery,
    stored: bool,
}

impl WorkspaceRuns {
    pub(crate) fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }

    /// Runs of all sessions, by session id, the newest of each first.
    pub fn list(&self) -> ListRuns {
        let mut query = RunQuery::new(self.workspace.id().clone());
        query.order = Order::Descending;
        ListRuns { workspace: self.workspace.clone(), query, stored: true }
    }

    /// Runs that are not over: at work, waiting, or left behind.
    pub fn active(&self) -> ListRuns {
        self.list().states(RunStates::ACTIVE)
    }
}

impl Runs {
    pub(crate) fn new(session: Session) -> Self {
        Self { session }
    }

    fn query(&self) -> RunQuery {
        let mut query = RunQuery::new(self.session.workspace().id().clone());
        query.session = Some(self.session.session_ref().clone());
        query.order = Order::Descending;
        query
    }

    /// The runs of the session, the newest first.
    pub fn list(&self) -> ListRuns {
        let stored = self.session.is_stored();
        ListRuns { workspace: self.session.workspace().clone(), query: self.query(), stored }
    }

    /// A run.
    ///
    /// # Errors
    /// `NotFound` when the session has none with this id.
    pub async fn get(&self, id: &RunId) -> Result<Run> {
        let mut query = self.query();
        query.id = Some(id.clone());
        query.limit = 1;
        let found = self.session.workspace().base().store().runs(&query).await?.items.into_iter().next();
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "the session has no run with this id")
                .with("session", self.session.id())
                .with("run", id)
        })
    }

    /// The run that is not over; a session has at most one.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn active(&self) -> Result<Option<Run>> {
        let mut list = self.list().states(RunStates::ACTIVE).limit(1).await?;
        Ok(list.items.pop())
    }

    /// The newest attempt at a request.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn latest_attempt(&self, intent: &IntentId) -> Result<Option<Run>> {
        let mut list = self.list();
        list.query.intent = Some(intent.clone());
        Ok(list.limit(1).await?.items.pop())
    }

    /// The accepted request behind a run or its attempts, as it was when it came in. A fork has runs of the session that
    /// it came from; their requests are there as long as that session is.
    ///
    /// # Errors
    /// `NotFound` when no run of the session is an attempt at it, or it is gone.
    pub async fn intent(&self, id: &IntentId) -> Result<Intent> {
        let base = self.session.workspace().base();
        let found = records::by_key(base, collection::INTENTS, RecordKey::new(id.as_str())?).await?;
        match found {
            Some(record)
                if record.owner.as_ref() == Some(self.session.session_ref())
                    || self.latest_attempt(id).await?.is_some() =>
            {
                Intent::from_record(&record)
            }
            _ => Err(Error::new(ErrorKind::NotFound, "the session has no request with this id")
                .with("session", self.session.id())
                .with("intent", id)),
        }
    }

    /// What happened to the runs of the session, in order. Only events above `after`, to go on from a known place.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn events(&self, after: Option<u64>, limit: u32) -> Result<Page<Event>> {
        self.session.events(stream::RUNS, |query| (query.after, query.limit) = (after, limit)).await
    }

    /// What happened to one run, in order.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn events_of(&self, run: &RunId, after: Option<u64>, limit: u32) -> Result<Page<Event>> {
        let narrow = |query: &mut EventQuery| {
            query.run = Some(run.clone());
            (query.after, query.limit) = (after, limit);
        };
        self.session.events(stream::RUNS, narrow).await
    }

    /// The number of the newest event; 0 before the first.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn latest_event(&self) -> Result<u64> {
        self.session.newest_event(stream::RUNS).await
    }
}

impl ListRuns {
    /// Only in these states.
    pub fn states(mut self, states: RunStates) -> Self {
        self.query.states = states;
        self
    }

    /// Only attempts at this request.
    pub fn intent(mut self, intent: IntentId) -> Self {
        self.query.intent = Some(intent);
        self
    }

    async fn go(self) -> Result<Page<Run>> {
        if !self.stored || mutant::is("runs/not-listed") {
            return Ok(Page::empty());
        }
        self.workspace.base().store().runs(&self.query).await
    }
}
paged!(ListRuns.query, Order: "the newest of each session first");
awaitable!(ListRuns => Result<Page<Run>>);
