//! You write a backend: this one forgets which requests it has seen, and the suite says which promise that breaks. A whole
//! backend that keeps them all is `examples/backend-toy`.
//!
//! ```text
//! cargo run -p turnkeep-examples --bin backend-author -- --only IDM-001   # broken, and how to see it again
//! cargo run -p turnkeep-examples --bin backend-author -- --only ORD-001   # kept
//! cargo run -p turnkeep-examples --bin backend-author -- explain IDM-001  # why it matters
//! ```

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use turnkeep::core::commit::{Commit, Receipt};
use turnkeep::core::{Result, SessionKey, Store, StoreInfo};
use turnkeep::model::{Entry, Event, LeaseKey, LeaseView, Record, Row, Run, SessionRow};
use turnkeep::query::{
    EntryQuery, EventQuery, Mark, Page, RecordQuery, RowQuery, RunQuery, Scope, SessionQuery,
};
use turnkeep_conformance::{Harness, Manifest, OpenWith, Site, TableCount};
use turnkeep_harnesses::MemoryHarness;

/// A store that is sound but for one thing.
#[derive(Debug)]
struct Forgetful(Arc<dyn Store>, StoreInfo);

#[async_trait]
impl Store for Forgetful {
    fn info(&self) -> &StoreInfo {
        &self.1
    }
    async fn commit(&self, mut commit: Commit) -> Result<Receipt> {
        commit.request = None; // the fault
        self.0.commit(commit).await
    }
    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        self.0.session(key).await
    }
    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionRow>> {
        self.0.sessions(query).await
    }
    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>> {
        self.0.entries(query).await
    }
    async fn runs(&self, query: &RunQuery) -> Result<Page<Run>> {
        self.0.runs(query).await
    }
    async fn events(&self, query: &EventQuery) -> Result<Page<Event>> {
        self.0.events(query).await
    }
    async fn records(&self, query: &RecordQuery) -> Result<Page<Record>> {
        self.0.records(query).await
    }
    async fn lease(&self, key: &LeaseKey) -> Result<Option<LeaseView>> {
        self.0.lease(key).await
    }
    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>> {
        self.0.rows(query).await
    }
    async fn changes(&self, scope: &Scope, since: Mark) -> Result<Mark> {
        self.0.changes(scope, since).await
    }
    async fn close(&self) -> Result<()> {
        self.0.close().await
    }
}

/// What the suite has to know: what the store claims, and how to make, open and remove one.
#[derive(Debug, Default)]
struct ForgetfulHarness(MemoryHarness);

#[async_trait]
impl Harness for ForgetfulHarness {
    fn manifest(&self) -> Manifest {
        Manifest { name: "forgetful", ..self.0.manifest() }
    }
    async fn provision(&self) -> Result<Site> {
        self.0.provision().await
    }
    async fn open(&self, site: &Site, with: OpenWith) -> Result<Arc<dyn Store>> {
        let store = self.0.open(site, with).await?;
        let mut info = store.info().clone();
        info.name = self.manifest().name;
        Ok(Arc::new(Forgetful(store, info)))
    }
    async fn destroy(&self, site: &Site) -> Result<()> {
        self.0.destroy(site).await
    }
    async fn residue(&self, site: &Site) -> Result<Option<Vec<TableCount>>> {
        self.0.residue(site).await
    }
}

fn main() -> ExitCode {
    turnkeep_conformance::program::main::<ForgetfulHarness>()
}
