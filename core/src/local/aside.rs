//! Long work on a thread of its own, so that no executor waits for it, nor any reader or writer.

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};

/// Does `work` aside. Dropping the future does not end the work; what it answers then is dropped too, so a store that
/// is opened for nobody is closed again.
///
/// # Errors
/// What the work answers; `Io` when there can be no thread; `Closed` when the work ended in a panic.
pub async fn aside<T: Send + 'static>(
    operation: &'static str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (reply, answer) = oneshot::channel();
    let thread = std::thread::Builder::new().name(format!("turnkeep-{operation}"));
    let spawned = thread.spawn(move || drop(reply.send(work())));
    let done = match spawned {
        Ok(_) => answer.await.unwrap_or_else(|_| Err(Error::closed())),
        Err(error) => {
            Err(Error::new(ErrorKind::Io, "a thread for the work cannot be started").with_source(error))
        }
    };
    done.map_err(|error| error.with_operation(operation))
}
