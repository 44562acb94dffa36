//! The items that providers answered, and their replay.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use turnkeep_core::commit::{NewEvent, Op};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EventKind, StreamName, TurnId};
use turnkeep_core::model::{Event, collection, stream};
use turnkeep_core::query::Order;
use turnkeep_core::{Payload, Timestamp, mutant};

use super::{ResponseTurn, Responses, same};
use crate::state::records;

/// An item of a turn, as an event of the stream.
const ITEM: &str = "item";
/// The completion of a turn, as an event of the stream.
pub(super) const COMPLETED: &str = "turn_completed";
/// Events of one page of a walk.
const PAGE: u32 = 500;

/// One native item of a response.
///
/// Take everything out of `json` that must not be kept, keys and raw answers of the provider first of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseItem {
    /// The response that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// Its id at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Its place in the output of the turn.
    pub output_index: u32,
    /// What it is, as the provider says.
    pub kind: String,
    /// How it stands, as the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What tells it from other items of the turn. A later item with the same key takes the place of an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The item, byte for byte.
    pub json: Payload,
    /// When it was archived.
    #[serde(skip)]
    pub archived_at: Option<Timestamp>,
}

/// The items of one completed turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayedTurn {
    /// The turn.
    pub turn: TurnId,
    /// Its items in the order of the output, byte for byte.
    pub items: Vec<Payload>,
}

/// The stored form of an item.
#[derive(Serialize, Deserialize)]
struct Archived {
    turn: TurnId,
    #[serde(flatten)]
    item: ResponseItem,
}

/// The stored form of a completion.
#[derive(Serialize, Deserialize)]
pub(super) struct Completed {
    pub(super) turn: TurnId,
    /// The items of the turn have higher numbers.
    pub(super) after_item: u64,
}

impl ResponseItem {
    /// An item at a place of the output.
    #[must_use]
    pub fn new(output_index: u32, kind: impl Into<String>, json: Payload) -> Self {
        Self {
            response: None,
            item: None,
            output_index,
            kind: kind.into(),
            status: None,
            key: None,
            json,
            archived_at: None,
        }
    }

    /// What tells it from other items of the turn.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl Responses {
    /// Keeps items of a turn that goes on.
    ///
    /// # Errors
    /// `NotFound` when the session has no such turn; `TurnNotOpen` when it has ended; `LeaseHeld` while somebody else
    /// executes a run.
    pub async fn archive(
        &self,
        turn: &TurnId,
        items: impl IntoIterator<Item = ResponseItem> + Send,
    ) -> Result<()> {
        let items: Vec<ResponseItem> = items.into_iter().collect();
        if items.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "there is no item to archive"));
        }
        records::again(|| self.archive_once(turn, &items)).await
    }

    async fn archive_once(&self, turn: &TurnId, items: &[ResponseItem]) -> Result<()> {
        let Some(record) = self.turn_record(turn).await? else { return Err(self.no_turn(turn)) };
        ResponseTurn::from_record(&record)?.refuse_ended()?;
        let at = self.session.workspace().now();
        let kind = EventKind::new(ITEM)?;
        let events: Vec<NewEvent> = items
            .iter()
            .map(|item| {
                let archived = Archived { turn: turn.clone(), item: item.clone() };
                let payload = Payload::from_value(&archived)?;
                Ok(NewEvent { kind: kind.clone(), run: None, at, payload })
            })
            .collect::<Result<_>>()?;
        let append = Op::AppendEvents {
            session: self.session.session_ref().clone(),
            stream: StreamName::new(stream::RESPONSE_ITEMS)?,
            expect_next: None,
            events,
        };
        // The turn must still go on when they land.
        self.write(vec![append], vec![same(collection::RESPONSE_TURNS, &record)?]).await
    }

    /// The items of a turn in the order of the output.
    ///
    /// # Errors
    /// `NotFound` when the session has no such turn.
    pub async fn items(&self, turn: &TurnId) -> Result<Vec<ResponseItem>> {
        let Some(record) = self.turn_record(turn).await? else { return Err(self.no_turn(turn)) };
        let mut after = ResponseTurn::from_record(&record)?.after_item;
        let mut found = Vec::new();
        loop {
            let events = self
                .session
                .events(stream::RESPONSE_ITEMS, |query| {
                    query.after = Some(after);
                    query.limit = PAGE;
                })
                .await?;
            for event in &events.items {
                after = event.number;
                match event.kind.as_str() {
                    ITEM => {
                        let archived: Archived = event.payload.parse()?;
                        if archived.turn == *turn {
                            found.push((event.number, archived.item.at(event)));
                        }
                    }
                    COMPLETED if event.payload.parse::<Completed>()?.turn == *turn => {
                        return Ok(in_order(found));
                    }
                    _ => {}
                }
            }
            if events.next.is_none() {
                return Ok(in_order(found));
            }
        }
    }

    /// The native items of the newest `limit` completed turns, for a replay: the turns in the order in which they were
    /// completed, each with its items in the order of the output. Turns that go on or came to nothing are left out.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted; `Invalid` for a limit of 0.
    pub async fn replay(&self, limit: usize) -> Result<Vec<ReplayedTurn>> {
        if limit == 0 {
            return Err(Error::new(ErrorKind::Invalid, "a limit of 0 asks for nothing; ask for at least 1"));
        }
        // Backwards: a turn is completed after its items.
        let mut turns: Vec<Completed> = Vec::new();
        let mut items: HashMap<TurnId, Vec<(u64, ResponseItem)>> = HashMap::new();
        let mut cursor = None;
        'walk: loop {
            let events = self
                .session
                .events(stream::RESPONSE_ITEMS, |query| {
                    query.order = Order::Descending;
                    query.limit = PAGE;
                    query.cursor = cursor;
                })
                .await?;
            for event in &events.items {
                let needed = turns.iter().map(|turn| turn.after_item).min().unwrap_or(0);
                if turns.len() >= limit && event.number <= needed {
                    break 'walk;
                }
                if event.kind.as_str() == COMPLETED {
                    if turns.len() < limit {
                        let turn: Completed = event.payload.parse()?;
                        items.entry(turn.turn.clone()).or_default();
                        turns.push(turn);
                    }
                } else if event.kind.as_str() == ITEM {
                    let Archived { turn, item } = event.payload.parse()?;
                    let unfinished =
                        mutant::is("responses/open-turns-replayed") && !items.contains_key(&turn);
                    if unfinished {
                        turns.push(Completed { turn: turn.clone(), after_item: 0 });
                    }
                    if unfinished || items.contains_key(&turn) {
                        items.entry(turn).or_default().push((event.number, item));
                    }
                }
            }
            cursor = events.next;
            if cursor.is_none() {
                break;
            }
        }
        let replayed = turns.into_iter().rev().map(|Completed { turn, .. }| {
            let items = in_order(items.remove(&turn).unwrap_or_default());
            ReplayedTurn { turn, items: items.into_iter().map(|item| item.json).collect() }
        });
        Ok(replayed.collect())
    }

    fn no_turn(&self, turn: &TurnId) -> Error {
        Error::new(ErrorKind::NotFound, "the session has no turn at a provider with this id; save it first")
            .with("session", self.session.id())
            .with("turn", turn)
    }
}

impl ResponseItem {
    fn at(mut self, event: &Event) -> Self {
        self.archived_at = Some(event.at);
        self
    }
}

/// The newest item of each key, by their place in the output.
fn in_order(mut items: Vec<(u64, ResponseItem)>) -> Vec<ResponseItem> {
    items.sort_by_key(|(number, _)| *number);
    let mut newest: HashMap<String, u64> = HashMap::new();
    for (number, item) in &items {
        if let Some(key) = &item.key {
            newest.insert(key.clone(), *number);
        }
    }
    items.retain(|(number, item)| item.key.as_ref().is_none_or(|key| newest.get(key) == Some(number)));
    items.sort_by_key(|(number, item)| (item.output_index, *number));
    items.into_iter().map(|(_, item)| item).collect()
}
