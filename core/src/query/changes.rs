//! Did anything move?

use serde::{Deserialize, Serialize};

use crate::id::{SessionRef, WorkspaceId};

/// What to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One session.
    Session {
        /// The workspace.
        workspace: WorkspaceId,
        /// The session.
        session: SessionRef,
    },
    /// All of a workspace.
    Workspace(WorkspaceId),
}

/// A moment of what is watched. A different mark means that something moved; leases do not count. Only marks of the
/// same session, or of the same workspace, say anything about each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mark(u64);

impl Mark {
    /// Before anything. Never equal to the mark of something that exists.
    pub const START: Self = Self(0);

    /// Wraps a backend's counter.
    #[must_use]
    pub const fn new(counter: u64) -> Self {
        Self(counter)
    }

    /// The counter.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}
