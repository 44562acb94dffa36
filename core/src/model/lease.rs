//! Leases: who may do exclusive work.

use serde::{Deserialize, Serialize};

use crate::id::{LeaseId, OwnerId, SessionRef, WorkspaceId};
use crate::time::Timestamp;

/// What a lease protects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseName {
    /// Exclusive work on one session.
    Session(SessionRef),
    /// Something else of the workspace, such as a channel identity.
    Named(LeaseId),
}

/// A lease by its full name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseKey {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// What it protects.
    pub name: LeaseName,
}

/// What the holder does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeasePurpose {
    /// Taking in a request.
    Admission,
    /// Executing a run.
    Execution,
    /// Changing a session outside a run.
    Mutation,
    /// Building a fork, an import or a copy.
    Fork,
    /// Recovering what a dead process left.
    Recovery,
}

impl LeasePurpose {
    /// Every purpose.
    pub const ALL: [Self; 5] = [Self::Admission, Self::Execution, Self::Mutation, Self::Fork, Self::Recovery];

    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Execution => "execution",
            Self::Mutation => "mutation",
            Self::Fork => "fork",
            Self::Recovery => "recovery",
        }
    }

    /// The purpose of a stored name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.as_str() == name)
    }
}

/// Whether a lease is held. A released one stays as a tombstone that keeps its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// Somebody holds it.
    Held,
    /// Nobody holds it.
    Released,
}

/// Whether the process behind a lease still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// It lives, or is merely stopped.
    Alive,
    /// It is gone.
    Dead,
    /// Nobody can tell from here; the expiry decides.
    Unknown,
}

/// A lease as others see it. Never the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseView {
    /// Held or released.
    pub state: LeaseState,
    /// The handle that holds or held it.
    pub owner: OwnerId,
    /// Grows by one with every takeover or new holder.
    pub epoch: u64,
    /// What the holder does.
    pub purpose: LeasePurpose,
    /// When the present holder took it, by the store's clock.
    pub acquired_at: Timestamp,
    /// When others may take it, by the store's clock.
    pub expires_at: Timestamp,
    /// Whether it has expired by the store's clock.
    pub expired: bool,
    /// Whether its owner lives.
    pub liveness: Liveness,
}
