//! Stores in front of other stores.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use async_trait::async_trait;

use crate::commit::{Commit, Receipt};
use crate::error::Result;
use crate::id::SessionKey;
use crate::model::{Entry, Event, LeaseKey, LeaseView, Record, Row, Run, SessionRow};
use crate::query::{
    EntryQuery, EventQuery, Mark, Page, RecordQuery, RowQuery, RunQuery, Scope, SearchHit, SearchQuery,
    SessionQuery,
};
use crate::store::{Maintenance, Store, StoreInfo};

/// A store in front of another one: it says what it does differently, and the rest is passed on. Whoever implements it
/// is a [`Store`].
///
/// Maintenance is that of the store behind, and passes the layer by.
///
/// ```
/// # use std::sync::Arc;
/// # use turnkeep_core::{Commit, Error, ErrorKind, Layer, Receipt, Result, Store};
/// /// Lets nobody write.
/// #[derive(Debug)]
/// struct Frozen(Arc<dyn Store>);
///
/// #[async_trait::async_trait]
/// impl Layer for Frozen {
///     fn behind(&self) -> &dyn Store {
///         &*self.0
///     }
///
///     async fn commit(&self, _: Commit) -> Result<Receipt> {
///         Err(Error::new(ErrorKind::ReadOnly, "the store is frozen").with_operation("commit"))
///     }
/// }
/// fn is_store(frozen: Frozen) -> Arc<dyn Store> {
///     Arc::new(frozen)
/// }
/// ```
#[async_trait]
pub trait Layer: fmt::Debug + Send + Sync + 'static {
    /// The store behind.
    fn behind(&self) -> &dyn Store;

    /// As [`Store::info`].
    fn info(&self) -> &StoreInfo {
        self.behind().info()
    }

    /// As [`Store::commit`].
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        self.behind().commit(commit).await
    }

    /// As [`Store::session`].
    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        self.behind().session(key).await
    }

    /// As [`Store::sessions`].
    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionRow>> {
        self.behind().sessions(query).await
    }

    /// As [`Store::entries`].
    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>> {
        self.behind().entries(query).await
    }

    /// As [`Store::runs`].
    async fn runs(&self, query: &RunQuery) -> Result<Page<Run>> {
        self.behind().runs(query).await
    }

    /// As [`Store::events`].
    async fn events(&self, query: &EventQuery) -> Result<Page<Event>> {
        self.behind().events(query).await
    }

    /// As [`Store::records`].
    async fn records(&self, query: &RecordQuery) -> Result<Page<Record>> {
        self.behind().records(query).await
    }

    /// As [`Store::lease`].
    async fn lease(&self, key: &LeaseKey) -> Result<Option<LeaseView>> {
        self.behind().lease(key).await
    }

    /// As [`Store::search`].
    async fn search(&self, query: &SearchQuery) -> Result<Page<SearchHit>> {
        self.behind().search(query).await
    }

    /// As [`Store::rows`].
    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>> {
        self.behind().rows(query).await
    }

    /// As [`Store::changes`].
    async fn changes(&self, scope: &Scope, since: Mark) -> Result<Mark> {
        self.behind().changes(scope, since).await
    }

    /// As [`Store::close`].
    async fn close(&self) -> Result<()> {
        self.behind().close().await
    }
}

type Answer<'f, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'f>>;

/// Methods as `async_trait` writes them. Written by hand, they hand the layer's answer on and box no other around it.
macro_rules! answers {
    ($($name:ident($argument:ty $(, $more:ident: $also:ty)?) -> $answer:ty;)*) => {
        $(fn $name<'s, 'a, 'f>(&'s self, argument: &'a $argument $(, $more: $also)?) -> Answer<'f, $answer>
        where
            's: 'f,
            'a: 'f,
            Self: 'f,
        {
            Layer::$name(self, argument $(, $more)?)
        })*
    };
}

#[deny(clippy::missing_trait_methods)]
impl<L: Layer> Store for L {
    fn info(&self) -> &StoreInfo {
        Layer::info(self)
    }

    fn commit<'s, 'f>(&'s self, commit: Commit) -> Answer<'f, Receipt>
    where
        's: 'f,
        Self: 'f,
    {
        Layer::commit(self, commit)
    }

    answers! {
        session(SessionKey) -> Option<SessionRow>;
        sessions(SessionQuery) -> Page<SessionRow>;
        entries(EntryQuery) -> Page<Entry>;
        runs(RunQuery) -> Page<Run>;
        events(EventQuery) -> Page<Event>;
        records(RecordQuery) -> Page<Record>;
        lease(LeaseKey) -> Option<LeaseView>;
        search(SearchQuery) -> Page<SearchHit>;
        rows(RowQuery) -> Page<Row>;
        changes(Scope, since: Mark) -> Mark;
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        self.behind().maintenance()
    }

    fn close<'s, 'f>(&'s self) -> Answer<'f, ()>
    where
        's: 'f,
        Self: 'f,
    {
        Layer::close(self)
    }
}
