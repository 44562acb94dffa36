//! Chores. What is not here answers `Unsupported` and does nothing.

use async_trait::async_trait;
use turnkeep_core::store::{Damage, PurgeReport, StoreStats, VerifyReport};
use turnkeep_core::{ErrorKind, Maintenance, Result, WorkspaceId};

use crate::ToyStore;
use crate::write::Writer;

#[async_trait]
impl Maintenance for ToyStore {
    async fn workspaces(&self) -> Result<Vec<WorkspaceId>> {
        self.read("workspaces", |tables| Ok(tables.workspaces())).await
    }

    /// Reads the whole file again, then looks at the rows.
    async fn verify(&self) -> Result<VerifyReport> {
        let mut report = self.read("verify", |tables| Ok(tables.verify())).await?;
        match self.on_writer("verify", |writer| writer.log().check()).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                report.damage.push(Damage { place: "the log".to_owned(), what: error.to_string() });
            }
            checked => checked?,
        }
        Ok(report)
    }

    /// Writes the log anew. Commits wait meanwhile, reads do not.
    async fn compact(&self) -> Result<()> {
        self.on_writer("compact", |writer| writer.compact()).await
    }

    async fn purge(&self) -> Result<PurgeReport> {
        let mut report = PurgeReport::default();
        // One slice per turn, so that commits go on in between.
        while let Some(slice) = self.on_writer("purge", Writer::purge_slice).await? {
            report.sessions += slice.sessions;
            report.rows += slice.rows;
        }
        Ok(report)
    }

    async fn stats(&self) -> Result<StoreStats> {
        let file = |writer: &mut Writer| Ok((writer.log().bytes(), writer.log().path().to_owned()));
        let (bytes, path) = self.on_writer("stats", file).await?;
        let mut stats = self.read("stats", |tables| Ok(tables.stats())).await?;
        (stats.bytes, stats.files) = (bytes, vec![path]);
        Ok(stats)
    }
}
