//! The keeper: one thread per workspace that renews leases, closes dropped runs and measures waits.
//!
//! It has a runtime of its own, so that all of this also works for a host that has none.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc as std_mpsc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use turnkeep_core::error::{Error, ErrorKind, Result};

/// How long the end of a workspace waits for closes that are under way.
const DRAIN: Duration = Duration::from_secs(5);

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

enum Command {
    Run(Job),
    Drain(oneshot::Sender<()>),
}

/// The thread. Dropping it lets queued jobs finish, for a bounded time.
pub(crate) struct Keeper {
    handle: Handle,
    commands: Option<mpsc::UnboundedSender<Command>>,
    finished: std::sync::Mutex<std_mpsc::Receiver<()>>,
    thread: ThreadId,
}

impl Keeper {
    pub(crate) fn start() -> Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
                Error::new(ErrorKind::Io, "cannot start the workspace's background thread").with_source(error)
            })?;
        let handle = runtime.handle().clone();
        let (commands, inbox) = mpsc::unbounded_channel();
        let (done, finished) = std_mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name("turnkeep-keeper".into())
            .spawn(move || {
                runtime.block_on(serve(inbox));
                // Its tasks hold the store, whose owner must not outlive the workspace.
                drop(runtime);
                let _ = done.send(());
            })
            .map_err(|error| {
                Error::new(ErrorKind::Io, "cannot start the workspace's background thread").with_source(error)
            })?;
        let thread = thread.thread().id();
        Ok(Self { handle, commands: Some(commands), finished: std::sync::Mutex::new(finished), thread })
    }

    /// Lets others measure waits on this thread.
    pub(crate) fn timer(&self) -> Timer {
        Timer(self.handle.clone())
    }

    /// Runs something that must be finished before the workspace ends.
    pub(crate) fn queue(&self, job: impl Future<Output = ()> + Send + 'static) {
        self.queue_handle().queue(job);
    }

    /// A way to queue jobs that does not keep the workspace alive.
    pub(crate) fn queue_handle(&self) -> Queue {
        Queue(self.commands.as_ref().map(mpsc::UnboundedSender::downgrade))
    }

    /// Runs something that ends with the workspace.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(task));
    }

    /// Waits until everything queued so far is finished.
    pub(crate) async fn drain(&self) {
        let (done, finished) = oneshot::channel();
        if let Some(commands) = &self.commands
            && commands.send(Command::Drain(done)).is_ok()
        {
            let _ = finished.await;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.commands = None;
        // The last owner may be a job on the thread itself, which cannot wait for its own end.
        if thread::current().id() != self.thread
            && let Ok(finished) = self.finished.get_mut()
        {
            let _ = finished.recv_timeout(DRAIN);
        }
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keeper")
    }
}

async fn serve(mut inbox: mpsc::UnboundedReceiver<Command>) {
    let mut jobs = JoinSet::new();
    let mut waiting: Vec<oneshot::Sender<()>> = Vec::new();
    loop {
        tokio::select! {
            command = inbox.recv() => match command {
                Some(Command::Run(job)) => drop(jobs.spawn(job)),
                Some(Command::Drain(done)) => waiting.push(done),
                None => break,
            },
            Some(_) = jobs.join_next() => {}
        }
        if jobs.is_empty() {
            for done in waiting.drain(..) {
                let _ = done.send(());
            }
        }
    }
    let _ = tokio::time::timeout(DRAIN, async { while jobs.join_next().await.is_some() {} }).await;
}

/// A way to queue jobs.
#[derive(Clone, Debug)]
pub(crate) struct Queue(Option<mpsc::WeakUnboundedSender<Command>>);

impl Queue {
    /// Runs something that must be finished before the workspace ends.
    pub(crate) fn queue(&self, job: impl Future<Output = ()> + Send + 'static) {
        if let Some(commands) = self.0.as_ref().and_then(mpsc::WeakUnboundedSender::upgrade) {
            let _ = commands.send(Command::Run(Box::pin(job)));
        }
    }
}

/// Measures waits on the keeper's thread, so that no ambient runtime is needed.
#[derive(Clone, Debug)]
pub(crate) struct Timer(Handle);

impl Timer {
    /// Waits. Ends at once if the keeper is gone.
    pub(crate) async fn sleep(&self, duration: Duration) {
        let _ = self.0.spawn(async move { tokio::time::sleep(duration).await }).await;
    }
}
