//! A store that notes in the audit log what becomes of each commit.

use std::sync::Arc;

use async_trait::async_trait;
use turnkeep_core::commit::{Commit, Receipt};
use turnkeep_core::id::SessionId;
use turnkeep_core::{Layer, Result, Store, mutant};

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
impl Layer for AuditingStore {
    fn behind(&self) -> &dyn Store {
        &*self.inner
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
}
