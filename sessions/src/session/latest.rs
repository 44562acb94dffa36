//! The newest entry of a kind on the current branch.

use serde::Deserialize;
use turnkeep_core::error::Result;
use turnkeep_core::id::{EntryKind, EntryNo};
use turnkeep_core::model::{Entry, Title, TitleSource, VisibilitySet, entry_kind};
use turnkeep_core::mutant;
use turnkeep_core::query::{Order, PathTo};

use super::Session;
use crate::draft::{Compaction, Directories, ModeChange, ModelChange, ThinkingLevel};

/// A typed value and the entry that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latest<T> {
    /// The number of the entry.
    pub number: EntryNo,
    /// The value.
    pub value: T,
}

#[derive(Deserialize)]
struct TitlePayload {
    title: String,
    source: TitleSource,
}

impl Session {
    /// The newest entry of a kind on the current branch.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted; `Invalid` when the kind is no id.
    pub async fn latest(&self, kind: &str) -> Result<Option<Entry>> {
        let kind = EntryKind::new(kind)?;
        let page = self
            .entries(move |query| {
                query.kinds = vec![kind];
                query.path = mutant::either("latest/of-any-branch", None, Some(PathTo::Leaf));
                query.visibility = VisibilitySet::COMMITTED;
                query.order = Order::Descending;
                query.limit = 1;
            })
            .await?;
        Ok(page.items.into_iter().next())
    }

    /// The newest compaction on the current branch.
    ///
    /// # Errors
    /// As [`latest`](Self::latest); `Invalid` when its payload does not fit.
    pub async fn latest_compaction(&self) -> Result<Option<Latest<Compaction>>> {
        self.latest_as(entry_kind::COMPACTION, Compaction::from_entry).await
    }

    /// The newest change of model on the current branch.
    ///
    /// # Errors
    /// As [`latest`](Self::latest); `Invalid` when its payload does not fit.
    pub async fn latest_model(&self) -> Result<Option<Latest<ModelChange>>> {
        self.latest_as(entry_kind::MODEL_CHANGE, ModelChange::from_entry).await
    }

    /// The newest change of mode on the current branch.
    ///
    /// # Errors
    /// As [`latest`](Self::latest); `Invalid` when its payload does not fit.
    pub async fn latest_mode(&self) -> Result<Option<Latest<ModeChange>>> {
        self.latest_as(entry_kind::MODE_CHANGE, ModeChange::from_entry).await
    }

    /// The newest thinking level on the current branch.
    ///
    /// # Errors
    /// As [`latest`](Self::latest); `Invalid` when its payload does not fit.
    pub async fn latest_thinking_level(&self) -> Result<Option<Latest<ThinkingLevel>>> {
        self.latest_as(entry_kind::THINKING_LEVEL_CHANGE, ThinkingLevel::from_entry).await
    }

    /// The newest set of additional directories on the current branch.
    ///
    /// # Errors
    /// As [`latest`](Self::latest); `Invalid` when its payload does not fit.
    pub async fn latest_directories(&self) -> Result<Option<Latest<Directories>>> {
        let mut latest = self.latest_as(entry_kind::ADDITIONAL_DIRECTORIES, Directories::from_entry).await?;
        if let Some(Latest { value, .. }) =
            latest.as_mut().filter(|_| mutant::is("directories/only-the-first-counts"))
        {
            value.directories.truncate(1);
        }
        Ok(latest)
    }

    /// The newest title on the current branch. The display name, which a rename changes too, is in the row.
    ///
    /// # Errors
    /// As [`latest`](Self::latest); `Invalid` when its payload does not fit.
    pub async fn latest_title(&self) -> Result<Option<Latest<Title>>> {
        self.latest_as(entry_kind::SESSION_INFO, |entry| {
            let TitlePayload { title, source } = entry.payload.parse()?;
            Ok(Title { text: title, source })
        })
        .await
    }

    async fn latest_as<T>(
        &self,
        kind: &'static str,
        read: impl FnOnce(&Entry) -> Result<T> + Send,
    ) -> Result<Option<Latest<T>>> {
        match self.latest(kind).await? {
            Some(entry) => Ok(Some(Latest { number: entry.number, value: read(&entry)? })),
            None => Ok(None),
        }
    }
}
