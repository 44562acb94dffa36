//! A store that keeps nothing which the redactor hides.

use std::sync::Arc;

use async_trait::async_trait;
use turnkeep_core::commit::{Commit, Receipt};
use turnkeep_core::model::{Entry, Event, LeaseKey, LeaseView, Record, Row, Run, SessionRow};
use turnkeep_core::query::{
    EntryQuery, EventQuery, Mark, Page, RecordQuery, RowQuery, RunQuery, Scope, SearchHit, SearchQuery,
    SessionQuery,
};
use turnkeep_core::{Maintenance, Result, SessionKey, Store, StoreInfo};

use super::Redaction;

/// A store that redacts every commit on its way into another one, whoever makes it.
///
/// Rows to be restored are refused if the redactor finds something in them: they are digested, and must be redacted
/// before that, as [`Workspace::import`](crate::Workspace::import) does. What is in the store already is not changed.
#[derive(Debug)]
pub struct RedactingStore {
    inner: Arc<dyn Store>,
    redaction: Redaction,
}

impl RedactingStore {
    /// In front of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, redaction: impl Into<Redaction>) -> Self {
        Self { inner, redaction: redaction.into() }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for RedactingStore {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn commit(&self, mut commit: Commit) -> Result<Receipt> {
        self.redaction.commit(&mut commit)?;
        self.inner.commit(commit).await
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
