//! Lineage: where a provider keeps the state of a conversation, and what the next request has to name.
//!
//! It moves by compare-and-swap, so that two turns never go on from one remote response.

use serde::{Deserialize, Serialize};
use turnkeep_core::commit::{Expect, Outcome};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::model::{Record, Version, collection};
use turnkeep_core::{Timestamp, mutant};

use super::records;
use crate::session::{Plan, Session};

/// The mode in which nothing is kept at the provider: the whole conversation is sent each time.
pub const REPLAY_MODE: &str = "replay";

/// The remote lineage of a session.
#[derive(Clone, Debug)]
pub struct Lineage {
    session: Session,
}

/// A state of the lineage.
///
/// Make the next one from the one that was read, so that it knows what it follows:
/// `LineageState { previous_response: Some(id), ..known }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineageState {
    /// How the provider keeps state; [`REPLAY_MODE`] by default.
    pub mode: String,
    /// The response that the next request goes on from.
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
    /// Which stored state this is; `None` while none is stored.
    #[serde(skip)]
    pub version: Option<Version>,
    /// When it was stored.
    #[serde(skip)]
    pub updated_at: Option<Timestamp>,
}

impl Default for LineageState {
    fn default() -> Self {
        Self {
            mode: REPLAY_MODE.to_owned(),
            previous_response: None,
            conversation: None,
            provider: None,
            api: None,
            model: None,
            version: None,
            updated_at: None,
        }
    }
}

impl Lineage {
    pub(crate) fn new(session: Session) -> Self {
        Self { session }
    }

    /// The state as it is stored; the default if none is.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn get(&self) -> Result<LineageState> {
        match self.record().await? {
            Some(record) => LineageState::from_record(&record),
            None => Ok(LineageState::default()),
        }
    }

    /// Moves on to `next`, if the stored state is still the one that it was made from. Answers the state as it is stored
    /// now. Only who may write to the session may do so: while a run executes, the handle that executes it.
    ///
    /// # Errors
    /// `VersionConflict` when another turn was first; `LeaseHeld` while somebody else executes a run; `NotFound` when the
    /// session was deleted.
    pub async fn advance(&self, mut next: LineageState) -> Result<LineageState> {
        let expect = next.version.map_or(Expect::Absent, Expect::Version);
        let expect = mutant::either("lineage/last-turn-wins", Expect::Any, expect);
        // An import under another id keeps keys, so that the key has to be looked up. The version decides, not this.
        let key = match self.record().await? {
            Some(record) => record.key,
            None => records::single_key(self.session.session_ref())?,
        };
        let owner = Some(self.session.session_ref());
        let op = records::put(collection::LINEAGE, key, owner, None, expect, &next)?;
        let plan = Plan::new(move |_| Ok(vec![op.clone()])).at_any_leaf();
        let written = self.session.write(plan).await?;
        let Some(Outcome::Record { version, .. }) = written.receipt.outcomes.get(written.first) else {
            return Err(Error::new(ErrorKind::Corrupt, "the receipt of the commit names no record"));
        };
        next.version = Some(*version);
        next.updated_at =
            self.record().await?.filter(|now| now.version == *version).map(|now| now.updated_at);
        Ok(next)
    }

    async fn record(&self) -> Result<Option<Record>> {
        records::single(&self.session, collection::LINEAGE).await
    }
}

impl LineageState {
    fn from_record(record: &Record) -> Result<Self> {
        let stored: Self = record.payload.parse()?;
        Ok(Self { version: Some(record.version), updated_at: Some(record.updated_at), ..stored })
    }
}
