//! Chores.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::Poll;

use async_trait::async_trait;
use turnkeep_core::limits::SLICE_ROWS;
use turnkeep_core::model::{LeaseName, SessionState};
use turnkeep_core::store::{PurgeReport, StoreStats, VerifyReport};
use turnkeep_core::{Maintenance, Result, SessionRef, Timestamp, WorkspaceId};

use crate::MemoryStore;
use crate::tables::{Life, Tables, Workspace};

impl Tables {
    /// What a commit does for others before its own work: a slice of a purge, and receipts that nobody can ask for
    /// any more. Short, and seen by no read.
    pub fn chores(&mut self, workspace: &WorkspaceId, now: Timestamp, rows: u32) {
        self.purge_slice(rows.into());
        if let Some(workspace) = self.workspaces.get_mut(workspace) {
            workspace.ledger.expire_requests(now, rows as usize);
        }
    }

    /// How many rows there are. The bytes are for whoever has them on a disk.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        let lives = || self.workspaces.values().flat_map(|workspace| workspace.lives.values());
        let dead = self.tombs.iter().map(|tomb| tomb.life.entries.len());
        StoreStats {
            workspaces: self.workspaces.values().filter(|workspace| workspace.has_anything()).count() as u64,
            sessions: lives().filter(|life| life.row.state == SessionState::Active).count() as u64,
            entries: lives().map(|life| life.entries.len()).chain(dead).sum::<usize>() as u64,
            purges: self.tombs.len() as u64,
            ..StoreStats::default()
        }
    }

    /// Every workspace that has anything, bytewise ascending.
    #[must_use]
    pub fn workspaces(&self) -> Vec<WorkspaceId> {
        let some = self.workspaces.iter().filter(|(_, workspace)| workspace.has_anything());
        some.map(|(id, _)| id.clone()).collect()
    }

    /// Whether rows of deleted sessions wait for [`purge_slice`](Self::purge_slice).
    #[must_use]
    pub fn purge_waits(&self) -> bool {
        !self.tombs.is_empty()
    }

    /// Rows of every table, those of deleted sessions that are not purged yet included.
    #[must_use]
    pub fn table_rows(&self) -> Vec<(&'static str, u64)> {
        self.count(Which::All)
    }

    /// Rows by table: all of them, or those that belong to no session that is there. Counted row by row, not by the
    /// indexes that a purge follows.
    fn count(&self, which: Which) -> Vec<(&'static str, u64)> {
        let mut counts = BTreeMap::new();
        let mut add = |table, rows: usize| *counts.entry(table).or_default() += rows as u64;
        add("tombstones", self.tombs.len());
        for life in self.tombs.iter().map(|tomb| &tomb.life) {
            count_below(life, &mut add);
        }
        for workspace in self.workspaces.values() {
            if which == Which::All {
                add("sessions", workspace.lives.len());
                workspace.lives.values().for_each(|life| count_below(life, &mut add));
            }
            workspace.count_ledger(which, &mut add);
        }
        counts.into_iter().collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    Residue,
}

fn count_below(life: &Life, add: &mut impl FnMut(&'static str, usize)) {
    add("entries", life.entries.len());
    add("keys", life.keys.len());
    add("segments", life.segments.len());
    add("runs", life.runs.len());
    add("streams", life.streams.len());
    add("events", life.events.values().map(BTreeMap::len).sum());
}

impl Workspace {
    fn count_ledger(&self, which: Which, add: &mut impl FnMut(&'static str, usize)) {
        let counts = |owner: Option<&SessionRef>| {
            which == Which::All || owner.is_some_and(|owner| !self.lives.contains_key(owner))
        };
        let ledger = &self.ledger;
        add("records", ledger.records.values().filter(|record| counts(record.owner.as_ref())).count());
        let owners = || ledger.owned.iter().filter(|(owner, _)| counts(owner.as_ref()));
        add("owners", owners().count());
        add("ordinals", owners().map(|(_, owned)| owned.ordinals.len()).sum());
        let protected = |name: &LeaseName| match name {
            LeaseName::Session(session) => counts(Some(session)),
            LeaseName::Named(_) => counts(None),
        };
        add("leases", ledger.leases.keys().filter(|name| protected(name)).count());
        add("requests", ledger.requests.values().filter(|row| counts(row.owner.as_ref())).count());
    }
}

impl MemoryStore {
    /// Rows of any kind left that belong to no session that is there, by table; empty when nothing is left.
    ///
    /// # Errors
    /// `Closed` or `Poisoned`.
    #[doc(hidden)]
    pub fn residue(&self) -> Result<Vec<(&'static str, u64)>> {
        let some = |tables: &Tables| {
            tables.count(Which::Residue).into_iter().filter(|(_, rows)| *rows > 0).collect()
        };
        self.read("residue", |tables| Ok(some(tables)))
    }

    /// Rows of every table, those of deleted sessions that are not purged yet included.
    ///
    /// # Errors
    /// `Closed` or `Poisoned`.
    #[doc(hidden)]
    pub fn table_rows(&self) -> Result<Vec<(&'static str, u64)>> {
        self.read("table_rows", |tables| Ok(tables.table_rows()))
    }

    fn purge_some(&self) -> Result<Option<PurgeReport>> {
        let mut tables = self.handle.data.write()?;
        self.check_open()?;
        Ok(tables.purge_waits().then(|| tables.purge_slice(SLICE_ROWS.into())))
    }
}

#[async_trait]
impl Maintenance for MemoryStore {
    async fn workspaces(&self) -> Result<Vec<WorkspaceId>> {
        self.read("workspaces", |tables| Ok(tables.workspaces()))
    }

    async fn verify(&self) -> Result<VerifyReport> {
        self.read("verify", |tables| Ok(tables.verify()))
    }

    async fn purge(&self) -> Result<PurgeReport> {
        let mut report = PurgeReport::default();
        while let Some(slice) = self.purge_some().map_err(|error| error.with_operation("purge"))? {
            report.sessions += slice.sessions;
            report.rows += slice.rows;
            give_way().await;
        }
        Ok(report)
    }

    async fn stats(&self) -> Result<StoreStats> {
        self.read("stats", |tables| Ok(tables.stats()))
    }
}

/// Lets other tasks of this thread run between two slices.
async fn give_way() {
    let mut asked = false;
    poll_fn(|context| {
        if asked {
            return Poll::Ready(());
        }
        asked = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
