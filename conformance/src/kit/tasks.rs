//! Doing things at the same time, and giving up on them halfway.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::verdict::{Outcome, Stop};

/// Starts a part of a clause as a task of its own.
pub(crate) fn spawn<T: Send + 'static>(
    part: impl Future<Output = Outcome<T>> + Send + 'static,
) -> JoinHandle<Outcome<T>> {
    tokio::spawn(part)
}

/// Waits for all parts; the first that stopped stops the clause.
pub(crate) async fn gather<T>(parts: Vec<JoinHandle<Outcome<T>>>) -> Outcome<Vec<T>> {
    let mut results = Vec::with_capacity(parts.len());
    for part in parts {
        let ended =
            part.await.map_err(|error| Stop::fail(format!("a task of the clause panicked: {error}")))?;
        results.push(ended?);
    }
    Ok(results)
}

/// Polls a future at most so often, as it asks for it, and drops it. `None` if it was not done by then.
pub(crate) async fn polled<F: Future>(future: F, most: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|task| {
        if polls >= most {
            return Poll::Ready(None);
        }
        polls += 1;
        match future.as_mut().poll(task) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls >= most => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// No reader of the suite looks more often than this while writers are at work; the time is bounded by the clause's.
pub(crate) const MOST_LOOKS: usize = 100_000;

/// Lets others go on between two looks: at first as briefly as possible, so that a quick store is seen at work too.
pub(crate) async fn between_looks(look: usize) {
    if look < 2_000 {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
