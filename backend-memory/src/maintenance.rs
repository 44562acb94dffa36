//! Chores.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Poll;

use async_trait::async_trait;
use turnkeep_core::limits::SLICE_ROWS;
use turnkeep_core::model::{LeaseName, SessionState};
use turnkeep_core::store::{PurgeReport, StoreStats, VerifyReport};
use turnkeep_core::{Maintenance, Result, SessionRef, Timestamp, WorkspaceId};

use crate::MemoryStore;
use crate::tables::{Tables, Workspace};

impl Tables {
    /// What a commit does for others before its own work: a slice of a purge, and receipts that nobody can ask for
    /// any more. Short, and seen by no read.
    pub(crate) fn chores(&mut self, workspace: &WorkspaceId, now: Timestamp, rows: u32) {
        self.purge_slice(rows.into());
        if let Some(workspace) = self.workspaces.get_mut(workspace) {
            workspace.ledger.expire_requests(now, rows as usize);
        }
    }

    fn stats(&self) -> StoreStats {
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

    /// Rows that belong to no session that is there, by table.
    fn residue(&self) -> Vec<(&'static str, u64)> {
        let mut below =
            [("entries", 0), ("keys", 0), ("segments", 0), ("runs", 0), ("streams", 0), ("events", 0)];
        for life in self.tombs.iter().map(|tomb| &tomb.life) {
            let events = life.events.values().map(|events| events.len()).sum();
            let counts = [
                life.entries.len(),
                life.keys.len(),
                life.segments.len(),
                life.runs.len(),
                life.streams.len(),
                events,
            ];
            for (table, count) in below.iter_mut().zip(counts) {
                table.1 += count as u64;
            }
        }
        let mut owned = [("records", 0), ("ordinals", 0), ("leases", 0), ("requests", 0)];
        for workspace in self.workspaces.values() {
            for (table, count) in owned.iter_mut().zip(workspace.residue()) {
                table.1 += count as u64;
            }
        }
        let tombs = ("tombstones", self.tombs.len() as u64);
        below.into_iter().chain(owned).chain([tombs]).filter(|(_, count)| *count > 0).collect()
    }
}

impl Workspace {
    /// Records, ordinals, leases and receipts of sessions that are gone. Counted row by row, not by the index that the
    /// purge follows.
    fn residue(&self) -> [usize; 4] {
        let gone = |owner: Option<&SessionRef>| owner.is_some_and(|owner| !self.lives.contains_key(owner));
        let ledger = &self.ledger;
        let records = ledger.records.values().filter(|record| gone(record.owner.as_ref())).count();
        let ordinals = ledger.owned.iter().filter(|(owner, _)| gone(owner.as_ref()));
        let ordinals = ordinals.map(|(_, owned)| owned.ordinals.len()).sum();
        let lease_owner = |name: &LeaseName| match name {
            LeaseName::Session(session) => gone(Some(session)),
            LeaseName::Named(_) => false,
        };
        let leases = ledger.leases.keys().filter(|name| lease_owner(name)).count();
        let requests = ledger.requests.values().filter(|row| gone(row.owner.as_ref())).count();
        [records, ordinals, leases, requests]
    }
}

impl MemoryStore {
    /// Rows of any kind left that belong to no session that is there, by table; empty when nothing is left.
    ///
    /// # Errors
    /// `Closed` or `Poisoned`.
    #[doc(hidden)]
    pub fn residue(&self) -> Result<Vec<(&'static str, u64)>> {
        self.read("residue", |tables| Ok(tables.residue()))
    }

    fn purge_some(&self) -> Result<Option<PurgeReport>> {
        let mut tables = self.handle.data.write()?;
        self.check_open()?;
        let waiting = !tables.tombs.is_empty();
        Ok(waiting.then(|| tables.purge_slice(SLICE_ROWS.into())))
    }
}

#[async_trait]
impl Maintenance for MemoryStore {
    async fn workspaces(&self) -> Result<Vec<WorkspaceId>> {
        self.read("workspaces", |tables| {
            let some = tables.workspaces.iter().filter(|(_, workspace)| workspace.has_anything());
            Ok(some.map(|(id, _)| id.clone()).collect::<BTreeSet<_>>().into_iter().collect())
        })
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
