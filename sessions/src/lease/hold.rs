//! A held lease: renewed in the background until it is released or lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use turnkeep_core::commit::{Commit, Fence, Op};
use turnkeep_core::error::{Error, ErrorKind, Result};

use crate::base::{Base, millis};
use crate::keeper::Keeper;

/// Where a hold stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holding {
    Held,
    Lost,
    Given,
}

/// One or several leases that were taken together.
#[derive(Debug)]
pub(crate) struct Hold {
    fences: Vec<Fence>,
    state: watch::Sender<Holding>,
    /// Whether tools may have been claimed under it.
    claimed: AtomicBool,
}

impl Hold {
    /// Holds `fences` and renews them at a third of their time.
    pub(crate) fn start(keeper: &Keeper, base: &Base, fences: Vec<Fence>, ttl: Duration) -> Arc<Self> {
        let (state, claimed) = (watch::Sender::new(Holding::Held), AtomicBool::new(false));
        let hold = Arc::new(Self { fences, state, claimed });
        keeper.spawn(renew(base.clone(), Arc::downgrade(&hold), hold.state.subscribe(), ttl));
        hold
    }

    pub(crate) fn fences(&self) -> &[Fence] {
        &self.fences
    }

    /// A tool is about to be claimed under it.
    pub(crate) fn claims(&self) {
        self.claimed.store(true, Ordering::Relaxed);
    }

    /// Whether tools may have been claimed under it.
    pub(crate) fn has_claims(&self) -> bool {
        self.claimed.load(Ordering::Relaxed)
    }

    pub(crate) fn is_lost(&self) -> bool {
        *self.state.borrow() == Holding::Lost
    }

    pub(crate) fn is_held(&self) -> bool {
        *self.state.borrow() == Holding::Held
    }

    /// Refuses to go on with a lease that is not held any more.
    pub(crate) fn check(&self) -> Result<()> {
        match *self.state.borrow() {
            Holding::Held => Ok(()),
            Holding::Lost => Err(Error::new(
                ErrorKind::LeaseLost,
                "the lease was taken over or removed; stop this work and reload the session",
            )),
            Holding::Given => Err(Error::new(ErrorKind::LeaseLost, "the lease was given back already")),
        }
    }

    /// Somebody else has it: everyone who watches is told.
    pub(crate) fn lose(&self) {
        self.state.send_if_modified(|state| {
            let held = *state == Holding::Held;
            if held {
                *state = Holding::Lost;
            }
            held
        });
    }

    /// It was given back in a commit; renewing ends.
    pub(crate) fn given(&self) {
        self.state.send_replace(Holding::Given);
    }

    pub(crate) fn signal(&self) -> LossSignal {
        LossSignal(self.state.subscribe())
    }
}

/// Tells when a lease is lost, to cancel the work it protected.
#[derive(Clone, Debug)]
pub struct LossSignal(watch::Receiver<Holding>);

impl LossSignal {
    /// Whether the lease is lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        *self.0.borrow() == Holding::Lost
    }

    /// Ends when the lease is lost; never, if it is given back in order. Meant for `select!`.
    pub async fn lost(mut self) {
        if self.0.wait_for(|state| *state == Holding::Lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn renew(base: Base, hold: std::sync::Weak<Hold>, mut state: watch::Receiver<Holding>, ttl: Duration) {
    let pace = (ttl / 3).max(Duration::from_millis(1));
    let mut pause = pace;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // The sender is gone when nobody holds the handle any more.
            _ = state.wait_for(|state| *state != Holding::Held) => return,
        }
        let Some(held) = hold.upgrade() else { return };
        let mut commit = Commit::new(base.workspace().clone());
        for fence in held.fences() {
            commit = commit.op(Op::RenewLease { fence: fence.clone(), ttl_ms: millis(ttl) });
        }
        match base.commit(commit).await {
            Ok(_) => pause = pace,
            Err(error) if ends_renewal(error.kind()) => return held.lose(),
            // Fences never look at the expiry, so a late renewal still counts if nobody took over.
            Err(_) => pause = (pace / 4).max(Duration::from_millis(1)),
        }
    }
}

fn ends_renewal(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::LeaseLost
            | ErrorKind::NotFound
            | ErrorKind::Closed
            | ErrorKind::Poisoned
            | ErrorKind::NewerFormat
            | ErrorKind::OlderFormat
            | ErrorKind::ReadOnly
    )
}
