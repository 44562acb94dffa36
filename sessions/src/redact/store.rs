//! A store that keeps nothing which the redactor hides.

use std::sync::Arc;

use async_trait::async_trait;
use turnkeep_core::commit::{Commit, Receipt};
use turnkeep_core::{Layer, Result, Store};

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
impl Layer for RedactingStore {
    fn behind(&self) -> &dyn Store {
        &*self.inner
    }

    async fn commit(&self, mut commit: Commit) -> Result<Receipt> {
        self.redaction.commit(&mut commit)?;
        self.inner.commit(commit).await
    }
}
