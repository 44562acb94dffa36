//! Ctrl-C, or a polite signal to end: what is under way is ended, what was made is removed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

/// Turns true when somebody wants this program to end. It does not end by itself from here on: the listening has begun
/// when this returns, so that no signal falls between the first folder made and the first look.
pub(super) fn watch() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let pressed = Arc::clone(&stop);
    let (listening, begun) = mpsc::channel();
    // A thread that ends with the program: the caller may be inside a runtime of its own. Without a runtime nobody
    // listens, and Ctrl-C ends the program at once.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(async {
            let mut wishes = Wishes::listen().ok()?;
            listening.send(()).ok()?;
            pressed.store(wishes.next().await, Ordering::Relaxed);
            Some(())
        })
    });
    // An error means that the thread ended: nobody listens.
    let _ = begun.recv();
    stop
}

#[cfg(unix)]
struct Wishes {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Wishes {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> bool {
        tokio::select! {
            pressed = self.interrupt.recv() => pressed.is_some(),
            told = self.terminate.recv() => told.is_some(),
        }
    }
}

#[cfg(windows)]
struct Wishes(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Wishes {
    fn listen() -> std::io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}
