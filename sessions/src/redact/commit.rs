//! Every text of a commit. No pattern here ends in `..`: a new op or field must say whether it carries texts.

use turnkeep_core::Payload;
use turnkeep_core::commit::{
    Commit, NewEntry, NewEvent, NewRun, NewSession, Op, Put, RunPatch, SessionPatch,
};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::model::{Entry, Event, Profile, Record, Row, Run, SessionImage, Title};

use super::{Redaction, json};

impl Redaction {
    /// Hides what must not be stored.
    ///
    /// # Errors
    /// `TooLarge` when a payload outgrows the limit by it; `Invalid` for a restored row that was not redacted before.
    pub(crate) fn commit(&self, commit: &mut Commit) -> Result<()> {
        commit.ops.iter_mut().try_for_each(|op| self.op(op))
    }

    fn op(&self, op: &mut Op) -> Result<()> {
        match op {
            Op::WhenKey { session: _, key: _, then } => self.op(then),
            Op::CreateSession(NewSession { id: _, incarnation: _, state: _, profile }) => {
                self.profile(profile)
            }
            Op::PatchSession { session: _, patch } => self.session_patch(patch),
            Op::Append { session: _, entries } => {
                entries.iter_mut().try_for_each(|entry| self.new_entry(entry))
            }
            Op::Restore { session: _, rows } => rows.iter().try_for_each(|row| self.require_redacted(row)),
            Op::RestoreRecord { record } => self.record(record),
            Op::StartRun { session: _, run } => {
                let NewRun { id: _, state: _, intent: _, after: _, source, model, mode, work_dir } = run;
                [source, model, mode, work_dir].into_iter().for_each(|text| self.maybe_text(text));
                Ok(())
            }
            Op::TransitionRun { session: _, run: _, from: _, to: _, error } => self.maybe_payload(error),
            Op::PatchRun { session: _, run: _, patch } => {
                let RunPatch { error, progress, context_usage, model } = patch;
                model.iter_mut().for_each(|model| self.maybe_text(model));
                [error, progress, context_usage]
                    .into_iter()
                    .flatten()
                    .try_for_each(|part| self.maybe_payload(part))
            }
            Op::AppendEvents { session: _, stream: _, expect_next: _, events } => {
                events.iter_mut().try_for_each(|event| {
                    let NewEvent { kind: _, run: _, at: _, payload } = event;
                    self.payload(payload)
                })
            }
            Op::PutRecord(put) => {
                let Put { collection: _, key: _, owner: _, status: _, expect: _, payload } = put;
                self.payload(payload)
            }
            Op::DeleteSession { .. }
            | Op::MoveLeaf { .. }
            | Op::CopyEntries { .. }
            | Op::SealSession { .. }
            | Op::ReopenRun { .. }
            | Op::AddUsage { .. }
            | Op::DropEvents { .. }
            | Op::DeleteRecord { .. }
            | Op::AcquireLease(_)
            | Op::RenewLease { .. }
            | Op::ReleaseLease { .. } => Ok(()),
        }
    }

    pub(crate) fn new_entry(&self, entry: &mut NewEntry) -> Result<()> {
        let NewEntry {
            parent: _,
            advance_leaf: _,
            kind: _,
            role: _,
            run: _,
            turn: _,
            key: _,
            on_key: _,
            visibility: _,
            at: _,
            refs: _,
            text,
            payload,
        } = entry;
        self.maybe_text(text);
        self.payload(payload)
    }

    fn profile(&self, profile: &mut Profile) -> Result<()> {
        let Profile {
            title,
            cwd,
            audience: _,
            parent: _,
            fork: _,
            // Identities, by which it is found.
            channel: _,
            project: _,
            pinned: _,
            archived: _,
            meta,
        } = profile;
        self.title(title);
        self.maybe_text(cwd);
        self.maybe_payload(meta)
    }

    fn session_patch(&self, patch: &mut SessionPatch) -> Result<()> {
        let SessionPatch { title, cwd, channel: _, project: _, pinned: _, archived: _, meta } = patch;
        title.iter_mut().for_each(|title| self.title(title));
        cwd.iter_mut().for_each(|cwd| self.maybe_text(cwd));
        meta.iter_mut().try_for_each(|meta| self.maybe_payload(meta))
    }

    fn title(&self, title: &mut Option<Title>) {
        if let Some(Title { text, source: _ }) = title {
            self.text(text);
        }
    }

    fn record(&self, record: &mut Record) -> Result<()> {
        self.payload(&mut record.payload)
    }

    /// Hides what must not be stored of a row that is to be restored. It has to happen before rows are counted and
    /// digested, so whoever restores does it.
    pub(crate) fn row(&self, row: &mut Row) -> Result<()> {
        match row {
            Row::Session(image) => self.image(image),
            Row::Entry(entry) => self.entry(entry),
            Row::Run(run) => self.run(run),
            Row::Stream(_) => Ok(()),
            Row::Event { stream: _, event } => self.event(event),
            Row::Record(record) => self.record(record),
        }
    }

    pub(crate) fn image(&self, image: &mut SessionImage) -> Result<()> {
        self.profile(&mut image.profile)
    }

    fn entry(&self, entry: &mut Entry) -> Result<()> {
        self.maybe_text(&mut entry.text);
        self.payload(&mut entry.payload)
    }

    fn run(&self, run: &mut Run) -> Result<()> {
        let Run { source, model, mode, work_dir, error, progress, context_usage, .. } = run;
        [source, model, mode, work_dir].into_iter().for_each(|text| self.maybe_text(text));
        [error, progress, context_usage].into_iter().try_for_each(|part| self.maybe_payload(part))
    }

    fn event(&self, event: &mut Event) -> Result<()> {
        self.payload(&mut event.payload)
    }

    /// A restored row is digested as it is, so it cannot be changed here any more.
    fn require_redacted(&self, row: &Row) -> Result<()> {
        let mut redacted = row.clone();
        self.row(&mut redacted)?;
        if redacted == *row {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Invalid,
            "a restored row holds what the redactor of this workspace hides; import it through the workspace",
        ))
    }

    /// Hides what must not be stored of one text.
    pub(crate) fn text(&self, text: &mut String) {
        if let Some(hidden) = json::text(self.redactor(), text) {
            *text = hidden;
        }
    }

    pub(crate) fn maybe_text(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            self.text(text);
        }
    }

    pub(crate) fn payload(&self, payload: &mut Payload) -> Result<()> {
        if let Some(hidden) = json::json(self.redactor(), payload.as_str()) {
            *payload = Payload::new(hidden)?;
        }
        Ok(())
    }

    pub(crate) fn maybe_payload(&self, payload: &mut Option<Payload>) -> Result<()> {
        payload.iter_mut().try_for_each(|payload| self.payload(payload))
    }
}
