//! A store that notes in the audit log what becomes of each commit.

use std::sync::Arc;

use async_trait::async_trait;
use turnkeep_core::commit::{Commit, Receipt};
use turnkeep_core::id::SessionId;
use turnkeep_core::model::{Entry, Event, LeaseKey, LeaseView, Record, Row, Run, SessionRow};
use turnkeep_core::query::{
    EntryQuery, EventQuery, Mark, Page, RecordQuery, RowQuery, RunQuery, Scope, SearchHit, SearchQuery,
    SessionQuery,
};
use turnkeep_core::{Maintenance, Result, SessionKey, Store, StoreInfo, mutant};

use super::event::{of_ops, subject};
use super::{Audit, AuditEvent};

/// In front of the store, so that nothing which is stored passes the log by.
#[derive(Debug)]
pub(crate) struct AuditingStore {
    inner: Arc<dyn Store>,
    audit: Audit,
}

impl AuditingStore {
    pub(crate) fn new(inner: Arc<dyn Store>, audit: Audit) -> Self {
        Self { inner, audit }
    }

    fn landed(&self, events: Vec<(SessionId, AuditEvent)>, again: bool) {
        if mutant::is("audit/nothing-written") {
            return;
        }
        let mut rest = events.into_iter().peekable();
        while let Some((session, first)) = rest.next() {
            let mut events = vec![first];
            while let Some((_, event)) = rest.next_if(|(of, _)| *of == session) {
                events.push(event);
            }
            events.iter_mut().for_each(|event| event.again = again);
            self.audit.write(&session, events);
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for AuditingStore {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let events = of_ops(&commit.ops);
        let subject = subject(&commit.ops);
        let answer = self.inner.commit(commit).await;
        match (&answer, subject) {
            (Ok(receipt), _) => self.landed(events, receipt.replayed),
            (Err(error), Some((session, run))) => self.audit.refused(&session, run.as_ref(), error),
            (Err(_), None) => {}
        }
        answer
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        self.inner.session(key).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionRow>> {
        self.inner.sessions(query).await
    }

    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>> {
        self.inner.entries(query).await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Page<Run>> {
        self.inner.runs(query).await
    }

    async fn events(&self, query: &EventQuery) -> Result<Page<Event>> {
        self.inner.events(query).await
    }

    async fn records(&self, query: &RecordQuery) -> Result<Page<Record>> {
        self.inner.records(query).await
    }

    async fn lease(&self, key: &LeaseKey) -> Result<Option<LeaseView>> {
        self.inner.lease(key).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<Page<SearchHit>> {
        self.inner.search(query).await
    }

    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>> {
        self.inner.rows(query).await
    }

    async fn changes(&self, scope: &Scope, since: Mark) -> Result<Mark> {
        self.inner.changes(scope, since).await
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        self.inner.maintenance()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
