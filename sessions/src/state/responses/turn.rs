//! Turns at a provider: the lineage and the end of one response, in summary; no second transcript.

use serde::{Deserialize, Serialize};
use turnkeep_core::commit::{NewEvent, Op};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryNo, EventKind, Status, StreamName, TurnId};
use turnkeep_core::model::{Record, Version, collection, stream};
use turnkeep_core::{Cursor, Page, Payload, Timestamp};

use super::archive::{COMPLETED, Completed};
use super::{Responses, follows, gone};
use crate::state::records;

/// How a turn at a provider stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseStatus {
    /// It goes on.
    #[default]
    Open,
    /// It ended, and its items may be replayed.
    Completed,
    /// It ended before its time.
    Incomplete,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl ResponseStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A turn at a provider.
///
/// Make the next state from the one that was read, so that it knows what it follows:
/// `ResponseTurn { status: ResponseStatus::Completed, ..known }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseTurn {
    /// Its id here, unique in the session.
    pub id: TurnId,
    /// The entry that holds its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<EntryNo>,
    /// The request that the provider knows it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The response that came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// The response that it went on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_response: Option<String>,
    /// The conversation at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Its interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How the provider kept state for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// How it stands. One that ended stays as it is.
    pub status: ResponseStatus,
    /// Why it is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete_reason: Option<String>,
    /// What was asked, in summary, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_summary: Option<Payload>,
    /// What was answered, in summary, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_summary: Option<Payload>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Its items have higher numbers in the archive. Given when it is made.
    #[serde(default)]
    pub after_item: u64,
    /// Which stored state this is; `None` for one that is to be made.
    #[serde(skip)]
    pub version: Option<Version>,
    /// When it was made.
    #[serde(skip)]
    pub created_at: Option<Timestamp>,
}

impl ResponseTurn {
    /// A turn that is to be made.
    #[must_use]
    pub fn new(id: TurnId) -> Self {
        Self {
            id,
            message: None,
            request: None,
            response: None,
            previous_response: None,
            conversation: None,
            provider: None,
            api: None,
            model: None,
            mode: None,
            status: ResponseStatus::Open,
            incomplete_reason: None,
            request_summary: None,
            response_summary: None,
            ended_at: None,
            after_item: 0,
            version: None,
            created_at: None,
        }
    }

    pub(super) fn from_record(record: &Record) -> Result<Self> {
        let stored: Self = record.payload.parse()?;
        Ok(Self { version: Some(record.version), created_at: Some(record.created_at), ..stored })
    }

    pub(super) fn refuse_ended(&self) -> Result<()> {
        if self.status == ResponseStatus::Open {
            return Ok(());
        }
        Err(Error::new(ErrorKind::TurnNotOpen, "the turn at the provider has ended; it stays as it is")
            .with("turn", &self.id))
    }
}

impl Responses {
    /// Makes a turn, moves it on from the state that `turn` was made from, or ends it. Answers it as it is stored now.
    ///
    /// # Errors
    /// `VersionConflict` when it is there already, or somebody else was first; `TurnNotOpen` when it has ended;
    /// `LeaseHeld` while somebody else executes a run.
    pub async fn save_turn(&self, mut turn: ResponseTurn) -> Result<ResponseTurn> {
        let now = self.session.workspace().now();
        let (key, after_item) = match self.turn_record(&turn.id).await? {
            Some(record) => {
                let known = ResponseTurn::from_record(&record)?;
                if turn.version == known.version {
                    known.refuse_ended()?;
                }
                (record.key, known.after_item)
            }
            // Items come after their turn, so that this stays true whatever comes in between.
            None => (self.key(turn.id.as_str())?, self.session.newest_event(stream::RESPONSE_ITEMS).await?),
        };
        turn.after_item = after_item;
        let mut ops = Vec::with_capacity(2);
        if turn.status != ResponseStatus::Open {
            turn.ended_at = turn.ended_at.or(Some(now));
        }
        let status = Some(Status::new(turn.status.as_str())?);
        let owner = Some(self.session.session_ref());
        let expect = follows(turn.version);
        ops.push(records::put(collection::RESPONSE_TURNS, key, owner, status, expect, &turn)?);
        if turn.status == ResponseStatus::Completed {
            let completed = Completed { turn: turn.id.clone(), after_item };
            ops.push(Op::AppendEvents {
                session: self.session.session_ref().clone(),
                stream: StreamName::new(stream::RESPONSE_ITEMS)?,
                expect_next: None,
                events: vec![NewEvent {
                    kind: EventKind::new(COMPLETED)?,
                    run: None,
                    at: now,
                    payload: Payload::from_value(&completed)?,
                }],
            });
        }
        self.write(ops, Vec::new()).await?;
        self.turn(&turn.id).await?.ok_or_else(|| gone("response turn"))
    }

    /// A turn.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn turn(&self, id: &TurnId) -> Result<Option<ResponseTurn>> {
        self.turn_record(id).await?.as_ref().map(ResponseTurn::from_record).transpose()
    }

    /// The turns of the session, the newest first, at most `limit` in one page.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted; `Invalid` for a limit of 0 or a foreign cursor.
    pub async fn turns(&self, limit: u32, cursor: Option<Cursor>) -> Result<Page<ResponseTurn>> {
        let page = self.newest(collection::RESPONSE_TURNS, limit, cursor).await?;
        let items = page.items.iter().map(ResponseTurn::from_record).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next, total: page.total })
    }

    pub(super) async fn turn_record(&self, id: &TurnId) -> Result<Option<Record>> {
        let id_of = |record: &Record| Ok(record.payload.parse::<ResponseTurn>()?.id.to_string());
        self.find(collection::RESPONSE_TURNS, id.as_str(), id_of).await
    }
}
