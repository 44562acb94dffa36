//! Capabilities: what a session may do, as a state and as a log of who changed it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnkeep_core::commit::{NewEvent, Op, Outcome};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EventKind, RunId, StreamName};
use turnkeep_core::model::{Event, collection, stream};
use turnkeep_core::query::EventQuery;
use turnkeep_core::{Page, Payload, Timestamp, mutant};

use super::records;
use crate::awaitable::awaitable;
use crate::session::{Plan, Session};

/// The kind of the events of the log.
const CHANGED: &str = "capability_changed";

/// The capabilities of a session.
#[derive(Clone, Debug)]
pub struct SessionCapabilities {
    session: Session,
}

/// What a session may do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapabilityState {
    /// By name; what was never set or was cleared is absent.
    pub values: BTreeMap<String, Value>,
    /// When they changed last; `None` when they never were.
    pub updated_at: Option<Timestamp>,
}

/// A change of one capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityChange {
    /// Its number in the log, from 1.
    pub number: u64,
    /// Which capability.
    pub capability: String,
    /// What it was; `None` if it was not set.
    pub old: Option<Value>,
    /// What it is now; `None` if it was cleared.
    pub new: Option<Value>,
    /// Who changed it.
    pub actor: Option<String>,
    /// By which way.
    pub source: Option<String>,
    /// The run in which it was changed.
    pub run: Option<RunId>,
    /// When.
    pub at: Timestamp,
    /// Whatever else the host says of it, byte for byte.
    pub data: Option<Payload>,
}

/// The stored form of a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Changed {
    capability: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    new: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Payload>,
}

/// Changes of capabilities; await it.
#[derive(Debug)]
#[must_use = "nothing is changed until this is awaited"]
pub struct SetCapabilities {
    session: Session,
    wishes: Vec<(String, Option<Value>)>,
    actor: Option<String>,
    source: Option<String>,
    run: Option<RunId>,
    data: Option<Payload>,
}

impl SessionCapabilities {
    pub(crate) fn new(session: Session) -> Self {
        Self { session }
    }

    /// What the session may do now.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn get(&self) -> Result<CapabilityState> {
        match records::single(&self.session, collection::CAPABILITIES).await? {
            Some(record) => {
                Ok(CapabilityState { values: record.payload.parse()?, updated_at: Some(record.updated_at) })
            }
            None => Ok(CapabilityState::default()),
        }
    }

    /// Sets a capability; await it, or say more first. State and log change in one commit. Needs no lease.
    pub fn set(&self, capability: impl Into<String>, value: impl Into<Value>) -> SetCapabilities {
        let set = SetCapabilities {
            session: self.session.clone(),
            wishes: Vec::new(),
            actor: None,
            source: None,
            run: None,
            data: None,
        };
        set.and(capability, value)
    }

    /// Takes a capability back.
    pub fn clear(&self, capability: impl Into<String>) -> SetCapabilities {
        self.set(capability, Value::Null)
    }

    /// The log of changes in order. Only those with a number above `after`, to go on from a known place.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted; `Invalid` for a limit of 0.
    pub async fn changes(&self, after: Option<u64>, limit: u32) -> Result<Page<CapabilityChange>> {
        let narrow = |query: &mut EventQuery| (query.after, query.limit) = (after, limit);
        let page = self.session.events(stream::CAPABILITIES, narrow).await?;
        let items = page.items.into_iter().map(CapabilityChange::from_event).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next, total: page.total })
    }

    /// The number of the newest change; 0 before the first.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn latest_change(&self) -> Result<u64> {
        self.session.newest_event(stream::CAPABILITIES).await
    }
}

impl SetCapabilities {
    /// Sets one more capability in the same commit. `null` takes it back.
    pub fn and(mut self, capability: impl Into<String>, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.wishes.push((capability.into(), Some(value).filter(|value| !value.is_null())));
        self
    }

    /// Who changes it.
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// By which way, such as a command or a policy.
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The run in which it is changed.
    pub fn run(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// Whatever else the host says of it, byte for byte.
    pub fn data(mut self, data: Payload) -> Self {
        self.data = Some(data);
        self
    }

    /// Answers what changed. Setting what is set changes nothing and is not logged.
    async fn go(self) -> Result<Vec<CapabilityChange>> {
        if self.wishes.iter().any(|(capability, _)| capability.trim().is_empty()) {
            return Err(Error::new(ErrorKind::Invalid, "a capability without a name cannot be set"));
        }
        records::again(|| self.once()).await
    }

    async fn once(&self) -> Result<Vec<CapabilityChange>> {
        let session = self.session.session_ref();
        let before = records::single(&self.session, collection::CAPABILITIES).await?;
        let mut values: BTreeMap<String, Value> = match &before {
            Some(record) => record.payload.parse()?,
            None => BTreeMap::new(),
        };
        let mut changes = Vec::new();
        for (capability, new) in &self.wishes {
            let old = match new {
                Some(value) => values.insert(capability.clone(), value.clone()),
                None => values.remove(capability),
            };
            if old != *new {
                changes.push(Changed {
                    capability: capability.clone(),
                    old,
                    new: new.clone(),
                    actor: self.actor.clone(),
                    source: self.source.clone(),
                    data: self.data.clone(),
                });
            }
        }
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let at = self.session.workspace().now();
        let kind = EventKind::new(CHANGED)?;
        let events: Vec<NewEvent> = changes
            .iter()
            .map(|change| {
                let payload = Payload::from_value(change)?;
                Ok(NewEvent { kind: kind.clone(), run: self.run.clone(), at, payload })
            })
            .collect::<Result<_>>()?;
        let put = records::put_single(session, collection::CAPABILITIES, before.as_ref(), &values)?;
        let log = Op::AppendEvents {
            session: session.clone(),
            stream: StreamName::new(stream::CAPABILITIES)?,
            expect_next: None,
            events,
        };
        let ops = if mutant::is("capabilities/change-without-event") { vec![put] } else { vec![put, log] };
        let written = self.session.write(Plan::new(move |_| Ok(ops.clone())).shared()).await?;
        let first = match written.receipt.outcomes.get(written.first + 1) {
            Some(Outcome::Events { first, .. }) => *first,
            _ => 0,
        };
        let numbered = changes.into_iter().zip(first..);
        Ok(numbered.map(|(change, number)| change.at(number, self.run.clone(), at)).collect())
    }
}
awaitable!(SetCapabilities => Result<Vec<CapabilityChange>>);

impl Changed {
    fn at(self, number: u64, run: Option<RunId>, at: Timestamp) -> CapabilityChange {
        let Self { capability, old, new, actor, source, data } = self;
        CapabilityChange { number, capability, old, new, actor, source, run, at, data }
    }
}

impl CapabilityChange {
    fn from_event(event: Event) -> Result<Self> {
        let changed: Changed = event.payload.parse()?;
        Ok(changed.at(event.number, event.run, event.at))
    }
}
