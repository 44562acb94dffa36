//! The one way in: a declarative, conditional commit.

mod guard;
mod op;
mod receipt;
mod request;

use std::time::Duration;

use crate::id::{LeaseToken, OwnerId, WorkspaceId};
use crate::model::LeaseName;

pub use guard::{Expect, Guard};
pub use op::{
    LeaseGrant, NewEntry, NewEvent, NewRun, NewSession, OnKey, Op, Parent, Put, RefTarget, RunPatch,
    SessionPatch, Takeover,
};
pub use receipt::{Outcome, Receipt, SessionMark};
pub use request::{Fingerprint, Request, RequestId, RequestScope};

/// Proof that the writer still holds a lease. Checked by owner, token and epoch, never by expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The lease.
    pub name: LeaseName,
    /// The handle that took it.
    pub owner: OwnerId,
    /// The secret it was taken with.
    pub token: LeaseToken,
    /// The epoch it was given.
    pub epoch: u64,
}

/// One change of a store: all of it or nothing.
///
/// Evaluated in this order: a known request answers with its stored receipt; then every fence; then every guard;
/// then every op, each seeing those before it. Any refusal changes nothing at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The workspace that all of it belongs to.
    pub workspace: WorkspaceId,
    /// Makes a repeat of this commit safe.
    pub request: Option<Request>,
    /// Leases that must still be held.
    pub fences: Vec<Fence>,
    /// What must be so.
    pub guards: Vec<Guard>,
    /// What to do, in order.
    pub ops: Vec<Op>,
    /// How long to wait for a busy store; `None` takes the store's own setting.
    pub wait: Option<Duration>,
}

impl Commit {
    /// An empty commit for a workspace.
    #[must_use]
    pub fn new(workspace: WorkspaceId) -> Self {
        Self { workspace, request: None, fences: Vec::new(), guards: Vec::new(), ops: Vec::new(), wait: None }
    }

    /// Makes a repeat safe.
    #[must_use]
    pub fn request(mut self, request: Request) -> Self {
        self.request = Some(request);
        self
    }

    /// Requires a lease.
    #[must_use]
    pub fn fence(mut self, fence: Fence) -> Self {
        self.fences.push(fence);
        self
    }

    /// Requires something.
    #[must_use]
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guards.push(guard);
        self
    }

    /// Does something.
    #[must_use]
    pub fn op(mut self, op: Op) -> Self {
        self.ops.push(op);
        self
    }

    /// Waits at most this long for a busy store.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }
}
