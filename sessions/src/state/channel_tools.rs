//! The tools that the channel of a session offers, with a generation that tells one set from the next.

use serde::{Deserialize, Serialize};
use turnkeep_core::error::Result;
use turnkeep_core::model::collection;
use turnkeep_core::mutant;

use super::records;
use crate::session::{Plan, Session};

/// The channel tools of a session.
#[derive(Clone, Debug)]
pub struct ChannelTools {
    session: Session,
}

/// A tool of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelTool {
    /// Its name.
    pub name: String,
    /// Whether it may be used.
    pub enabled: bool,
}

/// A whole set of tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelToolSet {
    /// Goes up by one with each set; 0 before the first.
    pub generation: u64,
    /// The tools, in the order given.
    pub tools: Vec<ChannelTool>,
}

impl ChannelTools {
    pub(crate) fn new(session: Session) -> Self {
        Self { session }
    }

    /// The set as it is now.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn get(&self) -> Result<ChannelToolSet> {
        match records::single(&self.session, collection::CHANNEL_TOOLS).await? {
            Some(record) => record.payload.parse(),
            None => Ok(ChannelToolSet::default()),
        }
    }

    /// Replaces the set; the generation goes up by one, also when many set at once. Needs no lease.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn set(&self, tools: impl IntoIterator<Item = ChannelTool> + Send) -> Result<ChannelToolSet> {
        let tools: Vec<ChannelTool> = tools.into_iter().collect();
        records::again(|| self.set_once(&tools)).await
    }

    async fn set_once(&self, tools: &[ChannelTool]) -> Result<ChannelToolSet> {
        let before = records::single(&self.session, collection::CHANNEL_TOOLS).await?;
        let known: ChannelToolSet = match &before {
            Some(record) => record.payload.parse()?,
            None => ChannelToolSet::default(),
        };
        let step = mutant::either("channel-tools/generation-stays", 0, 1);
        let set = ChannelToolSet { generation: known.generation.saturating_add(step), tools: tools.to_vec() };
        let session = self.session.session_ref();
        let op = records::put_single(session, collection::CHANNEL_TOOLS, before.as_ref(), &set)?;
        self.session.write(Plan::new(move |_| Ok(vec![op.clone()])).shared()).await?;
        Ok(set)
    }
}

impl ChannelTool {
    /// A tool that may be used.
    #[must_use]
    pub fn enabled(name: impl Into<String>) -> Self {
        Self { name: name.into(), enabled: true }
    }

    /// A tool that may not.
    #[must_use]
    pub fn disabled(name: impl Into<String>) -> Self {
        Self { name: name.into(), enabled: false }
    }
}
