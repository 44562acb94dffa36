//! When a writer does which chore.

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::mutant;
use crate::store::PurgeReport;

/// Rounds of commits after which a waiting purge gets a slice although somebody waits.
const PURGE_EVERY: u32 = 8;
/// How long nobody looks for expired requests once there are no more.
const EXPIRY_PAUSE: Duration = Duration::from_secs(60 * 60);

/// When deleted sessions are purged and expired requests are removed, a slice at a time. A backend asks after each
/// round of commits what is due, and tells what became of each slice.
#[derive(Debug)]
pub struct Pace {
    deleted_may_wait: bool,
    rounds: u32,
    next_expiry: Instant,
}

/// The slices that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// One of a purge.
    pub purge: bool,
    /// One of expired requests.
    pub expiry: bool,
}

impl Pace {
    /// Of a writer that begins: whoever had the store before may have left both behind.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        let deleted_may_wait = !mutant::is("pace/purge-forgotten-at-the-start");
        Self { deleted_may_wait, rounds: 0, next_expiry: now }
    }

    /// There may be deleted sessions to purge.
    pub fn look_for_deleted(&mut self) {
        self.deleted_may_wait = !mutant::is("pace/purge-waits-to-be-asked");
    }

    /// What is due after a round; `idle` says whether nobody waits.
    pub fn round(&mut self, idle: bool, now: Instant) -> Due {
        self.rounds = (self.rounds + 1) % PURGE_EVERY;
        let turn = idle || self.rounds == 0;
        Due { purge: self.deleted_may_wait && turn, expiry: idle && self.expiry_waits(now) }
    }

    /// What became of a slice of a purge: `None` where no deleted session was left. What cannot be purged now waits for
    /// the next deletion or the next process.
    pub fn purged(&mut self, slice: &Result<Option<PurgeReport>>) {
        self.deleted_may_wait = matches!(slice, Ok(Some(_)));
    }

    /// A slice of expired requests was removed, and `more` may be there.
    pub fn expired(&mut self, more: bool, now: Instant) {
        if !more {
            self.next_expiry = now + EXPIRY_PAUSE;
        }
    }

    /// Whether something would be due if nobody waited.
    #[must_use]
    pub fn waits(&self, now: Instant) -> bool {
        self.deleted_may_wait || self.expiry_waits(now)
    }

    fn expiry_waits(&self, now: Instant) -> bool {
        now >= self.next_expiry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, ErrorKind};

    const NOTHING: Due = Due { purge: false, expiry: false };
    const PURGE: Due = Due { purge: true, expiry: false };
    const EXPIRY: Due = Due { purge: false, expiry: true };

    /// Of a writer that has found nothing to do, and when that was.
    fn at_rest() -> (Pace, Instant) {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.purged(&Ok(None));
        pace.expired(false, now);
        (pace, now)
    }

    #[test]
    fn a_writer_begins_with_both() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        assert!(pace.waits(now));
        assert_eq!(pace.round(true, now), Due { purge: true, expiry: true });
        pace.purged(&Ok(None));
        assert!(pace.waits(now), "the expired ones were not looked for");
        assert_eq!(pace.round(true, now), EXPIRY);
        pace.expired(false, now);
        assert!(!pace.waits(now));
        assert_eq!(pace.round(true, now), NOTHING);
    }

    #[test]
    fn a_purge_goes_on_until_none_is_left_or_one_fails() {
        let (mut pace, now) = at_rest();
        for end in [Ok(None), Err(Error::new(ErrorKind::Io, "no"))] {
            assert!(!pace.waits(now));
            pace.look_for_deleted();
            for _ in 0..3 {
                assert!(pace.waits(now));
                assert_eq!(pace.round(true, now), PURGE);
                pace.purged(&Ok(Some(PurgeReport::default())));
            }
            pace.purged(&end);
            assert!(!pace.waits(now));
            assert_eq!(pace.round(true, now), NOTHING);
        }
    }

    #[test]
    fn while_somebody_waits_a_purge_has_every_eighth_round_and_expired_requests_none() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        for round in 1..=32 {
            let due = pace.round(false, now);
            assert_eq!(due, if round % 8 == 0 { PURGE } else { NOTHING }, "round {round}");
            pace.purged(&Ok(Some(PurgeReport::default())));
        }
        pace.purged(&Ok(None));
        assert!((0..32).all(|_| pace.round(false, now) == NOTHING));
        assert!(pace.waits(now), "the expired ones");
    }

    #[test]
    fn expired_requests_are_looked_for_until_none_is_left_and_again_after_an_hour() {
        let hour = Duration::from_secs(3600);
        let (mut pace, then) = at_rest();
        let early = then + hour - Duration::from_nanos(1);
        assert!(!pace.waits(early));
        assert_eq!(pace.round(true, early), NOTHING);
        let now = then + hour;
        for _ in 0..3 {
            assert!(pace.waits(now));
            assert_eq!(pace.round(true, now), EXPIRY);
            pace.expired(true, now);
        }
        pace.expired(false, now);
        assert_eq!(pace.round(true, now), NOTHING);
        assert!(!pace.waits(now + hour - Duration::from_nanos(1)));
        assert!(pace.waits(now + hour));
    }
}
