//! Reading what is left of a damaged store into a new one.

mod list;
mod session;
mod source;

use std::sync::Arc;

use serde::Serialize;
use turnkeep_core::commit::{Commit, Op};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{SessionId, WorkspaceId};
use turnkeep_core::model::Row;
use turnkeep_core::mutant;
use turnkeep_core::store::Store;

use super::OnProgress;
use super::content::unsound;
use super::survey::Reporter;
use crate::entropy::{Entropy, SystemEntropy};

/// Entries between two calls of the progress callback.
const REPORT_EVERY: u64 = 100;

/// How to salvage.
#[derive(Clone, Debug)]
pub struct SalvageOptions {
    /// Where random bits come from.
    pub entropy: Arc<dyn Entropy>,
}

impl Default for SalvageOptions {
    fn default() -> Self {
        Self { entropy: Arc::new(SystemEntropy) }
    }
}

/// Something that could not be taken along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The session, where it is known.
    pub session: Option<SessionId>,
    /// What is missing: `entry 5`, `entries 7-9`, `run r1`.
    pub what: String,
    /// Why.
    pub why: String,
}

/// What was saved of a damaged store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SalvageReport {
    /// Workspaces looked at.
    pub workspaces: u64,
    /// Sessions saved.
    pub sessions: u64,
    /// Entries saved.
    pub entries: u64,
    /// Rows of all other kinds saved.
    pub other_rows: u64,
    /// Entries and events of the kind `lost` that stand in for missing ones, so that all others keep their numbers.
    pub stand_ins: u64,
    /// Everything that was not saved.
    pub left_out: Vec<LeftOut>,
}

/// Reads everything that can be read of a store, session by session, and entry by entry where something is damaged, and
/// builds it anew in an empty one. The source is only read.
///
/// Entries and events keep their numbers: `lost` ones stand in for those that are gone. What is missing is named in the
/// report. What was damaged in a way that left it readable cannot be told from what was written.
///
/// # Errors
/// `AlreadyExists` when the target is not empty; `Corrupt` when not even the list of workspaces can be read;
/// `Cancelled` when the callback says so; whatever the target answers.
pub async fn salvage(
    from: &dyn Store,
    to: &dyn Store,
    options: &SalvageOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<SalvageReport> {
    let chores = |store: &dyn Store| store.maintenance().is_some();
    if !chores(from) || !chores(to) {
        return Err(Error::unsupported("salvage"));
    }
    let workspaces = workspaces(from).await.map_err(|error| match error.kind() {
        ErrorKind::Corrupt => {
            let message = "not even the workspaces of the store can be listed; restore a backup";
            Error::new(ErrorKind::Corrupt, message).with_source(error).with_operation("salvage")
        }
        _ => error,
    })?;
    if !self::workspaces(to).await?.is_empty() {
        let message = "what is saved of a damaged store needs an empty one to go to";
        return Err(Error::new(ErrorKind::AlreadyExists, message).with_operation("salvage"));
    }
    let mut report = SalvageReport::default();
    let mut plan = Vec::new();
    let mut total = 0_u64;
    for workspace in workspaces {
        report.workspaces += 1;
        let mut loss = Loss { workspace: &workspace, session: None, left_out: &mut report.left_out };
        let sessions = list::sessions(from, &workspace, &mut loss).await?;
        total = sessions.iter().fold(total, |total, row| {
            total.saturating_add(row.head.map_or(1, |head| u64::from(head.get()) + 1))
        });
        plan.push((workspace, sessions));
    }
    let reporter = Reporter::new(on_progress, total)
        .cancelled("the repair was cancelled; the damaged store is as it was");
    let mut job = Job { from, to, entropy: options.entropy.as_ref(), reporter, done: 0, report };
    job.advance(0)?;
    for (workspace, sessions) in plan {
        for row in sessions {
            session::save(&mut job, &workspace, &row).await?;
        }
        job.records(&workspace).await?;
    }
    Ok(job.report)
}

async fn workspaces(store: &dyn Store) -> Result<Vec<WorkspaceId>> {
    match store.maintenance() {
        Some(chores) => chores.workspaces().await,
        None => Err(Error::unsupported("salvage")),
    }
}

struct Job<'a, 'b, 'c> {
    from: &'a dyn Store,
    to: &'a dyn Store,
    entropy: &'a dyn Entropy,
    reporter: Reporter<'b, 'c>,
    done: u64,
    report: SalvageReport,
}

impl Job<'_, '_, '_> {
    fn advance(&mut self, entries: u64) -> Result<()> {
        self.done = self.done.saturating_add(entries);
        self.reporter.tell(self.done, REPORT_EVERY)
    }

    /// The records that no session owns.
    async fn records(&mut self, workspace: &WorkspaceId) -> Result<()> {
        let mut loss = Loss { workspace, session: None, left_out: &mut self.report.left_out };
        let records = source::records(self.from, workspace, None, &mut loss).await?;
        for record in records {
            let (collection, key) = (record.collection.clone(), record.key.clone());
            let commit = Commit::new(workspace.clone()).op(Op::RestoreRecord { record });
            match self.to.commit(commit).await {
                Ok(_) => self.report.other_rows += 1,
                Err(error) if is_no_fit(&error) => {
                    let mut loss = Loss { workspace, session: None, left_out: &mut self.report.left_out };
                    loss.note(format!("record {collection} {key}"), error.message());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Where what is lost is written down.
struct Loss<'a> {
    workspace: &'a WorkspaceId,
    session: Option<&'a SessionId>,
    left_out: &'a mut Vec<LeftOut>,
}

impl Loss<'_> {
    fn note(&mut self, what: impl Into<String>, why: &str) {
        if mutant::is("salvage/does-not-say") {
            return;
        }
        self.left_out.push(LeftOut {
            workspace: self.workspace.clone(),
            session: self.session.cloned(),
            what: what.into(),
            why: why.to_owned(),
        });
    }

    /// Lets a row through if its content is what it was when it was written, as far as that can be told.
    fn sound(&mut self, row: &Row) -> bool {
        match unsound(row) {
            None => true,
            Some(place) => {
                self.note(place, NO_JSON);
                false
            }
        }
    }
}

/// Whether an error says that stored rows are damaged, so that reading goes on beside them.
fn is_damage(error: &Error) -> bool {
    error.kind() == ErrorKind::Corrupt && !mutant::is("salvage/ends-at-the-first-damage")
}

/// Whether the new store refuses a row because of what it says.
fn is_no_fit(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Invalid
            | ErrorKind::TooLarge
            | ErrorKind::AlreadyExists
            | ErrorKind::NotFound
            | ErrorKind::StaleLeaf
            | ErrorKind::Corrupt
    )
}

const CANNOT: &str = "cannot be read";
/// Which of the two cannot be told once it is passed over.
const MISSING: &str = "missing, or cannot be read";
const ASTRAY: &str = "its number is far beyond all others";
const NO_JSON: &str = "no valid JSON any more";
