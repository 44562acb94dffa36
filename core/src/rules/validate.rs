//! What can be refused without a look at the store: forms and limits.

use crate::commit::{Commit, LeaseGrant, NewEntry, NewRun, Op, Parent, RefTarget, RequestScope};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{COLUMN_BYTES, LEASE_MS, Limits, SLICE_ROWS};
use crate::model::{Profile, Record, Row, RunState};
use crate::mutant;
use crate::payload::Payload;
use crate::rules::MAX_ACTIVITY;

/// The highest ordinal that a restored record may carry.
const MAX_ORDINAL: u64 = 1 << 62;
/// References that one entry may hold.
const ENTRY_REFS: usize = 64;

/// Checks a commit against the forms and limits of the contract and of the store.
///
/// # Errors
/// `Invalid` or `TooLarge`, naming the op; the store is not touched.
pub fn validate(commit: &Commit, limits: &Limits) -> Result<()> {
    if commit.ops.len() > limits.commit_ops && !mutant::is("limits/any-number-of-ops") {
        return Err(too_large("operations", commit.ops.len(), limits.commit_ops));
    }
    if let Some(request) = &commit.request {
        request.id.check()?;
    }
    let mut check = Check { limits, bytes: 0 };
    for (at, op) in commit.ops.iter().enumerate() {
        check.op(op).map_err(|error| error.with("op", at))?;
        check_request(commit, op).map_err(|error| error.with("op", at))?;
    }
    if check.bytes > limits.commit_bytes && !mutant::is("limits/commit-of-any-size") {
        return Err(too_large("bytes in the commit", check.bytes, limits.commit_bytes));
    }
    Ok(())
}

/// A receipt that lives in a session cannot tell of that session's end.
fn check_request(commit: &Commit, op: &Op) -> Result<()> {
    let request = commit.request.as_ref();
    let owner = request.and_then(|request| request.owning_session());
    let op = match op {
        Op::WhenKey { then, .. } => then,
        op => op,
    };
    match (op, owner) {
        (Op::DeleteSession { session, .. }, Some(owner)) if session == owner => Err(invalid(
            "the request of a delete must be scoped to the workspace and owned by no deleted session",
        )),
        (Op::CreateSession(new), _) => match request.map(|request| &request.scope) {
            Some(RequestScope::Session(scope)) if scope.incarnation == new.incarnation => Err(invalid(
                "the request of a create must be scoped to the workspace: a repeat draws a new incarnation",
            )),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

struct Check<'a> {
    limits: &'a Limits,
    bytes: usize,
}

impl Check<'_> {
    fn op(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::WhenKey { then, .. } => match **then {
                Op::WhenKey { .. } => Err(invalid("a conditional op cannot hold another one")),
                _ => self.op(then),
            },
            Op::CreateSession(new) => self.profile(&new.profile),
            Op::PatchSession { patch, .. } => {
                self.column("title", patch.title.as_ref().and_then(|t| t.as_ref()).map(|t| t.text.as_str()))?;
                self.column("cwd", patch.cwd.as_ref().and_then(|t| t.as_deref()))?;
                self.column("project", patch.project.as_ref().and_then(|t| t.as_deref()))?;
                if let Some(Some(channel)) = &patch.channel {
                    self.column("channel kind", Some(&channel.kind))?;
                    self.column("channel id", Some(&channel.id))?;
                }
                self.payloads(patch.meta.iter().flatten())
            }
            Op::Append { entries, .. } => self.append(entries),
            Op::CopyEntries { from, to, after, through, .. } => {
                let count = through.get().saturating_sub(after.map_or(0, |after| after.get()));
                if from == to {
                    return Err(invalid("a session cannot be copied into itself"));
                }
                if count == 0 {
                    return Err(invalid("the slice is empty: `through` must be above `after`"));
                }
                if count > SLICE_ROWS {
                    return Err(too_large("entries in one slice", count as usize, SLICE_ROWS as usize));
                }
                Ok(())
            }
            Op::Restore { rows, .. } => {
                if rows.len() > SLICE_ROWS as usize {
                    return Err(too_large("rows in one restore", rows.len(), SLICE_ROWS as usize));
                }
                rows.iter().try_for_each(|row| self.row(row))
            }
            Op::RestoreRecord { record } => {
                if record.owner.is_some() {
                    return Err(invalid("an owned record is restored with its session"));
                }
                self.record(record)
            }
            Op::StartRun { run, .. } => self.run(run),
            Op::TransitionRun { error, .. } => self.payloads(error.iter()),
            Op::PatchRun { patch, .. } => {
                self.column("model", patch.model.as_ref().and_then(|t| t.as_deref()))?;
                self.payloads(
                    [&patch.error, &patch.progress, &patch.context_usage].into_iter().flatten().flatten(),
                )
            }
            Op::AppendEvents { events, .. } => {
                if events.is_empty() {
                    return Err(invalid("there are no events to append"));
                }
                self.payloads(events.iter().map(|event| &event.payload))
            }
            Op::PutRecord(put) => self.payload(&put.payload),
            Op::AcquireLease(LeaseGrant { ttl_ms, .. }) | Op::RenewLease { ttl_ms, .. } => {
                if *ttl_ms == 0 || *ttl_ms > LEASE_MS {
                    return Err(invalid("a lease lasts 1 to 86,400,000 milliseconds"));
                }
                Ok(())
            }
            Op::SealSession { .. }
            | Op::DeleteSession { .. }
            | Op::MoveLeaf { .. }
            | Op::ReopenRun { .. }
            | Op::AddUsage { .. }
            | Op::DropEvents { .. }
            | Op::DeleteRecord { .. }
            | Op::ReleaseLease { .. } => Ok(()),
        }
    }

    fn append(&mut self, entries: &[NewEntry]) -> Result<()> {
        if entries.is_empty() {
            return Err(invalid("there are no entries to append"));
        }
        for (at, entry) in entries.iter().enumerate() {
            self.entry(at, entry).map_err(|error| error.with("entry", at))?;
        }
        Ok(())
    }

    fn entry(&mut self, at: usize, entry: &NewEntry) -> Result<()> {
        if matches!(entry.parent, Parent::InCommit(place) if place >= at) {
            return Err(invalid("the parent must come earlier in the same append"));
        }
        if entry.refs.iter().any(|(_, target)| matches!(target, RefTarget::InCommit(place) if *place >= at)) {
            return Err(invalid("a reference must point to an entry earlier in the same append"));
        }
        if entry.refs.len() > ENTRY_REFS {
            return Err(too_large("references", entry.refs.len(), ENTRY_REFS));
        }
        self.text(entry.text.as_deref())?;
        self.payload(&entry.payload)
    }

    fn run(&mut self, run: &NewRun) -> Result<()> {
        if !matches!(run.state, RunState::Pending | RunState::Running) {
            return Err(invalid("a run starts as pending or running"));
        }
        if run.intent.is_none() && run.after.is_some() {
            return Err(invalid("a retry names the request that it retries"));
        }
        for (what, column) in
            [("source", &run.source), ("model", &run.model), ("mode", &run.mode), ("work_dir", &run.work_dir)]
        {
            self.column(what, column.as_deref())?;
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) -> Result<()> {
        match row {
            Row::Session(image) => {
                if image.activity > MAX_ACTIVITY {
                    return Err(invalid("the activity number of a restored session is out of range"));
                }
                self.profile(&image.profile)
            }
            Row::Entry(entry) => {
                if entry.refs.len() > ENTRY_REFS {
                    return Err(too_large("references", entry.refs.len(), ENTRY_REFS));
                }
                self.text(entry.text.as_deref())?;
                self.payload(&entry.payload)
            }
            Row::Run(run) => {
                for (what, column) in [
                    ("source", &run.source),
                    ("model", &run.model),
                    ("mode", &run.mode),
                    ("work_dir", &run.work_dir),
                ] {
                    self.column(what, column.as_deref())?;
                }
                self.payloads([&run.error, &run.progress, &run.context_usage].into_iter().flatten())
            }
            Row::Stream(stream) => {
                let numbers_fit = stream.floor <= stream.head && stream.batch_first <= stream.head;
                if !numbers_fit || stream.head > i64::MAX as u64 {
                    return Err(invalid("the numbers of a restored stream are out of range"));
                }
                Ok(())
            }
            Row::Event { event, .. } => {
                if event.number > i64::MAX as u64 {
                    return Err(invalid("the number of a restored event is out of range"));
                }
                self.payload(&event.payload)
            }
            Row::Record(record) => self.record(record),
        }
    }

    /// Leaves room above a restored ordinal, so that the store can go on counting.
    fn record(&mut self, record: &Record) -> Result<()> {
        if record.ordinal > MAX_ORDINAL {
            return Err(invalid("the ordinal of a restored record is out of range"));
        }
        self.payload(&record.payload)
    }

    fn profile(&mut self, profile: &Profile) -> Result<()> {
        self.column("title", profile.title.as_ref().map(|title| title.text.as_str()))?;
        self.column("cwd", profile.cwd.as_deref())?;
        self.column("project", profile.project.as_deref())?;
        self.column("channel kind", profile.channel.as_ref().map(|channel| channel.kind.as_str()))?;
        self.column("channel id", profile.channel.as_ref().map(|channel| channel.id.as_str()))?;
        self.payloads(profile.meta.iter())
    }

    fn payloads<'p>(&mut self, payloads: impl IntoIterator<Item = &'p Payload>) -> Result<()> {
        payloads.into_iter().try_for_each(|payload| self.payload(payload))
    }

    fn payload(&mut self, payload: &Payload) -> Result<()> {
        let bytes = payload.as_str().len();
        if bytes > self.limits.payload_bytes {
            return Err(too_large("bytes in the payload", bytes, self.limits.payload_bytes));
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// PostgreSQL cannot hold a NUL in a text column, so none of the backends takes one.
    fn text(&mut self, text: Option<&str>) -> Result<()> {
        let Some(text) = text else { return Ok(()) };
        if text.contains('\0') && !mutant::is("texts/nul-taken") {
            return Err(invalid("the text for search and previews holds a NUL character; leave it out"));
        }
        if text.len() > self.limits.payload_bytes {
            return Err(too_large("bytes in the text", text.len(), self.limits.payload_bytes));
        }
        self.bytes = self.bytes.saturating_add(text.len());
        Ok(())
    }

    fn column(&mut self, what: &'static str, text: Option<&str>) -> Result<()> {
        let Some(text) = text else { return Ok(()) };
        if text.contains('\0') {
            return Err(invalid("a NUL character cannot be stored here").with("field", what));
        }
        if text.len() > COLUMN_BYTES && !mutant::is("limits/column-of-any-size") {
            return Err(too_large("bytes", text.len(), COLUMN_BYTES).with("field", what));
        }
        self.bytes = self.bytes.saturating_add(text.len());
        Ok(())
    }
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

fn too_large(what: &str, is: usize, most: usize) -> Error {
    Error::new(ErrorKind::TooLarge, format!("{is} {what}; at most {most} are allowed"))
}
