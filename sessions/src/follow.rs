//! Following a session: new entries and events as they come, from any process, each once and in order.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures_util::stream::{Stream, try_unfold};
use serde::{Deserialize, Serialize};
use turnkeep_core::error::{ErrorKind, Result};
use turnkeep_core::id::{EntryNo, StreamName, TurnId};
use turnkeep_core::model::{Entry, Event, VisibilitySet, entry_kind, stream};
use turnkeep_core::mutant;
use turnkeep_core::query::{EventQuery, Mark};

use crate::awaitable::awaitable;
use crate::run::{partial, turn_of};
use crate::session::Session;

/// Rows of one read.
const PAGE: u32 = 500;
/// The pause after something came.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest pause while nothing comes.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Where somebody who follows a session stands: everything up to here was seen. Keep it, and go on from it later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The last entry; `None` before the first.
    pub entry: Option<EntryNo>,
    /// The last event of each stream; one that is not named is at its beginning.
    pub events: BTreeMap<String, u64>,
}

/// Something new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// An entry, on whichever branch.
    Entry(Box<Entry>),
    /// An event of a stream.
    Event {
        /// The stream.
        stream: StreamName,
        /// The event.
        event: Box<Event>,
    },
    /// A piece of an answer that streams in. The whole answer comes as an entry.
    Text {
        /// The turn that it belongs to.
        turn: TurnId,
        /// The piece.
        text: String,
    },
}

/// A session to be followed; await it.
#[derive(Debug)]
#[must_use = "nothing is followed until this is awaited"]
pub struct Follow {
    session: Session,
    from: Option<Place>,
    streams: Vec<Result<StreamName>>,
    text: bool,
}

/// What follows a session. Dropping it ends that.
#[derive(Debug)]
pub struct Following {
    session: Session,
    streams: Vec<StreamName>,
    text: bool,
    /// The turn whose text is looked at.
    turn: Option<TurnId>,
    /// Up to here was read.
    read: Place,
    /// Up to here was handed out.
    place: Place,
    waiting: VecDeque<News>,
    mark: Mark,
    /// Whether there may be more up to the mark.
    more: bool,
    pause: Duration,
}

impl Session {
    /// Follows the session: entries on all branches, and what happens to its runs, as they are committed by whatever
    /// process. From now on, unless said otherwise. Await it, then ask for [`Following::next`] again and again.
    ///
    /// # Errors
    /// On await: `NotFound` when the session was deleted or nothing of it is stored yet.
    pub fn follow(&self) -> Follow {
        let streams = vec![StreamName::new(stream::RUNS)];
        Follow { session: self.clone(), from: None, streams, text: false }
    }
}

impl Follow {
    /// Everything from the beginning on.
    pub fn from_start(self) -> Self {
        self.after(Place::default())
    }

    /// Everything after a place where somebody stood.
    pub fn after(mut self, place: Place) -> Self {
        self.from = Some(place);
        self
    }

    /// Also the events of this stream.
    pub fn stream(mut self, name: impl AsRef<str>) -> Self {
        self.streams.push(StreamName::new(name));
        self
    }

    /// Also an answer as it streams in, as far as it is still there: its pieces are gone once the answer is whole.
    pub fn text(mut self) -> Self {
        self.text = true;
        self
    }

    async fn go(self) -> Result<Following> {
        let streams = self.streams.into_iter().collect::<Result<Vec<_>>>()?;
        let row = self.session.info().await?;
        let turn = match &row.active_run {
            Some(run) if self.text => {
                turn_of(self.session.workspace().base(), self.session.session_ref(), run).await?
            }
            _ => None,
        };
        let read = match self.from {
            Some(place) => place,
            None => {
                let mut place = Place { entry: row.head, ..Place::default() };
                for name in &streams {
                    place
                        .events
                        .insert(name.as_str().to_owned(), self.session.newest_event(name.as_str()).await?);
                }
                place
            }
        };
        Ok(Following {
            session: self.session,
            streams,
            text: self.text,
            turn,
            place: read.clone(),
            read,
            waiting: VecDeque::new(),
            mark: Mark::START,
            more: false,
            pause: FIRST_PAUSE,
        })
    }
}
awaitable!(Follow => Result<Following>);

impl Following {
    /// The next thing that is new; waits until there is one. `None` when the session was deleted.
    ///
    /// Dropping the future loses nothing: the next call goes on where this one was.
    ///
    /// # Errors
    /// Whatever the store answers to a read. Asking again is safe.
    pub async fn next(&mut self) -> Result<Option<News>> {
        loop {
            if let Some(news) = self.waiting.pop_front() {
                self.place.pass(&news);
                return Ok(Some(news));
            }
            let found = self.look().await;
            match found {
                Ok(true) => {}
                Ok(false) => {
                    self.session.workspace().base().sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// What is new already, without waiting. Empty when all was handed out.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn ready(&mut self) -> Result<Vec<News>> {
        while self.look().await? {}
        let news: Vec<News> = self.waiting.drain(..).collect();
        for one in &news {
            self.place.pass(one);
        }
        Ok(news)
    }

    /// The same as a [`Stream`], for whoever has combinators for those. It ends with the session, or after an error.
    ///
    /// Nothing is lost with a stream that ends: follow again [`after`](Follow::after) the place of what came last.
    pub fn into_stream(self) -> impl Stream<Item = Result<News>> + Send + Unpin {
        Box::pin(try_unfold(self, async |mut following: Self| {
            Ok(following.next().await?.map(|news| (news, following)))
        }))
    }

    /// Everything up to here was handed out.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Reads what is new. Answers whether it makes sense to look again at once.
    async fn look(&mut self) -> Result<bool> {
        if !self.more {
            // The mark comes first: what is committed while we read moves it again.
            let mark = self.session.changes(self.mark).await?;
            if mark == self.mark {
                return Ok(false);
            }
            (self.mark, self.more, self.pause) = (mark, true, FIRST_PAUSE);
        }
        let more = self.entries().await? | self.events().await? | self.pieces().await?;
        self.more = more;
        Ok(true)
    }

    async fn entries(&mut self) -> Result<bool> {
        let after = self.read.entry;
        let page = self
            .session
            .entries(move |query| {
                query.visibility = VisibilitySet::ALL;
                query.after = after;
                query.limit = PAGE;
            })
            .await?;
        for entry in page.items {
            match entry.kind.as_str() {
                entry_kind::TURN_START => self.turn.clone_from(&entry.turn),
                entry_kind::TURN_END if self.turn == entry.turn => {
                    // Its text is gone; whoever follows for long must not remember every turn.
                    if let Some(name) = self.turn.take().and_then(|turn| partial::stream_of(&turn).ok()) {
                        self.read.events.remove(name.as_str());
                    }
                }
                _ => {}
            }
            self.read.entry = Some(entry.number);
            self.waiting.push_back(News::Entry(Box::new(entry)));
        }
        Ok(page.next.is_some())
    }

    async fn events(&mut self) -> Result<bool> {
        let mut more = false;
        for at in 0..self.streams.len() {
            let Some(name) = self.streams.get(at).cloned() else { break };
            let (events, further) = self.new_events(&name).await?;
            more |= further;
            for event in events {
                self.read.events.insert(name.as_str().to_owned(), event.number);
                self.waiting.push_back(News::Event { stream: name.clone(), event: Box::new(event) });
            }
        }
        Ok(more)
    }

    /// Text of the turn that is open.
    async fn pieces(&mut self) -> Result<bool> {
        let Some(turn) = self.turn.clone().filter(|_| self.text) else { return Ok(false) };
        let name = partial::stream_of(&turn)?;
        let (events, more) = self.new_events(&name).await?;
        for event in events {
            self.read.events.insert(name.as_str().to_owned(), event.number);
            if let Some(text) = partial::text_of(&event) {
                self.waiting.push_back(News::Text { turn: turn.clone(), text });
            }
        }
        Ok(more)
    }

    async fn new_events(&self, name: &StreamName) -> Result<(Vec<Event>, bool)> {
        let known = self.read.events.get(name.as_str()).copied();
        let after = mutant::either("follow/events-from-the-beginning", None, known);
        let narrow = |query: &mut EventQuery| (query.after, query.limit) = (after, PAGE);
        let page = self.session.events(name.as_str(), narrow).await?;
        Ok((page.items, page.next.is_some()))
    }
}

impl Place {
    fn pass(&mut self, news: &News) {
        match news {
            News::Entry(entry) => self.entry = Some(entry.number),
            News::Event { stream, event } => {
                self.events.insert(stream.as_str().to_owned(), event.number);
            }
            // Gone with its turn; the answer itself is an entry.
            News::Text { .. } => {}
        }
    }
}
