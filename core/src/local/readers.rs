//! Reads run on threads of their own, so that no executor ever waits for the disk.
//!
//! Each thread owns what it reads through: a connection, or a share in the one database of the process.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

/// How long a reader looks for the next job before it sleeps. Waking a sleeping thread takes about as long, and
/// reads come in rows.
const LOOK: Duration = Duration::from_micros(30);

type Job<C> = Box<dyn FnOnce(&C) + Send>;

/// A few connections, each with its thread, fed from one queue.
#[derive(Debug)]
pub struct Readers<C> {
    queue: Arc<Queue<C>>,
    threads: Mutex<Vec<(JoinHandle<()>, oneshot::Receiver<()>)>>,
}

struct Queue<C> {
    state: Mutex<State<C>>,
}

struct State<C> {
    jobs: VecDeque<Job<C>>,
    /// Threads that sleep. The one that slept in last is woken first: its connection has the newest pages at hand.
    asleep: Vec<Thread>,
    /// Threads that look for a job without sleeping.
    looking: usize,
    closed: bool,
}

impl<C> State<C> {
    /// A thread to wake for the newest job, unless one looks for it anyway.
    fn wake_for_newest(&mut self) -> Option<Thread> {
        if self.looking >= self.jobs.len() { None } else { self.asleep.pop() }
    }
}

impl<C> std::fmt::Debug for Queue<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl<C> Queue<C> {
    /// A push and a pop leave no half-done state that a panic could expose.
    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, conn: &C) {
        while let Some(job) = self.next() {
            // A panic here is a bug of ours; it must not take the thread, or reads would wait for ever.
            let _ = catch_unwind(AssertUnwindSafe(|| job(conn)));
        }
    }

    /// The next job; `None` when the readers are closed and nothing is left.
    fn next(&self) -> Option<Job<C>> {
        let mut state = self.state();
        if state.jobs.is_empty() && !state.closed {
            state.looking += 1;
            drop(state);
            let until = Instant::now() + LOOK;
            while Instant::now() < until {
                std::hint::spin_loop();
                if let Ok(state) = self.state.try_lock()
                    && (!state.jobs.is_empty() || state.closed)
                {
                    break;
                }
            }
            state = self.state();
            state.looking -= 1;
        }
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            let me = std::thread::current();
            state.asleep.push(me.clone());
            drop(state);
            std::thread::park();
            state = self.state();
            // Sleep may end by itself.
            state.asleep.retain(|thread| thread.id() != me.id());
        }
    }

    fn stop(&self) {
        let asleep = {
            let mut state = self.state();
            state.closed = true;
            std::mem::take(&mut state.asleep)
        };
        asleep.iter().for_each(Thread::unpark);
    }
}

impl<C: Send + 'static> Readers<C> {
    /// Starts one thread per connection.
    ///
    /// # Errors
    /// `Io` when there can be no thread.
    pub fn start(connections: Vec<C>) -> Result<Self> {
        let state = State { jobs: VecDeque::new(), asleep: Vec::new(), looking: 0, closed: false };
        let queue = Arc::new(Queue { state: Mutex::new(state) });
        let readers = Self { queue: Arc::clone(&queue), threads: Mutex::default() };
        for conn in connections {
            let queue = Arc::clone(&queue);
            let (ended, end) = oneshot::channel();
            let thread = std::thread::Builder::new()
                .name("turnkeep-read".to_owned())
                .spawn(move || {
                    queue.work(&conn);
                    // The connection goes before anybody is told.
                    drop(conn);
                    let _ = ended.send(());
                })
                .map_err(|error| {
                    Error::new(ErrorKind::Io, "a reader's thread cannot be started").with_source(error)
                })?;
            readers.threads().push((thread, end));
        }
        Ok(readers)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<(JoinHandle<()>, oneshot::Receiver<()>)>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a read on one of the threads.
    ///
    /// # Errors
    /// What the read answers; `Closed` when the readers are.
    pub async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        read: impl FnOnce(&C) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let job: Job<C> = Box::new(move |conn| {
            // Whoever asked may have gone away; then the work is not done either.
            if !reply.is_closed() {
                let _ = reply.send(read(conn));
            }
        });
        let asleep = {
            let mut state = self.queue.state();
            if state.closed {
                return Err(Error::closed().with_operation(operation));
            }
            state.jobs.push_back(job);
            state.wake_for_newest()
        };
        if let Some(thread) = asleep {
            thread.unpark();
        }
        let answer = answer.await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Io, "a read ended without an answer; this is a bug of turnkeep"))
        });
        answer.map_err(|error| error.with_operation(operation))
    }

    /// Whether [`Readers::close`] was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.queue.state().closed
    }

    /// Ends the threads after the reads that are queued.
    pub async fn close(&self) {
        self.queue.stop();
        loop {
            let Some((thread, end)) = self.threads().pop() else { return };
            let _ = end.await;
            // It has told of its end and only returns now: this wait is short.
            let _ = thread.join();
        }
    }
}

impl<C> Drop for Readers<C> {
    fn drop(&mut self) {
        self.queue.stop();
    }
}
