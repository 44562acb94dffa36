//! Long work on a thread and a connection of its own, so that ordinary reads never wait for it.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, InterruptHandle};
use turnkeep_core::local::aside;
use turnkeep_core::{Error, Result};

use crate::{SqliteStore, connection};

/// Ends the work when nobody waits for it any more.
#[derive(Default)]
struct Stop {
    handle: Arc<Mutex<Option<InterruptHandle>>>,
}

impl Drop for Stop {
    fn drop(&mut self) {
        // The work takes its handle out when it is done, so a later statement is never hit.
        if let Some(handle) = self.handle.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            handle.interrupt();
        }
    }
}

impl SqliteStore {
    /// Runs long work aside. Dropping the future interrupts it.
    pub(super) async fn aside<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.inner.readers.is_closed() {
            return Err(Error::closed().with_operation(operation));
        }
        let (path, options) = (self.inner.files.db.clone(), self.inner.options.clone());
        let stop = Stop::default();
        let handle = Arc::clone(&stop.handle);
        let set = move |value: Option<InterruptHandle>| {
            *handle.lock().unwrap_or_else(PoisonError::into_inner) = value;
        };
        let done = aside(operation, move || {
            let mut conn = connection::open_reader(&path, &options)?;
            set(Some(conn.get_interrupt_handle()));
            let done = work(&mut conn);
            set(None);
            done
        })
        .await;
        drop(stop);
        done
    }
}
