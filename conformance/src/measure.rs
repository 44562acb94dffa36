//! Measuring on a machine that others use too. Nothing here looks at a time by itself, only at ratios: of two things done
//! by turns, of each the fastest batch; or of how long a thread was held up, of the time of what held it up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::verdict::Outcome;

/// How often a comparison that came out badly is made anew. A slow moment passes; a slow backend stays.
const ATTEMPTS: usize = 4;

/// Two things done by turns. Only the ratio of their fastest batches counts, never a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Race {
    /// Batches of each side.
    pub(crate) batches: usize,
    /// How many times as much as the first side the second may cost.
    pub(crate) most: f64,
}

impl Race {
    /// Runs it: `Ok(Err(ratio))` if the second side cost more than allowed in every attempt.
    pub(crate) async fn run<A, B>(
        self,
        mut first: impl FnMut() -> A,
        mut second: impl FnMut() -> B,
    ) -> Outcome<Result<(), f64>>
    where
        A: Future<Output = Outcome>,
        B: Future<Output = Outcome>,
    {
        let mut best = f64::INFINITY;
        for _ in 0..ATTEMPTS {
            let (mut fastest, mut other) = (Duration::MAX, Duration::MAX);
            for _ in 0..self.batches {
                fastest = fastest.min(timed(first()).await?);
                other = other.min(timed(second()).await?);
            }
            best = best.min(other.as_secs_f64() / fastest.as_secs_f64().max(1e-9));
            if best <= self.most {
                return Ok(Ok(()));
            }
        }
        Ok(Err(best))
    }
}

async fn timed(part: impl Future<Output = Outcome>) -> Outcome<Duration> {
    let began = Instant::now();
    part.await?;
    Ok(began.elapsed())
}

/// A task that does nothing but look how long it was not let.
#[derive(Debug)]
pub(crate) struct Ticker {
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Seen {
    began: Instant,
    /// When it last ticked, in nanoseconds since it began.
    last: AtomicU64,
    /// The longest time between two ticks.
    longest: AtomicU64,
    over: AtomicBool,
}

impl Seen {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn tick(&self) {
        let now = self.now();
        let last = self.last.swap(now, Ordering::AcqRel);
        self.longest.fetch_max(now.saturating_sub(last), Ordering::AcqRel);
    }
}

impl Ticker {
    /// Starts ticking on this runtime.
    pub(crate) fn start() -> Self {
        let (last, longest) = (AtomicU64::new(0), AtomicU64::new(0));
        let seen = Arc::new(Seen { began: Instant::now(), last, longest, over: AtomicBool::new(false) });
        let ticking = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while !ticking.over.load(Ordering::Acquire) {
                ticking.tick();
                tokio::task::yield_now().await;
            }
        });
        Self { seen, task }
    }

    /// Waits for something, and gives which part of that time was the longest without a tick.
    pub(crate) async fn beside<T>(&self, part: impl Future<Output = T>) -> (T, f64) {
        tokio::task::yield_now().await;
        let began = Instant::now();
        self.seen.last.store(self.seen.now(), Ordering::Release);
        self.seen.longest.store(0, Ordering::Release);
        let answer = part.await;
        self.seen.tick();
        let longest = Duration::from_nanos(self.seen.longest.load(Ordering::Acquire));
        (answer, longest.as_secs_f64() / began.elapsed().as_secs_f64().max(1e-9))
    }

    /// Stops ticking.
    pub(crate) async fn stop(self) {
        self.seen.over.store(true, Ordering::Release);
        // It ends by itself at its next tick; it cannot fail.
        let _ = self.task.await;
    }
}
