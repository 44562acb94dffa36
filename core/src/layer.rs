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

type Answer<'f, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'f>>;

/// The reads of a store, for its trait and for that of a layer: what answers them, and how it is come by. They are as
/// `async_trait` writes them, so that an answer is handed on and no other is boxed around it.
macro_rules! reads {
    ($from:ident, $of:path) => {
        reads! { $from, $of:
            session(key: SessionKey) -> Option<SessionRow>;
            sessions(query: SessionQuery) -> Page<SessionRow>;
            entries(query: EntryQuery) -> Page<Entry>;
            runs(query: RunQuery) -> Page<Run>;
            events(query: EventQuery) -> Page<Event>;
            records(query: RecordQuery) -> Page<Record>;
            lease(key: LeaseKey) -> Option<LeaseView>;
            search(query: SearchQuery) -> Page<SearchHit>;
            rows(query: RowQuery) -> Page<Row>;
            changes(scope: Scope, since: Mark) -> Mark;
        }
    };
    ($from:ident, $of:path:
        $($name:ident($asked:ident: $query:ty $(, $more:ident: $also:ty)?) -> $answer:ty;)*) => {$(
        #[doc = concat!("As [`Store::", stringify!($name), "`].")]
        fn $name<'s, 'a, 'f>(&'s self, $asked: &'a $query $(, $more: $also)?) -> Answer<'f, $answer>
        where
            's: 'f,
            'a: 'f,
            Self: 'f,
        {
            $from::$name($of(self), $asked $(, $more)?)
        }
    )*};
}

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

    reads!(Store, Layer::behind);

    /// As [`Store::close`].
    async fn close(&self) -> Result<()> {
        self.behind().close().await
    }
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

    reads!(Layer, std::convert::identity);

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
