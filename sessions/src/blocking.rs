//! The same API for hosts without a runtime: `.wait()` instead of `.await`.
//!
//! Everything that is awaited in this crate can be waited for, so both flavours have the same capabilities. No runtime
//! is needed. Do not wait on a thread that drives other futures; within tokio, use `spawn_blocking`.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use turnkeep_core::mutant;

/// Waits for what others await.
pub trait Wait: IntoFuture + Sized {
    /// Blocks this thread until the answer is there.
    fn wait(self) -> Self::Output {
        block_on(self.into_future())
    }
}

impl<F: IntoFuture> Wait for F {}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which sleeps while there is nothing to do.
pub fn block_on<F: Future>(future: F) -> F::Output {
    if mutant::is("blocking/asks-for-a-runtime") {
        drop(tokio::runtime::Handle::current());
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
