//! Reading a session: messages by number, the history, the replay.

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryKind, EntryNo, Role, StreamName};
use turnkeep_core::model::{Entry, Event, VisibilitySet, entry_kind};
use turnkeep_core::query::{EntryQuery, EventQuery, Order, PathTo};
use turnkeep_core::{Page, mutant};

use super::Session;
use crate::awaitable::awaitable;
use crate::message::Message;
use crate::paged::paged;
use crate::replay::{self, HistoryQuery, Replay, ReplayPolicy};

use crate::replay::HistoryItem;

/// A message with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its number, which is its id.
    pub number: EntryNo,
    /// The message.
    pub message: Message,
    /// The entry that holds it.
    pub entry: Entry,
}

/// A query for messages; await it. Bounds are exclusive, and a page has 100 messages unless said otherwise.
#[derive(Debug)]
#[must_use = "nothing is read until this is awaited"]
pub struct Messages {
    session: Session,
    query: EntryQuery,
}

/// A query for the history; await it.
#[derive(Debug)]
#[must_use = "nothing is read until this is awaited"]
pub struct History {
    session: Session,
    query: HistoryQuery,
}

impl Session {
    /// The messages of the current branch with their numbers, those of unfinished and failed runs too. Ascending,
    /// unless [`latest`](Messages::latest) is asked for.
    ///
    /// # Errors
    /// On await: `NotFound` when the session was deleted; `Invalid` for a limit of 0 or a foreign cursor. A page with an
    /// entry that holds no message that can be read is `Invalid`, too, with the number of that entry as `entry`:
    /// [`history`](Self::history) gives the page and that entry as it is stored, and [`before`](Messages::before) and
    /// [`after`](Messages::after) give what stands around it.
    pub fn messages(&self) -> Messages {
        let mut query = self.entry_query();
        query.kinds = EntryKind::new(entry_kind::MESSAGE).into_iter().collect();
        query.path = Some(PathTo::Leaf);
        Messages { session: self.clone(), query }
    }

    /// The conversation as people had it: every message, however its run ended, what a compaction stands for included,
    /// and unfinished texts beside what they follow. See [`crate::replay::history`].
    ///
    /// # Errors
    /// On await: `NotFound` when the session was deleted.
    pub fn history(&self) -> History {
        History { session: self.clone(), query: HistoryQuery::default() }
    }

    /// What a model may be shown: the current branch with its latest compaction applied, every tool call answered once,
    /// nothing of runs that came to nothing. A run that this handle executes is included.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn replay(&self) -> Result<Replay> {
        self.replay_with(ReplayPolicy::default()).await
    }

    /// As [`replay`](Self::replay), with a policy of one's own.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted; `Invalid` when a call is unanswered and the policy refuses that.
    pub async fn replay_with(&self, mut policy: ReplayPolicy) -> Result<Replay> {
        if !self.is_stored() {
            return Ok(Replay::default());
        }
        policy.own_run = policy.own_run.or_else(|| self.executing());
        let base = self.workspace().base();
        replay::replay(base.store().as_ref(), base.workspace(), self.session_ref(), &policy).await
    }

    /// One entry by its number.
    ///
    /// # Errors
    /// `NotFound` when there is none with this number.
    pub async fn entry(&self, number: EntryNo) -> Result<Entry> {
        let mut query = self.entry_query();
        query.visibility = VisibilitySet::ALL;
        query.after = EntryNo::new(number.get() - 1);
        query.before = number.next();
        query.limit = 1;
        let page = self.workspace().base().store().entries(&query).await?;
        page.items.into_iter().next().ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "the session has no entry with this number")
                .with("session", self.id())
                .with("entry", number)
        })
    }

    /// Entries of every kind, by a query of one's own that begins with all committed entries of the session.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn entries(&self, narrow: impl FnOnce(&mut EntryQuery) + Send) -> Result<Page<Entry>> {
        if !self.is_stored() {
            return Ok(Page::empty());
        }
        let mut query = self.entry_query();
        narrow(&mut query);
        self.workspace().base().store().entries(&query).await
    }

    /// The events of a stream; none while nothing of the session is stored.
    pub(crate) async fn events(
        &self,
        stream: &str,
        narrow: impl FnOnce(&mut EventQuery) + Send,
    ) -> Result<Page<Event>> {
        if !self.is_stored() {
            return Ok(Page::empty());
        }
        let stream = StreamName::new(stream)?;
        let mut query = EventQuery::new(self.workspace().id().clone(), self.session_ref().clone(), stream);
        narrow(&mut query);
        self.workspace().base().store().events(&query).await
    }

    /// The number of the newest event of a stream; 0 before the first.
    pub(crate) async fn newest_event(&self, stream: &str) -> Result<u64> {
        let narrow = |query: &mut EventQuery| (query.order, query.limit) = (Order::Descending, 1);
        Ok(self.events(stream, narrow).await?.items.first().map_or(0, |event| event.number))
    }

    pub(crate) fn entry_query(&self) -> EntryQuery {
        EntryQuery::new(self.workspace().id().clone(), self.session_ref().clone())
    }
}

/// The part of the conversation that is asked for.
macro_rules! bounded {
    ($list:ident) => {
        impl $list {
            /// Only messages with higher numbers.
            pub fn after(mut self, number: EntryNo) -> Self {
                let before = EntryNo::new(number.get() - 1);
                self.query.after = mutant::either("messages/bounds-included", before, Some(number));
                self
            }

            /// Only messages with lower numbers.
            pub fn before(mut self, number: EntryNo) -> Self {
                self.query.before = Some(number);
                self
            }

            /// The newest `count` of them, given ascending.
            pub fn latest(mut self, count: u32) -> Self {
                self.query.order = Order::Latest;
                self.query.limit = count;
                self
            }
        }
    };
}

impl Messages {
    /// Only what this role said.
    pub fn role(mut self, role: Role) -> Self {
        self.query.roles = vec![role];
        self
    }

    /// The messages of all branches, not only of the current one.
    pub fn all_branches(mut self) -> Self {
        self.query.path = None;
        self
    }

    async fn go(self) -> Result<Page<StoredMessage>> {
        if !self.session.is_stored() {
            return Ok(Page::empty());
        }
        let page = self.session.workspace().base().store().entries(&self.query).await?;
        let items = page
            .items
            .into_iter()
            .map(|entry| {
                let message = Message::from_entry(&entry)?;
                Ok(StoredMessage { number: entry.number, message, entry })
            })
            .collect::<Result<_>>()?;
        Ok(Page { items, next: page.next, total: page.total })
    }
}
paged!(Messages.query, Order: "ascending");
bounded!(Messages);
awaitable!(Messages => Result<Page<StoredMessage>>);

impl History {
    /// All branches, not only the current one.
    pub fn all_branches(mut self) -> Self {
        self.query.all_branches = true;
        self
    }

    /// Also what is not part of the original conversation: summaries, messages for models and machinery.
    pub fn internal(mut self) -> Self {
        self.query.internal = true;
        self
    }

    async fn go(self) -> Result<Page<HistoryItem>> {
        if !self.session.is_stored() {
            return Ok(Page::empty());
        }
        let base = self.session.workspace().base();
        let session = self.session.session_ref();
        replay::history(base.store().as_ref(), base.workspace(), session, &self.query).await
    }
}
paged!(History.query);
bounded!(History);
awaitable!(History => Result<Page<HistoryItem>>);
