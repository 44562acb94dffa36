//! Reading, always to the end and always bounded, and comparing before with after.

use std::time::Duration;

use turnkeep_core::id::StreamName;
use turnkeep_core::model::{
    Entry, Event, LeaseKey, LeaseName, LeaseView, Liveness, Record, Row, Run, SessionRow, VisibilitySet,
};
use turnkeep_core::query::{
    AudienceFilter, EntryQuery, EventQuery, Mark, RecordQuery, RowQuery, RunQuery, Scope, SessionOrder,
    SessionQuery,
};
use turnkeep_core::{SessionKey, SessionRef};

use super::{Kit, name};
use crate::verdict::{Outcome, Stop};

/// No walk of the suite takes more pages than this.
const MOST_PAGES: usize = 20_000;

/// Walks a query to its end.
macro_rules! walk {
    ($kit:ident.$read:ident($query:expr)) => {{
        let mut query = $query;
        let mut items = Vec::new();
        let mut pages = 0;
        loop {
            let page = $kit.store.$read(&query).await?;
            items.extend(page.items);
            pages += 1;
            match page.next {
                None => break Ok(items),
                // A page that ends where the one before it ended is followed by itself, for ever.
                next if pages == MOST_PAGES || next == query.cursor => {
                    break Err(Stop::fail(concat!("a walk over ", stringify!($read), " does not end")));
                }
                next => query.cursor = next,
            }
        }
    }};
}

impl Kit {
    /// Every entry of a session, partials too.
    pub(crate) fn every_entry(&self, session: &SessionRef) -> EntryQuery {
        let mut query = EntryQuery::new(self.workspace.clone(), session.clone());
        query.visibility = VisibilitySet::ALL;
        query
    }

    /// The committed entries of a session.
    pub(crate) fn committed(&self, session: &SessionRef) -> EntryQuery {
        EntryQuery::new(self.workspace.clone(), session.clone())
    }

    /// Every session of the workspace, newest first.
    pub(crate) fn list(&self) -> SessionQuery {
        SessionQuery { audience: AudienceFilter::Any, ..SessionQuery::new(self.workspace.clone()) }
    }

    /// Every session of the workspace, by id.
    pub(crate) fn list_by_id(&self) -> SessionQuery {
        SessionQuery { order: SessionOrder::Id, ..self.list() }
    }

    /// A stream of a session.
    pub(crate) fn stream(&self, session: &SessionRef, stream: &str) -> EventQuery {
        EventQuery::new(self.workspace.clone(), session.clone(), name::<StreamName>(stream))
    }

    /// A collection of the workspace.
    pub(crate) fn collection(&self, collection: &str) -> RecordQuery {
        RecordQuery::new(self.workspace.clone(), name(collection))
    }

    /// The runs of a session.
    pub(crate) fn runs_of(&self, session: &SessionRef) -> RunQuery {
        RunQuery { session: Some(session.clone()), ..RunQuery::new(self.workspace.clone()) }
    }

    /// Everything of a session.
    pub(crate) fn rows_of(&self, session: &SessionRef) -> RowQuery {
        RowQuery::session(self.workspace.clone(), session.clone())
    }

    pub(crate) async fn walk(&self, query: EntryQuery) -> Outcome<Vec<Entry>> {
        walk!(self.entries(query))
    }

    pub(crate) async fn sessions(&self, query: SessionQuery) -> Outcome<Vec<SessionRow>> {
        walk!(self.sessions(query))
    }

    pub(crate) async fn runs(&self, query: RunQuery) -> Outcome<Vec<Run>> {
        walk!(self.runs(query))
    }

    pub(crate) async fn events(&self, query: EventQuery) -> Outcome<Vec<Event>> {
        walk!(self.events(query))
    }

    pub(crate) async fn records(&self, query: RecordQuery) -> Outcome<Vec<Record>> {
        walk!(self.records(query))
    }

    pub(crate) async fn rows(&self, query: RowQuery) -> Outcome<Vec<Row>> {
        walk!(self.rows(query))
    }

    /// The committed entries of a session.
    pub(crate) async fn entries(&self, session: &SessionRef) -> Outcome<Vec<Entry>> {
        self.walk(self.committed(session)).await
    }

    /// The texts of the committed entries.
    pub(crate) async fn texts(&self, session: &SessionRef) -> Outcome<Vec<String>> {
        Ok(self.entries(session).await?.into_iter().map(|entry| entry.text.unwrap_or_default()).collect())
    }

    /// The ids of a list of sessions.
    pub(crate) async fn ids(&self, query: SessionQuery) -> Outcome<Vec<String>> {
        Ok(self.sessions(query).await?.into_iter().map(|row| row.id.as_str().to_owned()).collect())
    }

    /// A session by its id, if it is there.
    pub(crate) async fn find(&self, id: &str) -> Outcome<Option<SessionRow>> {
        let key = SessionKey { workspace: self.workspace.clone(), id: name(id) };
        Ok(self.store.session(&key).await?)
    }

    /// A session that must be there, by its id.
    pub(crate) async fn there(&self, id: &str) -> Outcome<SessionRef> {
        let row = self.find(id).await?;
        row.map(|row| row.session_ref()).ok_or_else(|| Stop::fail(format!("session {id} is not there")))
    }

    /// A session that must be there, in this very life.
    pub(crate) async fn row(&self, session: &SessionRef) -> Outcome<SessionRow> {
        match self.find(session.id.as_str()).await? {
            Some(row) if row.incarnation == session.incarnation => Ok(row),
            Some(_) => Err(Stop::fail(format!("session {session} reads with another incarnation"))),
            None => Err(Stop::fail(format!("session {session} is not there"))),
        }
    }

    /// A record by its key, if it is there.
    pub(crate) async fn record(&self, collection: &str, key: &str) -> Outcome<Option<Record>> {
        let query = RecordQuery { key: Some(name(key)), ..self.collection(collection) };
        Ok(self.records(query).await?.into_iter().next())
    }

    /// A run by its id, if it is there.
    pub(crate) async fn find_run(&self, session: &SessionRef, id: &str) -> Outcome<Option<Run>> {
        let query = RunQuery { id: Some(name(id)), ..self.runs_of(session) };
        Ok(self.runs(query).await?.into_iter().next())
    }

    /// The lease of a session.
    pub(crate) async fn lease(&self, session: &SessionRef) -> Outcome<Option<LeaseView>> {
        self.lease_named(LeaseName::Session(session.clone())).await
    }

    pub(crate) async fn lease_named(&self, lease: LeaseName) -> Outcome<Option<LeaseView>> {
        let key = LeaseKey { workspace: self.workspace.clone(), name: lease };
        Ok(self.store.lease(&key).await?)
    }

    /// Waits until the owner of a session's lease is known to be dead: a handle that was dropped may end a moment
    /// later, on a thread of its own.
    pub(crate) async fn until_dead(&self, session: &SessionRef) -> Outcome {
        for _ in 0..500 {
            if self.lease(session).await?.is_some_and(|lease| lease.liveness == Liveness::Dead) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(Stop::fail(format!("the owner of the lease on {session} went away and still counts as living")))
    }

    /// The mark of a session.
    pub(crate) async fn mark(&self, session: &SessionRef) -> Outcome<Mark> {
        let scope = Scope::Session { workspace: self.workspace.clone(), session: session.clone() };
        Ok(self.store.changes(&scope, Mark::START).await?)
    }

    /// The mark of the workspace.
    pub(crate) async fn workspace_mark(&self) -> Outcome<Mark> {
        Ok(self.store.changes(&Scope::Workspace(self.workspace.clone()), Mark::START).await?)
    }

    /// All that can be read of the workspace: every session with every row and lease, and the marks.
    pub(crate) async fn snapshot(&self) -> Outcome<Snapshot> {
        let mut sessions = Vec::new();
        for row in self.sessions(self.list_by_id()).await? {
            let session = row.session_ref();
            let rows = self.rows(self.rows_of(&session)).await?;
            let lease = self.lease(&session).await?.map(|lease| (lease.epoch, lease.state, lease.expires_at));
            sessions.push((row, rows, lease));
        }
        let unowned = self.rows(RowQuery::unowned(self.workspace.clone())).await?;
        Ok(Snapshot { sessions, unowned, mark: self.workspace_mark().await? })
    }

    /// Fails unless nothing that can be read differs from a snapshot.
    pub(crate) async fn unchanged(&self, before: &Snapshot, what: &str) -> Outcome {
        let now = self.snapshot().await?;
        ensure_eq!(now.sessions.len(), before.sessions.len(), "{what} changed the number of sessions");
        for ((row, rows, lease), (old_row, old_rows, old_lease)) in now.sessions.iter().zip(&before.sessions)
        {
            ensure_eq!(row, old_row, "{what} changed session {}", old_row.id);
            ensure_eq!(rows.len(), old_rows.len(), "{what} changed the number of rows of {}", old_row.id);
            for (row, old) in rows.iter().zip(old_rows) {
                ensure_eq!(row, old, "{what} changed a row of {}", old_row.id);
            }
            ensure_eq!(lease, old_lease, "{what} changed the lease of {}", old_row.id);
        }
        ensure_eq!(now.unowned, before.unowned, "{what} changed records that nobody owns");
        ensure_eq!(now.mark, before.mark, "{what} moved the mark of the workspace");
        Ok(())
    }
}

type LeaseState = (u64, turnkeep_core::model::LeaseState, turnkeep_core::Timestamp);

/// All that could be read of a workspace at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) sessions: Vec<(SessionRow, Vec<Row>, Option<LeaseState>)>,
    pub(crate) unowned: Vec<Row>,
    pub(crate) mark: Mark,
}
