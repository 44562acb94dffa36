//! Ctrl-C during long work: it ends at its next step, and tidies up.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody pressed Ctrl-C.
#[derive(Clone, Debug)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens from now on; Ctrl-C does not end the program any more.
    pub(crate) fn on_interrupt() -> Self {
        let stop = Self(Arc::new(AtomicBool::new(false)));
        let pressed = stop.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                pressed.0.store(true, Ordering::Relaxed);
            }
        });
        stop
    }

    /// For a progress callback.
    pub(crate) fn wanted(&self) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
