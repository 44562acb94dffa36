//! Copying a store, or some of its workspaces, into another one, whatever the backends; with a proof at the end.

mod records;
mod session;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{SessionId, SessionRef, WorkspaceId};
use turnkeep_core::mutant;
use turnkeep_core::query::{AudienceFilter, SessionOrder, SessionQuery};
use turnkeep_core::store::Store;

use super::OnProgress;
use super::moment::Moment;
use super::sum::{Sum, sum_of};
use super::survey::Reporter;
use crate::entropy::{Entropy, SystemEntropy};

/// Sessions of one page of a list.
const PAGE: u32 = 1_000;
/// Entries between two calls of the progress callback.
const REPORT_EVERY: u64 = 100;
/// How often each entry is read: at the source, on its way or in the target, and for the proof.
const PASSES: u64 = 3;

/// How to copy.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// Which workspaces; empty means all that the source has.
    pub workspaces: Vec<WorkspaceId>,
    /// Where random bits come from.
    pub entropy: Arc<dyn Entropy>,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self { workspaces: Vec::new(), entropy: Arc::new(SystemEntropy) }
    }
}

/// How a session came to be in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyOutcome {
    /// It was copied.
    Copied,
    /// It was there, and equal.
    AlreadyThere,
    /// An earlier copy, which nobody had touched, gave way to what the source holds now.
    Replaced,
}

/// One session, proven equal on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CopiedSession {
    /// The session.
    pub session: SessionId,
    /// How it came there.
    pub outcome: CopyOutcome,
    /// Whether it has moved in the source since; the copy holds the moment at which it was read.
    pub moved_on: bool,
    /// What was read in the source.
    pub source: Sum,
    /// What was read in the target afterwards.
    pub target: Sum,
}

/// The records that nobody owns, proven equal on both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CopiedRecords {
    /// Those that were added.
    pub added: u64,
    /// Those of an earlier copy that gave way to what the source holds now.
    pub replaced: u64,
    /// Whether they have moved in the source since.
    pub moved_on: bool,
    /// What was read in the source.
    pub source: Sum,
    /// What was read in the target afterwards.
    pub target: Sum,
}

/// One workspace, proven equal on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CopiedWorkspace {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Its sessions, by id.
    pub sessions: Vec<CopiedSession>,
    /// Its records that no session owns.
    pub records: CopiedRecords,
    /// Sessions that were made in the source meanwhile: the next copy takes them along.
    pub came_later: Vec<SessionId>,
    /// Sessions that were deleted in the source before they were read.
    pub went_away: Vec<SessionId>,
}

/// What was copied. That there is a report says that both sides are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CopyReport {
    /// By id.
    pub workspaces: Vec<CopiedWorkspace>,
}

impl CopyReport {
    /// Whether the source has moved since, so that another copy would bring more.
    #[must_use]
    pub fn moved_on(&self) -> bool {
        self.workspaces.iter().any(|workspace| {
            workspace.records.moved_on
                || !workspace.came_later.is_empty()
                || workspace.sessions.iter().any(|session| session.moved_on)
        })
    }
}

/// Copies workspaces from one store into another: every session with its exact rows (numbers, runs, events, streams,
/// records, its place in lists), and the records that no session owns. Leases, receipts of requests, half-built and
/// deleted sessions stay behind; a run that is not over arrives interrupted.
///
/// Each session is seen in the target only when it is complete. A copy that was killed or cancelled is begun again with
/// the same call: what is there and equal is passed over, what is half built is gone on with, and an earlier copy that
/// nobody touched gives way to what the source holds now. Nothing else in the target is ever changed: other workspaces
/// are left alone, and a session or record that the source does not have, or has otherwise, ends the copy.
///
/// The source may be in use. Each session is copied as it was at one moment of its own; sessions of one workspace need
/// not be of the same moment, and the report says what has moved since.
///
/// At the end everything is read again in the target and compared with what was read in the source.
///
/// # Errors
/// `AlreadyExists` when the target has something else, `Corrupt` when the proof fails or the source is damaged (each
/// names the first session); `NotFound` for a workspace of which the source has nothing; `Cancelled` when the callback
/// says so; `Unsupported` when the source cannot list its workspaces and none were named; whatever the stores answer.
pub async fn copy(
    from: &dyn Store,
    to: &dyn Store,
    options: &CopyOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<CopyReport> {
    let mut plan = Vec::new();
    let mut total = 0_u64;
    for workspace in chosen(from, options).await? {
        let sessions = sessions_of(from, &workspace).await?;
        refuse_strangers(to, &workspace, &sessions).await?;
        total = sessions.iter().fold(total, |total, listed| total.saturating_add(listed.weight));
        plan.push((workspace, sessions));
    }
    let reporter = Reporter::new(on_progress, total.saturating_mul(PASSES))
        .cancelled("the copy was cancelled; begin it again to go on where it stopped");
    let mut job = Job { from, to, entropy: options.entropy.as_ref(), reporter, done: 0 };
    job.advance(0)?;
    let mut copied = Vec::new();
    for (workspace, sessions) in plan {
        let mut seen = Vec::new();
        let mut went_away = Vec::new();
        for listed in sessions {
            match session::copy(&mut job, &workspace, &listed).await? {
                Some(one) => seen.push(one),
                None => went_away.push(listed.session.id),
            }
        }
        let records = records::copy(&mut job, &workspace).await?;
        copied.push((workspace, seen, records, went_away));
    }
    let mut proof = Proof::default();
    let mut workspaces = Vec::new();
    for (workspace, seen, records, went_away) in copied {
        workspaces.push(proof.workspace(&mut job, workspace, seen, records, went_away).await?);
    }
    proof.finish()?;
    Ok(CopyReport { workspaces })
}

/// A copy under way.
struct Job<'a, 'b, 'c> {
    from: &'a dyn Store,
    to: &'a dyn Store,
    entropy: &'a dyn Entropy,
    reporter: Reporter<'b, 'c>,
    done: u64,
}

impl Job<'_, '_, '_> {
    /// Tells that so many more entries are done.
    fn advance(&mut self, entries: u64) -> Result<()> {
        self.done = self.done.saturating_add(entries);
        self.reporter.tell(self.done, REPORT_EVERY)
    }

    /// The session with this id in the target, and what it comes to.
    async fn target(&mut self, workspace: &WorkspaceId, id: &SessionId) -> Result<Option<(SessionRef, Sum)>> {
        let key = turnkeep_core::SessionKey { workspace: workspace.clone(), id: id.clone() };
        let Some(row) = self.to.session(&key).await? else { return Ok(None) };
        let (to, session) = (self.to, row.session_ref());
        let moment = Moment::of(to, workspace, &session, "copy").await?;
        let sum = sum_of(to, &moment, &mut |entries| self.advance(entries)).await?;
        Ok(Some((session, sum)))
    }
}

/// A session of the source.
struct Listed {
    session: SessionRef,
    /// What it counts for in the progress.
    weight: u64,
}

/// A session that is in the target now.
struct Seen {
    session: SessionRef,
    revision: u64,
    weight: u64,
    outcome: CopyOutcome,
    source: Sum,
    /// What the target was just found to hold, where nothing had to be written.
    target: Option<Sum>,
}

async fn chosen(from: &dyn Store, options: &CopyOptions) -> Result<Vec<WorkspaceId>> {
    let named: BTreeSet<WorkspaceId> = options.workspaces.iter().cloned().collect();
    let all = match from.maintenance() {
        Some(chores) => chores.workspaces().await,
        None => Err(Error::unsupported("workspaces")),
    };
    match all {
        Ok(all) if named.is_empty() => Ok(all),
        // A name that was misspelt must not look like a copy of nothing.
        Ok(all) => match named.iter().find(|id| !all.contains(id)) {
            None => Ok(named.into_iter().collect()),
            Some(unknown) => Err(Error::new(ErrorKind::NotFound, "the source has nothing of this workspace")
                .with("workspace", unknown)
                .with_operation("copy")),
        },
        Err(error) if error.kind() == ErrorKind::Unsupported && !named.is_empty() => {
            Ok(named.into_iter().collect())
        }
        Err(error) => Err(error),
    }
}

/// Every session in use, by id.
async fn sessions_of(store: &dyn Store, workspace: &WorkspaceId) -> Result<Vec<Listed>> {
    let mut query = SessionQuery::new(workspace.clone());
    query.audience = mutant::either("copy/sub-agents-left-out", query.audience, AudienceFilter::Any);
    query.order = SessionOrder::Id;
    query.limit = PAGE;
    let mut found = Vec::new();
    loop {
        let page = store.sessions(&query).await?;
        found.extend(page.items.iter().map(|row| Listed {
            session: row.session_ref(),
            weight: row.head.map_or(1, |head| u64::from(head.get()) + 1),
        }));
        query.cursor = page.next;
        if query.cursor.is_none() {
            return Ok(found);
        }
    }
}

/// Before anything is written: the target must not have sessions that the source has not.
async fn refuse_strangers(to: &dyn Store, workspace: &WorkspaceId, sessions: &[Listed]) -> Result<()> {
    let known: BTreeSet<&SessionId> = sessions.iter().map(|listed| &listed.session.id).collect();
    match sessions_of(to, workspace).await?.into_iter().find(|listed| !known.contains(&listed.session.id)) {
        None => Ok(()),
        Some(stranger) => Err(Error::new(
            ErrorKind::AlreadyExists,
            "the target has a session that the source has not; delete it there, or copy into another store",
        )
        .with("workspace", workspace)
        .with("session", &stranger.session.id)
        .with_operation("copy")),
    }
}

/// Reads the target again and compares it with what was read in the source.
#[derive(Default)]
struct Proof {
    /// The first things that differ.
    differing: Vec<String>,
}

impl Proof {
    async fn workspace(
        &mut self,
        job: &mut Job<'_, '_, '_>,
        workspace: WorkspaceId,
        seen: Vec<Seen>,
        mut records: CopiedRecords,
        went_away: Vec<SessionId>,
    ) -> Result<CopiedWorkspace> {
        let mut sessions = Vec::new();
        for one in seen {
            let target = match one.target {
                Some(target) => {
                    job.advance(one.weight)?;
                    target
                }
                None => {
                    let found = job.target(&workspace, &one.session.id).await?;
                    job.advance(1)?;
                    found.map(|(_, sum)| sum).unwrap_or_default()
                }
            };
            let id = one.session.id.clone();
            self.compare(one.source == target, || format!("workspace {workspace}, session {id}"));
            let key = turnkeep_core::SessionKey { workspace: workspace.clone(), id: id.clone() };
            let now = job.from.session(&key).await?;
            let moved_on = now
                .is_none_or(|row| row.incarnation != one.session.incarnation || row.revision != one.revision);
            sessions.push(CopiedSession {
                session: id,
                outcome: one.outcome,
                moved_on,
                source: one.source,
                target,
            });
        }
        let copied: BTreeSet<&SessionId> = sessions.iter().map(|one| &one.session).collect();
        for listed in sessions_of(job.to, &workspace).await? {
            let id = listed.session.id;
            self.compare(copied.contains(&id), || format!("workspace {workspace}, session {id}"));
        }
        let later = sessions_of(job.from, &workspace).await?.into_iter().map(|listed| listed.session.id);
        let came_later = later.filter(|id| !copied.contains(id)).collect();
        records.target = records::sum(job.to, &workspace).await?;
        records.moved_on = records::sum(job.from, &workspace).await? != records.source;
        self.compare(records.source == records.target, || {
            format!("workspace {workspace}, the records that no session owns")
        });
        Ok(CopiedWorkspace { workspace, sessions, records, came_later, went_away })
    }

    fn compare(&mut self, equal: bool, place: impl FnOnce() -> String) {
        if !equal && !mutant::is("copy/proof-passes-all") {
            self.differing.push(place());
        }
    }

    fn finish(self) -> Result<()> {
        let Some(first) = self.differing.first() else { return Ok(()) };
        let message = "the target is not equal to the source; verify both stores, and copy into a new one";
        Err(Error::new(ErrorKind::Corrupt, message)
            .with("place", first)
            .with("differing", self.differing.len())
            .with_operation("copy"))
    }
}
