//! Ctrl-C during long work: it ends at its next step, and tidies up.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::interrupt::Interrupts;
use crate::failure::Outcome;

/// Whether somebody pressed Ctrl-C.
#[derive(Clone, Debug)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens from now on; Ctrl-C does not end the program any more.
    pub(crate) fn on_interrupt() -> Outcome<Self> {
        let mut interrupts = Interrupts::listen()?;
        let stop = Self(Arc::new(AtomicBool::new(false)));
        let pressed = stop.clone();
        tokio::spawn(async move {
            interrupts.next().await;
            pressed.0.store(true, Ordering::Relaxed);
        });
        Ok(stop)
    }

    /// For a progress callback.
    pub(crate) fn wanted(&self) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
