//! The tables: ordered maps, all under one lock of whoever holds them.

mod ledger;
mod life;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use turnkeep_core::id::SessionId;
use turnkeep_core::model::{Record, SessionRow, SessionState};
use turnkeep_core::mutant;
use turnkeep_core::query::no_session;
use turnkeep_core::rules::OwnerState;
use turnkeep_core::{Incarnation, Result, SessionRef, WorkspaceId};

pub(crate) use ledger::{Ledger, ListOrder};
pub(crate) use life::Life;

/// Everything that a store holds, as ordered maps: answers look-ups and queries, and takes what the rules decided.
///
/// This is all of a backend but its durability, so a backend that keeps its rows in memory and something else on the
/// disk can be built around it. It has no lock, no clock and no thread of its own.
///
/// ```
/// use turnkeep_core::commit::{Commit, NewSession, Op};
/// use turnkeep_core::model::Liveness;
/// use turnkeep_core::rules::{Stamp, decide, plan};
/// use turnkeep_core::{Incarnation, SessionId, Timestamp, WorkspaceId};
/// use turnkeep_memory::Tables;
///
/// let (id, incarnation) = (SessionId::new("first")?, Incarnation::from_bytes([7; 16]));
/// let new = NewSession { id, incarnation, state: Default::default(), profile: Default::default() };
/// let commit = Commit::new(WorkspaceId::new("w")?).op(Op::CreateSession(new));
///
/// let mut tables = Tables::default();
/// let now = Timestamp::from_millis(1_750_000_000_000);
/// let stamp = Stamp { now, activity: Stamp::next_activity(now, tables.activity()), nonce: 4 };
/// let facts = tables.facts(&commit.workspace, plan(&commit), |_| Liveness::Unknown);
/// let set = decide(&commit, facts, &stamp)?; // what a durable backend writes down first
/// assert_eq!(tables.apply(set, stamp.activity).sessions[0].revision, 1);
/// # Ok::<(), turnkeep_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Tables {
    /// The highest activity number given or restored.
    pub(crate) activity: u64,
    pub(crate) workspaces: BTreeMap<WorkspaceId, Workspace>,
    /// Deleted sessions whose rows wait for the purge, oldest first.
    pub(crate) tombs: VecDeque<Tomb>,
}

/// One workspace.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// The activity number of the last commit that changed anything but leases and stored receipts; 0 before it.
    pub(crate) mark: u64,
    /// Sessions that were ever made here.
    pub(crate) births: u64,
    /// Sessions in use and being built, by id.
    pub(crate) ids: BTreeMap<SessionId, Incarnation>,
    /// The same, the one that changed last first.
    pub(crate) recent: BTreeSet<(Reverse<u64>, SessionId)>,
    pub(crate) lives: BTreeMap<SessionRef, Life>,
    pub(crate) ledger: Ledger,
}

/// What is left of a deleted session. No read looks here.
#[derive(Debug)]
pub(crate) struct Tomb {
    pub(crate) workspace: WorkspaceId,
    pub(crate) life: Life,
}

impl Tables {
    /// The highest activity number given or restored; the next commit's is above it.
    #[must_use]
    pub fn activity(&self) -> u64 {
        self.activity
    }

    /// A session in use. Lives that are over or still being built are not found.
    pub(crate) fn session(&self, workspace: &WorkspaceId, session: &SessionRef) -> Result<&Life> {
        self.workspaces
            .get(workspace)
            .and_then(|workspace| workspace.lives.get(session))
            .filter(|life| life.row.state == SessionState::Active || mutant::is("memory/reads-what-is-built"))
            .ok_or_else(|| no_session(workspace, session))
    }
}

impl Workspace {
    pub(crate) fn life(&self, id: &SessionId) -> Option<&Life> {
        let incarnation = *self.ids.get(id)?;
        self.lives.get(&SessionRef { id: id.clone(), incarnation })
    }

    pub(crate) fn owner_state(&self, owner: Option<&SessionRef>) -> OwnerState {
        let Some(owner) = owner else { return OwnerState::Unowned };
        match self.lives.get(owner).map(|life| life.row.state) {
            None => OwnerState::Gone,
            Some(SessionState::Active) => OwnerState::Active,
            Some(SessionState::Restoring) => OwnerState::Restoring,
        }
    }

    /// Whether ordinary reads see a record: its owner is nobody, or a session in use.
    pub(crate) fn sees(&self, record: &Record) -> bool {
        matches!(self.owner_state(record.owner.as_ref()), OwnerState::Unowned | OwnerState::Active)
    }

    pub(crate) fn put_session(&mut self, row: SessionRow) {
        let session = row.session_ref();
        let place = (Reverse(row.activity), row.id.clone());
        if let Some(life) = self.lives.get_mut(&session) {
            self.recent.remove(&(Reverse(life.row.activity), row.id.clone()));
            life.row = row;
        } else {
            self.ids.insert(row.id.clone(), row.incarnation);
            self.births += 1;
            self.lives.insert(session, Life::new(row, self.births));
        }
        self.recent.insert(place);
    }

    /// Takes a session out of every index that reads use.
    pub(crate) fn bury(&mut self, session: &SessionRef) -> Option<Life> {
        let life = self.lives.remove(session)?;
        self.ids.remove(&session.id);
        self.recent.remove(&(Reverse(life.row.activity), session.id.clone()));
        Some(life)
    }

    /// Whether there is anything that a reader can see here.
    pub(crate) fn has_anything(&self) -> bool {
        !self.lives.is_empty() || self.ledger.records.values().any(|record| self.sees(record))
    }
}
