//! Chores that a caller asks for.

mod aside;
mod backup;
mod readable;
pub(crate) mod restore;
mod verify;

use std::fs;
use std::path::Path;

use async_trait::async_trait;
use rusqlite::Connection;
use turnkeep_core::sql::{SqlAccess, SqlWork};
use turnkeep_core::store::{PurgeReport, StoreStats, VerifyReport};
use turnkeep_core::{Maintenance, Result, WorkspaceId};

use crate::SqliteStore;
use crate::audit;
use crate::columns::Fields;
use crate::error::sql;
use crate::files::Files;

#[async_trait]
impl Maintenance for SqliteStore {
    async fn workspaces(&self) -> Result<Vec<WorkspaceId>> {
        self.inner.readers.read("workspaces", workspaces).await
    }

    /// Reads everything in one transaction on a connection of its own. The log cannot shrink meanwhile.
    async fn verify(&self) -> Result<VerifyReport> {
        self.aside("verify", |conn| verify::verify(conn)).await
    }

    /// Copies one moment of the store while writers go on. The copy is checked and synced before it gets its name.
    async fn backup(&self, to: &Path) -> Result<()> {
        let (to, files) = (to.to_owned(), self.inner.options.files.clone());
        self.aside("backup", move |conn| backup::backup(conn, &files, &to)).await
    }

    /// Rewrites the whole database, which needs room for a second copy and nobody else reading.
    async fn compact(&self) -> Result<()> {
        self.inner
            .committer
            .run(|writer| writer.compact())
            .await
            .and_then(|done| done)
            .map_err(|error| error.with_operation("compact"))
    }

    async fn purge(&self) -> Result<PurgeReport> {
        let mut report = PurgeReport::default();
        // One slice per turn, so that commits go on in between.
        loop {
            let slice = self.inner.committer.run(|writer| writer.purge_now()).await.and_then(|slice| slice);
            match slice.map_err(|error| error.with_operation("purge"))? {
                Some(slice) => {
                    report.sessions += slice.sessions;
                    report.rows += slice.rows;
                }
                None => return Ok(report),
            }
        }
    }

    /// Reads on a connection of its own; writes between the commits of the writer.
    async fn sql(&self, access: SqlAccess, work: SqlWork) -> Result<()> {
        match access {
            SqlAccess::Read => self.aside("sql", move |conn| audit::reading(conn, work)).await,
            SqlAccess::Write => {
                let done = self.inner.committer.run(move |writer| writer.audit(work)).await;
                done.and_then(|done| done).map_err(|error| error.with_operation("sql"))
            }
        }
    }

    async fn stats(&self) -> Result<StoreStats> {
        let files = self.inner.files.clone();
        self.inner.readers.read("stats", move |conn| stats(conn, &files)).await
    }
}

fn workspaces(conn: &Connection) -> Result<Vec<WorkspaceId>> {
    const LIST: &str = "SELECT w.id FROM workspaces w
         WHERE EXISTS (SELECT 1 FROM sessions s WHERE s.wkey = w.wkey AND s.state <> 'deleted')
         OR EXISTS (SELECT 1 FROM records r LEFT JOIN sessions o ON o.skey = r.owner
             WHERE r.wkey = w.wkey AND (r.owner IS NULL OR o.state = 'active'))
         ORDER BY w.id";
    let mut list = conn.prepare_cached(LIST).map_err(sql)?;
    let mut rows = list.query([]).map_err(sql)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(sql)? {
        found.push(Fields::new("workspaces", row).id()?);
    }
    Ok(found)
}

fn stats(conn: &Connection, files: &Files) -> Result<StoreStats> {
    const COUNT: &str = "SELECT
         (SELECT count(*) FROM workspaces w WHERE EXISTS (SELECT 1 FROM sessions s
             WHERE s.wkey = w.wkey AND s.state <> 'deleted')
             OR EXISTS (SELECT 1 FROM records r LEFT JOIN sessions o ON o.skey = r.owner
             WHERE r.wkey = w.wkey AND (r.owner IS NULL OR o.state = 'active'))),
         (SELECT count(*) FROM sessions s WHERE s.state = 'active' AND s.state <> 'deleted'),
         (SELECT count(*) FROM entries),
         (SELECT count(*) FROM sessions s WHERE s.state = 'deleted')";
    let mut count = conn.prepare_cached(COUNT).map_err(sql)?;
    let mut rows = count.query([]).map_err(sql)?;
    let mut stats = StoreStats::default();
    if let Some(row) = rows.next().map_err(sql)? {
        let fields = &mut Fields::new("counts", row);
        stats.workspaces = fields.u64()?;
        stats.sessions = fields.u64()?;
        stats.entries = fields.u64()?;
        stats.purges = fields.u64()?;
    }
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    stats.files = files.present();
    stats.bytes =
        [&files.db, &files.wal, &files.shm, &files.journal].into_iter().map(|path| bytes(path)).sum();
    stats.log_bytes = bytes(&files.wal);
    Ok(stats)
}
