//! The records of a workspace that no session owns.

use std::collections::BTreeMap;

use turnkeep_core::commit::{Commit, Expect, Fingerprint, Guard, Op, Receipt, Request, RequestId};
use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{Collection, RecordKey, SessionId, WorkspaceId};
use turnkeep_core::model::{Record, Row, Version};
use turnkeep_core::mutant;
use turnkeep_core::query::RowQuery;
use turnkeep_core::store::Store;

use super::{CopiedRecords, Job};
use crate::transfer::sum::{Sum, Summing, record_digest};

/// Records of one page.
const PAGE: u32 = 1_000;

/// Reads the records page by page.
struct Pages<'a> {
    store: &'a dyn Store,
    query: Option<RowQuery>,
}

impl<'a> Pages<'a> {
    fn of(store: &'a dyn Store, workspace: &WorkspaceId) -> Self {
        let mut query = RowQuery::unowned(workspace.clone());
        query.limit = PAGE;
        Self { store, query: Some(query) }
    }

    async fn next(&mut self) -> Result<Option<Vec<Row>>> {
        let Some(mut query) = self.query.take() else { return Ok(None) };
        let page = self.store.rows(&query).await?;
        query.cursor = page.next;
        self.query = query.cursor.is_some().then_some(query);
        Ok(Some(page.items))
    }
}

fn summing() -> Result<Summing> {
    Ok(Summing::new(SessionId::new("nobody")?))
}

pub(super) async fn sum(store: &dyn Store, workspace: &WorkspaceId) -> Result<Sum> {
    let mut sum = summing()?;
    let mut pages = Pages::of(store, workspace);
    while let Some(rows) = pages.next().await? {
        rows.iter().try_for_each(|row| sum.add(row))?;
    }
    Ok(sum.finish())
}

/// What the target has under a name.
struct There {
    digest: [u8; 32],
    version: Version,
    /// Whether the source has one of the name, too.
    met: bool,
}

pub(super) async fn copy(job: &mut Job<'_, '_, '_>, workspace: &WorkspaceId) -> Result<CopiedRecords> {
    let mut there: BTreeMap<(Collection, RecordKey), There> = BTreeMap::new();
    let mut pages = Pages::of(job.to, workspace);
    while let Some(rows) = pages.next().await? {
        for row in rows {
            let digest = record_digest(&row);
            let Row::Record(Record { collection, key, version, .. }) = row else { continue };
            there.insert((collection, key), There { digest, version, met: false });
        }
    }
    let mut copied = CopiedRecords::default();
    let mut sum = summing()?;
    let mut pages = Pages::of(job.from, workspace);
    while let Some(rows) = pages.next().await? {
        for row in rows {
            sum.add(&row).map_err(|error| error.with("workspace", workspace))?;
            let digest = record_digest(&row);
            let Row::Record(record) = row else { continue };
            let writing = Writing { to: job.to, workspace, record, digest };
            match there.get_mut(&(writing.record.collection.clone(), writing.record.key.clone())) {
                Some(there) => {
                    there.met = true;
                    if there.digest != digest {
                        writing.replace(there).await?;
                        copied.replaced += 1;
                    }
                }
                None => {
                    writing.add().await?;
                    copied.added += 1;
                }
            }
            job.advance(0)?;
        }
    }
    if let Some(((collection, key), _)) = there.iter().find(|(_, there)| !there.met) {
        return Err(taken(workspace, collection, key, "the target has a record that the source has not"));
    }
    copied.source = sum.finish();
    Ok(copied)
}

/// A record on its way. Each is a commit of its own, whose receipt proves later that the copy is one.
struct Writing<'a> {
    to: &'a dyn Store,
    workspace: &'a WorkspaceId,
    record: Record,
    digest: [u8; 32],
}

impl Writing<'_> {
    /// The request of writing this record with that content.
    fn request(&self, digest: &[u8; 32]) -> Result<Request> {
        let meant = FieldDigest::new("copy-record/1")
            .text(self.workspace.as_str())
            .text(self.record.collection.as_str())
            .text(self.record.key.as_str())
            .bytes(digest)
            .finish();
        let id = RequestId::host(format!("copy/1/record/{}", to_hex(&meant)))?;
        Ok(Request::in_workspace(id).fingerprint(Fingerprint::from_bytes(meant)))
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        self.to.commit(commit).await.map_err(|error| error.with_operation("copy"))
    }

    fn restore(&self) -> Op {
        Op::RestoreRecord { record: self.record.clone() }
    }

    async fn add(&self) -> Result<()> {
        let commit = Commit::new(self.workspace.clone()).op(self.restore());
        let receipt = self.commit(commit.clone().request(self.request(&self.digest)?)).await?;
        if receipt.replayed {
            // It was copied before, and somebody removed it.
            self.commit(commit).await?;
        }
        Ok(())
    }

    /// Puts the record in the place of an earlier copy, if that still is what was copied.
    async fn replace(&self, there: &There) -> Result<()> {
        let (collection, key) = (&self.record.collection, &self.record.key);
        // Answers the receipt of that copy, or is refused: no record has this version.
        let never = Expect::Version(Version { birth: 0, count: 0 });
        let asked = Commit::new(self.workspace.clone())
            .request(self.request(&there.digest)?)
            .guard(Guard::Record { collection: collection.clone(), key: key.clone(), expect: never })
            .op(self.restore());
        match self.commit(asked).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::VersionConflict => {
                if !mutant::is("copy/overwrites-what-went-on") {
                    return Err(taken(self.workspace, collection, key, "the target has another record"));
                }
            }
            Err(error) => return Err(error),
        }
        let commit = Commit::new(self.workspace.clone())
            .op(Op::DeleteRecord {
                collection: collection.clone(),
                key: key.clone(),
                owner: None,
                expect: Expect::Version(there.version),
            })
            .op(self.restore());
        let receipt = self.commit(commit.clone().request(self.request(&self.digest)?)).await?;
        if receipt.replayed {
            // It was this once before, and something else between.
            self.commit(commit).await?;
        }
        Ok(())
    }
}

fn taken(workspace: &WorkspaceId, collection: &Collection, key: &RecordKey, what: &str) -> Error {
    let message = format!("{what}, and it was not touched; remove it there, or copy into another store");
    Error::new(ErrorKind::AlreadyExists, message)
        .with("workspace", workspace)
        .with("collection", collection)
        .with("key", key)
        .with_operation("copy")
}
