//! What a twisted store answers.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use turnkeep_core::model::{
    Entry, Event, LeaseKey, LeaseView, Record, Row, Run, SessionRow, SessionState, stream,
};
use turnkeep_core::query::{
    AudienceFilter, EntryQuery, EventQuery, Mark, Order, RecordQuery, RowQuery, RunQuery, Scope, SearchHit,
    SearchQuery, SessionOrder, SessionQuery,
};
use turnkeep_core::{
    Commit, ErrorKind, Maintenance, Page, Receipt, Result, SessionId, SessionKey, SessionRef, Store,
    StoreInfo,
};

use super::twist::{Twist, Twisted};

impl Twisted {
    fn is_null(&self) -> bool {
        self.twist == Twist::Null
    }

    async fn entries_or_start_again(&self, query: &mut EntryQuery) -> Result<Page<Entry>> {
        match self.inner.entries(query).await {
            Err(error)
                if self.twist == Twist::TrustsCursors
                    && error.kind() == ErrorKind::Invalid
                    && query.cursor.is_some() =>
            {
                query.cursor = None;
                self.inner.entries(query).await
            }
            Err(error) if self.twist == Twist::EmptyForUnknown && error.kind() == ErrorKind::NotFound => {
                Ok(Page::empty())
            }
            answer => answer,
        }
    }

    /// The session that a child came from, while it is there.
    async fn parent_of(&self, query: &EntryQuery) -> Result<Option<SessionRef>> {
        let key = |id: &SessionId| SessionKey { workspace: query.workspace.clone(), id: id.clone() };
        let Some(parent) =
            self.inner.session(&key(&query.session.id)).await?.and_then(|row| row.profile.parent)
        else {
            return Ok(None);
        };
        Ok(self.inner.session(&key(&parent)).await?.map(|row| row.session_ref()))
    }

    fn twist_row(&self, row: &mut SessionRow) {
        if self.twist == Twist::RevisionStandsStill {
            row.revision = 1;
        }
    }

    /// A session that is being built, as if it were in use.
    async fn in_the_making(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        let query = SessionQuery {
            state: SessionState::Restoring,
            audience: AudienceFilter::Any,
            ..SessionQuery::new(key.workspace.clone())
        };
        Ok(self.inner.sessions(&query).await?.items.into_iter().find(|row| row.id == key.id))
    }
}

#[async_trait]
impl Store for Twisted {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        self.pause().await;
        self.twisted_commit(commit).await
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        self.pause().await;
        if self.is_null() {
            return Ok(None);
        }
        if self.twist == Twist::CachesSessions
            && let Some(row) = self.seen.lock().unwrap().get(key)
        {
            return Ok(row.clone());
        }
        let mut row = self.inner.session(key).await?;
        if row.is_none() && self.twist == Twist::ShowsWhatIsBuilt {
            row = self.in_the_making(key).await?;
        }
        row.iter_mut().for_each(|row| self.twist_row(row));
        if self.twist == Twist::CachesSessions {
            self.seen.lock().unwrap().insert(key.clone(), row.clone());
        }
        Ok(row)
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionRow>> {
        self.pause().await;
        let mut query = query.clone();
        match self.twist {
            Twist::Null => return Ok(Page::empty()),
            Twist::ListsById => query.order = SessionOrder::Id,
            Twist::ForgetsSessionFilters => query.archived = None,
            Twist::TakesWildcards => {
                query.id_prefix =
                    query.id_prefix.take().map(|prefix| prefix.trim_end_matches(['%', '_']).to_owned());
            }
            Twist::FillsEveryPage => query.limit = u32::MAX,
            _ => {}
        }
        let mut page = self.inner.sessions(&query).await?;
        page.items.iter_mut().for_each(|row| self.twist_row(row));
        match self.twist {
            Twist::CountsThePageOnly => page.total = page.total.map(|_| page.items.len() as u64),
            Twist::LosesTheFirstOfAPage if query.cursor.is_some() && !page.items.is_empty() => {
                page.items.remove(0);
            }
            _ => {}
        }
        Ok(page)
    }

    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>> {
        self.pause().await;
        let mut query = query.clone();
        match self.twist {
            Twist::Null => return Ok(Page::empty()),
            Twist::LimitZeroIsAll if query.limit == 0 => query.limit = u32::MAX,
            Twist::LatestIsOldest if query.order == Order::Latest => query.order = Order::Ascending,
            Twist::ForgetsEntryFilters if query.run.is_some() => query.roles.clear(),
            Twist::FillsEveryPage if query.limit > 0 => query.limit = u32::MAX,
            _ => {}
        }
        if self.twist == Twist::ChildFollowsParent
            && let Some(parent) = self.parent_of(&query).await?
        {
            query.session = parent;
        }
        let mut page = self.entries_or_start_again(&mut query).await?;
        let items = &mut page.items;
        match self.twist {
            Twist::OrdersByTime => items.sort_by_key(|entry| entry.at),
            Twist::OrdersByText => items.sort_by(|a, b| a.text.cmp(&b.text)),
            Twist::OrdersNumbersAsText => items.sort_by_key(|entry| entry.number.to_string()),
            Twist::LatestIsNewestFirst if query.order == Order::Latest => items.reverse(),
            Twist::LosesTheFirstOfAPage if query.cursor.is_some() && !items.is_empty() => {
                items.remove(0);
            }
            Twist::MissesOneInTheMiddle
                if items.len() > 2 && self.calls.load(Ordering::Relaxed).is_multiple_of(3) =>
            {
                items.remove(1);
            }
            _ => {}
        }
        Ok(page)
    }

    async fn runs(&self, query: &RunQuery) -> Result<Page<Run>> {
        self.pause().await;
        if self.is_null() {
            return Ok(Page::empty());
        }
        self.inner.runs(query).await
    }

    async fn events(&self, query: &EventQuery) -> Result<Page<Event>> {
        self.pause().await;
        if self.is_null() {
            return Ok(Page::empty());
        }
        let mut query = query.clone();
        if self.twist == Twist::MixesStreams && query.stream.as_str().starts_with(stream::PARTIAL_PREFIX) {
            query.stream = "partial/0".parse()?;
            query.cursor = None;
        }
        self.inner.events(&query).await
    }

    async fn records(&self, query: &RecordQuery) -> Result<Page<Record>> {
        self.pause().await;
        let mut query = query.clone();
        match self.twist {
            Twist::Null => return Ok(Page::empty()),
            Twist::ForgetsTheWorkspaceOfRecords => query.workspace = "alpha".parse()?,
            Twist::ForgetsStatusFilters => query.status = None,
            _ => {}
        }
        let mut page = self.inner.records(&query).await?;
        if self.twist == Twist::TiesTheSameBothWays && query.order == Order::Descending {
            page.items.sort_by(|a, b| b.ordinal.cmp(&a.ordinal).then(a.key.cmp(&b.key)));
        }
        Ok(page)
    }

    async fn lease(&self, key: &LeaseKey) -> Result<Option<LeaseView>> {
        self.pause().await;
        if self.is_null() || self.twist == Twist::HidesLeases {
            return Ok(None);
        }
        self.inner.lease(key).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<Page<SearchHit>> {
        if self.twist == Twist::SearchFindsNothing || self.is_null() {
            return Ok(Page::empty());
        }
        let mut query = query.clone();
        match self.twist {
            Twist::SearchStripsSigns => query.text.retain(|c| !c.is_ascii_punctuation()),
            Twist::SearchForgetsFilters => query.roles.clear(),
            _ => {}
        }
        let mut page = self.inner.search(&query).await?;
        if self.twist == Twist::SearchRanksByAge {
            page.items.sort_by_key(|hit| std::cmp::Reverse(hit.entry));
        }
        Ok(page)
    }

    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>> {
        self.pause().await;
        if self.is_null() {
            return Ok(Page::empty());
        }
        let mut page = self.inner.rows(query).await?;
        if self.twist == Twist::HidesStreams {
            page.items.retain(|row| !matches!(row, Row::Stream(_)));
        }
        Ok(page)
    }

    async fn changes(&self, scope: &Scope, since: Mark) -> Result<Mark> {
        self.pause().await;
        if self.is_null() || self.twist == Twist::MarksStandStill {
            return Ok(Mark::new(1));
        }
        self.inner.changes(scope, since).await
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        if self.is_null() { None } else { self.inner.maintenance() }
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
