//! Usage: what each request to a model consumed, and the sums of it.
//!
//! A request is an event of the usage stream and a part of the counters of its session and run, in one commit. So the sums
//! of a session and of a run are read with its row, and the list is there for whoever wants to know more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use turnkeep_core::commit::{NewEvent, Op};
use turnkeep_core::error::Result;
use turnkeep_core::id::{EventKind, RunId, SessionRef, StreamName};
use turnkeep_core::model::{Event, Usage, stream};
use turnkeep_core::query::{EventQuery, Order};
use turnkeep_core::{Page, Payload, Timestamp, mutant};

use crate::awaitable::awaitable;
use crate::paged::{Asked, paged};
use crate::session::{Plan, Session};

/// The kind of the events of the stream.
const REQUEST: &str = "model_request";

/// Events of one page of a walk.
const PAGE: u32 = 1_000;

/// The usage of a session.
#[derive(Clone, Debug)]
pub struct SessionUsage {
    session: Session,
}

/// A request to a model and what it consumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// Who serves the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The protocol it was asked by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it consumed.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A request as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRecord {
    /// Its number in the session, from 1.
    pub number: u64,
    /// The run that made it.
    pub run: Option<RunId>,
    /// When.
    pub at: Timestamp,
    /// The request.
    pub request: ModelRequest,
}

/// What one model consumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTotal {
    /// Who serves the model.
    pub provider: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The sum.
    pub usage: Usage,
}

/// A list of requests; await it.
#[derive(Debug)]
#[must_use = "nothing is read until this is awaited"]
pub struct ListUsage {
    session: Session,
    run: Option<RunId>,
    after: Option<u64>,
    page: Asked,
}

impl ModelRequest {
    /// One request to a model. A total of 0 stands for the sum of input and output.
    #[must_use]
    pub fn new(model: impl Into<String>, usage: Usage) -> Self {
        Self { model: Some(model.into()), ..usage.into() }
    }

    /// Who serves the model.
    #[must_use]
    pub fn provider(mut self, provider: impl Into<String>) -> Self {
        self.provider = Some(provider.into());
        self
    }

    /// The protocol it was asked by.
    #[must_use]
    pub fn protocol(mut self, protocol: impl Into<String>) -> Self {
        self.protocol = Some(protocol.into());
        self
    }

    /// The ops that keep it: the event, and the counters.
    pub(crate) fn ops(&self, session: &SessionRef, run: Option<&RunId>, now: Timestamp) -> Result<Vec<Op>> {
        let event = NewEvent {
            kind: EventKind::new(REQUEST)?,
            run: run.cloned(),
            at: now,
            payload: Payload::from_value(self)?,
        };
        let events = Op::AppendEvents {
            session: session.clone(),
            stream: StreamName::new(stream::USAGE)?,
            expect_next: None,
            events: vec![event],
        };
        let count = Op::AddUsage { session: session.clone(), run: run.cloned(), usage: self.usage };
        Ok(if mutant::is("usage/counted-without-event") { vec![count] } else { vec![count, events] })
    }
}

impl From<Usage> for ModelRequest {
    /// What was consumed, of a model that nobody names. A total of 0 stands for the sum of input and output.
    fn from(mut usage: Usage) -> Self {
        usage.requests = usage.requests.max(1);
        if usage.total_tokens == 0 {
            usage.total_tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        }
        Self { usage, ..Self::default() }
    }
}

impl SessionUsage {
    pub(crate) fn new(session: Session) -> Self {
        Self { session }
    }

    /// Keeps what a request consumed. While this handle executes a run, it counts for that run, too; see also
    /// [`Run::add_usage`](crate::Run::add_usage), and `usage(…)` where a run appends or completes.
    ///
    /// # Errors
    /// `LeaseHeld` while somebody else executes a run; `NotFound` when the session was deleted.
    pub async fn record(&self, request: impl Into<ModelRequest> + Send) -> Result<()> {
        let (session, request) = (self.session.session_ref().clone(), request.into());
        let run = self.session.executing();
        let plan = Plan::new(move |now| request.ops(&session, run.as_ref(), now)).at_any_leaf();
        self.session.write(plan).await.map(drop)
    }

    /// The sum over the session, read with its row.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn total(&self) -> Result<Usage> {
        if !self.session.is_stored() {
            return Ok(Usage::default());
        }
        Ok(self.session.info().await?.usage)
    }

    /// The sum over a run, read with its row.
    ///
    /// # Errors
    /// `NotFound` when the session has none with this id.
    pub async fn total_of(&self, run: &RunId) -> Result<Usage> {
        Ok(self.session.runs().get(run).await?.usage)
    }

    /// The requests in order. Await it, or narrow it first.
    pub fn list(&self) -> ListUsage {
        ListUsage { session: self.session.clone(), run: None, after: None, page: Asked::default() }
    }

    /// The sum per provider and model, the one with most tokens first. Walks all requests of the session, page by page.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn by_model(&self) -> Result<Vec<ModelTotal>> {
        let mut sums: BTreeMap<(Option<String>, Option<String>), Usage> = BTreeMap::new();
        let mut after = None;
        loop {
            let mut list = self.list().limit(PAGE);
            list.after = after;
            let page = list.await?;
            after = page.items.last().map(|record| record.number);
            for UsageRecord { request: ModelRequest { provider, model, usage, .. }, .. } in page.items {
                let sum = sums.entry((provider, model)).or_default();
                *sum = sum.plus(&usage);
            }
            if page.next.is_none() {
                break;
            }
        }
        let mut totals: Vec<ModelTotal> = sums
            .into_iter()
            .map(|((provider, model), usage)| ModelTotal { provider, model, usage })
            .collect();
        totals.sort_by_key(|total| std::cmp::Reverse(total.usage.total_tokens));
        Ok(totals)
    }
}

impl ListUsage {
    /// Only those of a run.
    pub fn run(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// Only those with higher numbers, to go on from a known place.
    pub fn after(mut self, number: u64) -> Self {
        self.after = Some(number);
        self
    }

    async fn go(self) -> Result<Page<UsageRecord>> {
        let Self { session, run, after, page } = self;
        let narrow = |query: &mut EventQuery| {
            query.run = run;
            query.after = after;
            (query.order, query.limit, query.cursor) = page.parts();
        };
        let page = session.events(stream::USAGE, narrow).await?;
        let items = page.items.into_iter().map(UsageRecord::from_event).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next, total: page.total })
    }
}
paged!(ListUsage.page, Order: "ascending, by number");
awaitable!(ListUsage => Result<Page<UsageRecord>>);

impl UsageRecord {
    fn from_event(event: Event) -> Result<Self> {
        let request = event.payload.parse()?;
        Ok(Self { number: event.number, run: event.run, at: event.at, request })
    }
}
