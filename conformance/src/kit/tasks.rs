//! Doing things at the same time, and giving up on them halfway.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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

/// Readers that look while writers are at work. Without it a quick store would be done before anybody looked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    looks: Arc<AtomicUsize>,
    /// A writer waited in vain: nobody looks any more.
    unwatched: Arc<AtomicBool>,
}

impl Watch {
    /// No reader looks more often than this; the time is bounded by the clause's.
    pub(crate) const MOST: usize = 100_000;

    /// By a reader, before a look: whether it is to be the last one.
    pub(crate) fn is_last(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// By a reader, after a look: lets others go on, at first as briefly as possible.
    pub(crate) async fn looked(&self, look: usize) {
        self.looks.fetch_add(1, Ordering::AcqRel);
        if look < 2_000 {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// By a writer, between commits: waits, not for ever, until somebody looked once more.
    pub(crate) async fn be_seen(&self) {
        let before = self.looks.load(Ordering::Acquire);
        for attempt in 0..700 {
            if self.looks.load(Ordering::Acquire) > before || self.unwatched.load(Ordering::Acquire) {
                return;
            }
            if attempt < 200 {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        self.unwatched.store(true, Ordering::Release);
    }

    /// By the clause, once the writers are done.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }
}
