//! Comparing costs on a machine that others use too: many small batches by turns, and of each side the fastest one.

use std::time::{Duration, Instant};

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
