//! A build under way: what a dead builder had written is compared instead of written again.

use turnkeep_core::error::{Error, Result};
use turnkeep_core::id::{EntryNo, SessionRef};
use turnkeep_core::model::{RestoreState, Row};
use turnkeep_core::rules::fold_row;

use super::builder::Builder;

/// Rows on their way into a builder, all of them from the first.
pub(super) struct Filling<'a> {
    builder: Builder<'a>,
    /// What a former builder had written.
    skip: RestoreState,
    /// What of that was seen again.
    seen: RestoreState,
}

impl<'a> Filling<'a> {
    /// Goes on after what a former builder had written.
    pub(super) fn new(builder: Builder<'a>, built: RestoreState) -> Self {
        Self { builder, skip: built, seen: RestoreState::default() }
    }

    pub(super) fn builder(&self) -> &Builder<'a> {
        &self.builder
    }

    /// Adds a row, unless it is there already. Answers whether all is as expected.
    pub(super) async fn add(&mut self, row: Row) -> Result<bool> {
        if self.seen.rows < self.skip.rows {
            self.seen.digest = fold_row(&self.seen.digest, &row);
            self.seen.rows += 1;
            return Ok(self.seen.rows < self.skip.rows || self.seen.digest == self.skip.digest);
        }
        self.builder.push(row).await?;
        Ok(true)
    }

    /// Writes what is left. Answers whether everything that a former builder had written was seen again.
    pub(super) async fn end(&mut self) -> Result<bool> {
        // Here and not with the seal, so that a refusal is treated like those before.
        self.builder.flush().await?;
        Ok(self.seen.rows == self.skip.rows)
    }

    /// Puts the session into use.
    pub(super) async fn seal(self, leaf: Option<EntryNo>) -> Result<SessionRef> {
        self.builder.seal(leaf, None).await
    }

    /// Removes what was built.
    pub(super) async fn abandon(self) -> Result<()> {
        self.builder.abandon().await
    }

    /// Lets go of what was built, so that the next try can go on with it at once.
    pub(super) async fn leave(self) -> Result<()> {
        self.builder.leave().await
    }

    /// After an error: see [`Builder::give_up`].
    pub(super) async fn give_up(self, error: &Error) {
        self.builder.give_up(error).await;
    }
}
