//! Ctrl-C: it cancels a turn, not the program.

use crate::failure::{Failure, Outcome};

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for Ctrl-C. One that comes while nobody listens is kept for whoever listens next.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signal: Signal,
}

impl Interrupts {
    /// From now on the program is not ended by Ctrl-C.
    #[cfg(unix)]
    pub(crate) fn listen() -> Outcome<Self> {
        match signal(SignalKind::interrupt()) {
            Ok(signal) => Ok(Self { signal }),
            Err(error) => Err(Failure::program(format!("Ctrl-C cannot be listened for: {error}"))),
        }
    }

    /// From now on the program is not ended by Ctrl-C.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> Outcome<Self> {
        Ok(Self {})
    }

    /// Ends when Ctrl-C is pressed.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        if self.signal.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Ends when Ctrl-C is pressed.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether Ctrl-C was pressed since somebody listened last.
    pub(crate) async fn pending(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.next() => true,
            () = std::future::ready(()) => false,
        }
    }
}
