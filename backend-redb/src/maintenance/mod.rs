//! Chores that a caller asks for.

mod backup;
mod places;
pub(crate) mod restore;
mod verify;

use std::path::Path;

use async_trait::async_trait;
use redb::ReadTransaction;
use turnkeep_core::local::aside;
use turnkeep_core::model::SessionState;
use turnkeep_core::store::{PurgeReport, StoreStats, VerifyReport};
use turnkeep_core::{Error, ErrorKind, Maintenance, Result, WorkspaceId};

use crate::RedbStore;
use crate::codec::{Fields, Key};
use crate::error::contained;
use crate::probe;
use crate::read::{head, read_workspace, visible};
use crate::rows::{read_head, read_number};
use crate::source::{Source, Span, Toward};
use crate::tables;

impl RedbStore {
    /// Runs long work on a thread and a snapshot of its own, so that ordinary reads never wait for it.
    async fn aside<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&ReadTransaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let database = self.shared()?.database.clone();
        aside(operation, move || {
            contained(|| {
                let snapshot = database.snapshot()?;
                work(&snapshot)
            })
        })
        .await
    }
}

#[async_trait]
impl Maintenance for RedbStore {
    async fn workspaces(&self) -> Result<Vec<WorkspaceId>> {
        self.read("workspaces", workspaces).await
    }

    /// Checks every page of the file while the writer pauses, then every row of a snapshot while it goes on.
    async fn verify(&self) -> Result<VerifyReport> {
        let verified = async {
            let shared = self.shared()?;
            let locked = shared.database.locked.clone();
            let pages = shared
                .committer
                .run(move |writer| writer.paused(|| probe::check_pages(&locked.file, &locked.path)))
                .await?;
            match pages {
                Ok(()) => self.aside("verify", verify::verify).await,
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    let mut report = verify::damaged_pages(&error);
                    // What else can be said is which rows it took; a page that leads to others may end the looking.
                    if let Ok(rows) = self.aside("verify", verify::damaged_rows).await {
                        report.damage.extend(rows);
                    }
                    Ok(report)
                }
                Err(error) => Err(error),
            }
        };
        verified.await.map_err(|error| error.with_operation("verify"))
    }

    /// Copies one moment of the store while writers go on. The copy is checked and synced before it gets its name.
    async fn backup(&self, to: &Path) -> Result<()> {
        let copied = async {
            let (to, media) = (to.to_owned(), self.shared()?.database.media.clone());
            self.aside("backup", move |snapshot| backup::backup(snapshot, &media, &to)).await
        };
        copied.await.map_err(|error| error.with_operation("backup"))
    }

    /// Moves the pages of the file together and cuts it. Everybody else waits meanwhile.
    async fn compact(&self) -> Result<()> {
        let done = async { self.shared()?.committer.run(|writer| writer.compact()).await? };
        done.await.map_err(|error| error.with_operation("compact"))
    }

    async fn purge(&self) -> Result<PurgeReport> {
        let purged = async {
            let mut report = PurgeReport::default();
            // One slice per turn, so that commits go on in between.
            while let Some(slice) = self.shared()?.committer.run(|writer| writer.purge_slice()).await?? {
                report.sessions += slice.sessions;
                report.rows += slice.rows;
            }
            Ok(report)
        };
        purged.await.map_err(|error: Error| error.with_operation("purge"))
    }

    async fn stats(&self) -> Result<StoreStats> {
        let path = self.shared()?.database.locked.path.clone();
        let mut stats = self.read("stats", stats).await?;
        stats.bytes = std::fs::metadata(&path).map_or(0, |found| found.len());
        stats.files = vec![path];
        Ok(stats)
    }
}

/// Whether there is anything that a reader can see in a workspace.
fn has_anything(source: &dyn Source, wkey: u64) -> Result<bool> {
    let within = || Span::within(Key::new().u64(wkey));
    let no_session = source.scan(tables::SESSION_IDS, &within(), Toward::Higher, &mut |_, _| Ok(false))?;
    if !no_session {
        return Ok(true);
    }
    let mut found = false;
    source.scan(tables::RECORDS, &within(), Toward::Higher, &mut |key, body| {
        let stored = crate::rows::read_record(key, body)?;
        found = visible(source, stored.owner)?;
        Ok(!found)
    })?;
    Ok(found)
}

fn workspaces(source: &dyn Source) -> Result<Vec<WorkspaceId>> {
    let mut found = Vec::new();
    source.scan(tables::WORKSPACES, &Span::all(), Toward::Higher, &mut |key, body| {
        if has_anything(source, read_workspace(body)?.wkey)? {
            let mut fields = Fields::of_key(tables::WORKSPACES, key);
            let id = fields.tail()?;
            found.push(fields.parse(id)?);
        }
        Ok(true)
    })?;
    Ok(found)
}

fn stats(source: &dyn Source) -> Result<StoreStats> {
    let mut stats = StoreStats { workspaces: workspaces(source)?.len() as u64, ..StoreStats::default() };
    source.scan(tables::SESSIONS, &Span::all(), Toward::Higher, &mut |_, body| {
        stats.sessions += u64::from(read_head(body)?.state == SessionState::Active);
        Ok(true)
    })?;
    stats.entries = source.count(tables::ENTRIES)?;
    stats.purges = source.count(tables::TOMBSTONES)?;
    Ok(stats)
}

/// The session that an index row leads to, if it is there.
fn leads_to(
    source: &dyn Source,
    table: tables::Table,
    body: &[u8],
) -> Result<Option<(u64, crate::rows::Head)>> {
    let skey = read_number(table, body)?;
    Ok(head(source, skey)?.map(|head| (skey, head)))
}
