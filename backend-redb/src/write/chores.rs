//! What the writer does between commits: slices of purges, old receipts.

use std::time::Instant;

use turnkeep_core::Result;
use turnkeep_core::mutant;
use turnkeep_core::store::PurgeReport;

use crate::write::{Writer, purge};

impl Writer {
    /// Chores of the moment. A chore that fails is tried again later. Answers whether more is to be done.
    pub(super) fn keep_house(&mut self, idle: bool) -> bool {
        if self.database.permit().check().is_err() {
            return false;
        }
        let due = self.pace.round(idle, Instant::now());
        if due.purge {
            let _ = self.purge_slice();
        }
        if due.expiry {
            self.expire();
        }
        self.pace.waits(Instant::now())
    }

    /// Purges one slice in a transaction of its own; `None` when nothing waits.
    ///
    /// # Errors
    /// Whatever the engine answers.
    pub(crate) fn purge_slice(&mut self) -> Result<Option<PurgeReport>> {
        let report = self.in_transaction(purge::deleted_slice);
        self.pace.purged(&report);
        report
    }

    /// Removes a slice of expired receipts.
    fn expire(&mut self) {
        let now = self.clock.now();
        let removed = self.in_transaction(|open| Ok(purge::expired_slice(open, now)?.then_some(())));
        self.pace.expired(matches!(removed, Ok(Some(()))), Instant::now());
    }

    /// Gives unused space back: moves the pages of the file together and cuts it.
    ///
    /// # Errors
    /// `Busy` while long work reads the store, and whatever the engine answers.
    pub(crate) fn compact(&mut self) -> Result<()> {
        self.database.permit().check()?;
        if mutant::is("redb/compacts-nothing") {
            return Ok(());
        }
        let done = self.database.compact();
        if let Err(error) = &done
            && error.kind() != turnkeep_core::ErrorKind::Busy
        {
            self.database.permit().poison(error);
        }
        done
    }

    /// Pauses writing for a look at the file from outside.
    ///
    /// # Errors
    /// What `look` answers.
    pub(crate) fn paused<T>(&mut self, look: impl FnOnce() -> Result<T>) -> Result<T> {
        look()
    }
}
