//! What the writer does between commits: slices of purges, old receipts.

use std::time::{Duration, Instant};

use turnkeep_core::Result;
use turnkeep_core::mutant;
use turnkeep_core::store::PurgeReport;

use crate::write::{Writer, purge};

/// Rounds of commits after which a waiting purge gets a slice although nobody is idle.
const PURGE_EVERY: u32 = 8;
/// How often expired requests are looked for.
const EXPIRY_PAUSE: Duration = Duration::from_secs(60 * 60);

/// What is to be done, and when next.
#[derive(Debug)]
pub(super) struct Chores {
    deleted_may_wait: bool,
    rounds: u32,
    next_expiry: Instant,
}

impl Default for Chores {
    /// Whoever had the store before may have left deleted sessions behind.
    fn default() -> Self {
        let deleted_may_wait = !mutant::is("redb/purge-forgotten-at-the-start");
        Self { deleted_may_wait, rounds: 0, next_expiry: Instant::now() }
    }
}

impl Chores {
    /// There may be deleted sessions to purge.
    pub(super) fn look_for_deleted(&mut self) {
        self.deleted_may_wait = !mutant::is("redb/purge-waits-to-be-asked");
    }
}

impl Writer {
    /// Chores of the moment. A chore that fails is tried again later. Answers whether more is to be done.
    pub(super) fn keep_house(&mut self, idle: bool) -> bool {
        if self.may_write().is_err() {
            return false;
        }
        self.chores.rounds = self.chores.rounds.wrapping_add(1);
        let mut more = false;
        if self.chores.deleted_may_wait && (idle || self.chores.rounds.is_multiple_of(PURGE_EVERY)) {
            // What cannot be purged now waits for the next deletion or the next process.
            more |= matches!(self.purge_slice(), Ok(Some(_)));
        }
        if idle && Instant::now() >= self.chores.next_expiry {
            let removed = self.expire().unwrap_or(0);
            if removed == 0 {
                self.chores.next_expiry = Instant::now() + EXPIRY_PAUSE;
            }
            more |= removed > 0;
        }
        more
    }

    /// Purges one slice in a transaction of its own; `None` when nothing waits.
    ///
    /// # Errors
    /// Whatever the engine answers.
    pub(crate) fn purge_slice(&mut self) -> Result<Option<PurgeReport>> {
        let report = self.in_transaction(|writer| {
            let report = purge::deleted_slice(writer.transaction()?)?;
            writer.dirty = report.is_some();
            Ok(report)
        });
        if !matches!(report, Ok(Some(_))) {
            self.chores.deleted_may_wait = false;
        }
        report
    }

    fn expire(&mut self) -> Result<usize> {
        let now = self.clock.now();
        self.in_transaction(|writer| {
            let removed = purge::expired_slice(writer.transaction()?, now)?;
            writer.dirty = removed > 0;
            Ok(removed)
        })
    }

    /// Gives unused space back: moves the pages of the file together and cuts it.
    ///
    /// # Errors
    /// `Busy` while long work reads the store, and whatever the engine answers.
    pub(crate) fn compact(&mut self) -> Result<()> {
        self.may_write()?;
        if mutant::is("redb/compacts-nothing") {
            return Ok(());
        }
        let done = self.database.compact();
        if let Err(error) = &done
            && error.kind() != turnkeep_core::ErrorKind::Busy
        {
            self.poisoned.get_or_insert_with(|| error.duplicate());
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
