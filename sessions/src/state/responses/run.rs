//! Runs at a provider: what has to be polled, from where, and whether it should stop.

use serde::{Deserialize, Serialize};
use turnkeep_core::error::Result;
use turnkeep_core::id::{EntryNo, RunId, Status, TurnId};
use turnkeep_core::model::{Record, Version, collection};
use turnkeep_core::{Cursor, Page, Timestamp};

use super::{Responses, follows, gone};
use crate::state::records;

/// A run at a provider.
///
/// Make the next state from the one that was read, so that it knows what it follows:
/// `ResponseRun { last_event: Some(41), ..known }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseRun {
    /// Its id here, unique in the session.
    pub id: RunId,
    /// The turn here that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The entry that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<EntryNo>,
    /// Its id at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// The provider.
    pub provider: String,
    /// Its interface.
    pub api: String,
    /// Where it stands, as the provider says.
    pub state: String,
    /// Where to ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polling_url: Option<String>,
    /// The last event of it that was seen here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event: Option<u64>,
    /// Whether the provider was to be told to stop it.
    #[serde(default)]
    pub cancel_requested: bool,
    /// Which stored state this is; `None` for one that is to be made.
    #[serde(skip)]
    pub version: Option<Version>,
    /// When it was made.
    #[serde(skip)]
    pub created_at: Option<Timestamp>,
    /// When it changed last.
    #[serde(skip)]
    pub updated_at: Option<Timestamp>,
}

impl ResponseRun {
    /// A run that is to be made.
    #[must_use]
    pub fn new(
        id: RunId,
        provider: impl Into<String>,
        api: impl Into<String>,
        state: impl Into<String>,
    ) -> Self {
        Self {
            id,
            turn: None,
            message: None,
            response: None,
            provider: provider.into(),
            api: api.into(),
            state: state.into(),
            polling_url: None,
            last_event: None,
            cancel_requested: false,
            version: None,
            created_at: None,
            updated_at: None,
        }
    }

    fn from_record(record: &Record) -> Result<Self> {
        let stored: Self = record.payload.parse()?;
        Ok(Self {
            version: Some(record.version),
            created_at: Some(record.created_at),
            updated_at: Some(record.updated_at),
            ..stored
        })
    }
}

impl Responses {
    /// Makes a run, or moves it on from the state that `run` was made from. Answers it as it is stored now.
    ///
    /// # Errors
    /// `VersionConflict` when it is there already, or somebody else was first; `LeaseHeld` while somebody else executes a
    /// run; `Invalid` for an empty state.
    pub async fn save_run(&self, run: ResponseRun) -> Result<ResponseRun> {
        let known = self.run_record(&run.id).await?;
        let key = match known {
            Some(record) => record.key,
            None => self.key(run.id.as_str())?,
        };
        let status = Some(Status::new(&run.state)?);
        let owner = Some(self.session.session_ref());
        let put = records::put(collection::RESPONSE_RUNS, key, owner, status, follows(run.version), &run)?;
        self.write(vec![put], Vec::new()).await?;
        self.run(&run.id).await?.ok_or_else(|| gone("response run"))
    }

    /// A run.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn run(&self, id: &RunId) -> Result<Option<ResponseRun>> {
        self.run_record(id).await?.as_ref().map(ResponseRun::from_record).transpose()
    }

    /// The runs of the session, the newest first, at most `limit` in one page.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted; `Invalid` for a limit of 0 or a foreign cursor.
    pub async fn runs(&self, limit: u32, cursor: Option<Cursor>) -> Result<Page<ResponseRun>> {
        let page = self.newest(collection::RESPONSE_RUNS, limit, cursor).await?;
        let items = page.items.iter().map(ResponseRun::from_record).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next, total: page.total })
    }

    async fn run_record(&self, id: &RunId) -> Result<Option<Record>> {
        let id_of = |record: &Record| Ok(record.payload.parse::<ResponseRun>()?.id.to_string());
        self.find(collection::RESPONSE_RUNS, id.as_str(), id_of).await
    }
}
