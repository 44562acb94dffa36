//! Ctrl-C, or a polite signal to end: what is under way is ended, what was made is removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Turns true when somebody wants this program to end. It does not end by itself from here on.
pub(super) fn watch() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let pressed = Arc::clone(&stop);
    // A thread that ends with the program. Without a runtime nobody listens, and Ctrl-C ends the program at once.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        if runtime.block_on(wanted()) {
            pressed.store(true, Ordering::Relaxed);
        }
    });
    stop
}

#[cfg(unix)]
async fn wanted() -> bool {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return tokio::signal::ctrl_c().await.is_ok();
    };
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed.is_ok(),
        told = terminate.recv() => told.is_some(),
    }
}

#[cfg(not(unix))]
async fn wanted() -> bool {
    tokio::signal::ctrl_c().await.is_ok()
}
