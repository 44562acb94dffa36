//! What a caller meant by a commit, as a digest: kinds, keys, payloads and parameters of its ops.
//!
//! Left out is what a retry makes anew: times, incarnations, nonces, owners, tokens, epochs, ids of what is made here,
//! versions, guards, fences and how a lease is taken. A session or run that the commit itself makes is named by its
//! place among those made, so that a retry may draw new ids. A caller that means such an id gives its own fingerprint
//! with the request.
//!
//! The form is version 1: tag, then fields in the order below; lists with their length, optional fields with a flag.
//! It must not change for what is stored to be recognised, so nothing here depends on how a type prints itself.

use crate::commit::{
    Commit, Expect, Fingerprint, NewEntry, NewEvent, NewRun, NewSession, OnKey, Op, Parent, Put, RefTarget,
    RequestScope, RunPatch, SessionPatch,
};
use crate::digest::FieldDigest;
use crate::id::{EntryNo, RunId, SessionRef};
use crate::model::{
    Audience, Channel, ForkKind, ForkOrigin, LeaseName, Profile, Record, Row, RunStates, SessionState, Title,
    TitleSource, Usage, Visibility,
};
use crate::mutant;
use crate::payload::Payload;
use crate::rules::fold_row;

/// The fingerprint of a commit: the one its request carries, else the digest of version 1 of the canonical form.
#[must_use]
pub fn fingerprint(commit: &Commit) -> Fingerprint {
    let request = commit.request.as_ref();
    if let Some(given) = request.and_then(|request| request.fingerprint) {
        return given;
    }
    let mut form = Form { digest: FieldDigest::new("commit/1"), sessions: Vec::new(), runs: Vec::new() };
    form.text(commit.workspace.as_str());
    if let Some(RequestScope::Session(session)) = request.map(|request| &request.scope) {
        form.text(session.id.as_str());
    }
    form.number(commit.ops.len() as u64);
    if mutant::is("fingerprint/guards-included") {
        form.number(commit.guards.len() as u64 + commit.fences.len() as u64);
    }
    commit.ops.iter().for_each(|op| form.op(op));
    Fingerprint::from_bytes(form.digest.finish())
}

struct Form<'a> {
    digest: FieldDigest,
    /// What the ops so far have made.
    sessions: Vec<&'a NewSession>,
    runs: Vec<(&'a SessionRef, &'a RunId)>,
}

impl<'a> Form<'a> {
    fn op(&mut self, op: &'a Op) {
        match op {
            Op::WhenKey { session, key, then } => {
                self.on("when_key", session);
                self.text(key.as_str());
                self.op(then);
            }
            Op::CreateSession(new) => {
                self.text("create_session");
                self.number(match new.state {
                    SessionState::Active => 0,
                    SessionState::Restoring => 1,
                });
                self.profile(&new.profile);
                self.sessions.push(new);
            }
            Op::PatchSession { session, patch } => {
                self.on("patch_session", session);
                self.session_patch(patch);
            }
            Op::DeleteSession { session, force } => {
                self.on("delete_session", session);
                self.flag(*force);
            }
            Op::Append { session, entries } => {
                self.on("append", session);
                self.list(entries, Self::entry);
            }
            Op::MoveLeaf { session, to } => {
                self.on("move_leaf", session);
                self.entry_no(*to);
            }
            Op::CopyEntries { from, to, after, through } => {
                self.on("copy_entries", from);
                self.session(to);
                self.entry_no(*after);
                self.entry_no(Some(*through));
            }
            Op::SealSession { session, leaf, rows, digest } => {
                self.on("seal_session", session);
                self.entry_no(*leaf);
                self.number(*rows);
                self.digest.add_bytes(digest);
            }
            Op::Restore { session, rows } => {
                self.on("restore", session);
                self.rows(rows);
            }
            Op::RestoreRecord { record } => self.restored_record(record),
            Op::StartRun { session, run } => self.new_run(session, run),
            Op::TransitionRun { session, run, from, to, error } => {
                self.on("transition_run", session);
                self.run(session, run);
                self.states(*from);
                self.text(to.as_str());
                self.payload(error.as_ref());
            }
            Op::ReopenRun { session, run } => {
                self.on("reopen_run", session);
                self.run(session, run);
            }
            Op::PatchRun { session, run, patch } => {
                self.on("patch_run", session);
                self.run(session, run);
                self.run_patch(patch);
            }
            Op::AddUsage { session, run, usage } => {
                self.on("add_usage", session);
                self.optional(run.as_ref(), |form, run| form.run(session, run));
                self.usage(usage);
            }
            Op::AppendEvents { session, stream, expect_next, events } => {
                self.on("append_events", session);
                self.text(stream.as_str());
                self.optional(*expect_next, Self::number);
                self.list(events, Self::event);
            }
            Op::DropEvents { session, stream, through, close } => {
                self.on("drop_events", session);
                self.text(stream.as_str());
                self.optional(*through, Self::number);
                self.flag(*close);
            }
            Op::PutRecord(put) => self.put(put),
            // The owner is what the caller knows, as in a guard.
            Op::DeleteRecord { collection, key, owner: _, expect } => {
                self.text("delete_record");
                self.text(collection.as_str());
                self.text(key.as_str());
                self.expect(*expect);
            }
            Op::AcquireLease(grant) => {
                self.text("acquire_lease");
                self.lease(&grant.name);
                self.text(grant.purpose.as_str());
            }
            Op::RenewLease { fence, ttl_ms: _ } => {
                self.text("renew_lease");
                self.lease(&fence.name);
            }
            Op::ReleaseLease { fence } => {
                self.text("release_lease");
                self.lease(&fence.name);
            }
        }
    }

    fn profile(&mut self, profile: &Profile) {
        let Profile { title, cwd, audience, parent, fork, channel, project, pinned, archived, meta } =
            profile;
        self.optional(title.as_ref(), Self::title);
        self.maybe(cwd.as_deref());
        self.number(match audience {
            Audience::User => 0,
            Audience::SubAgent => 1,
        });
        self.optional(parent.as_ref(), |form, parent| form.text(parent.as_str()));
        self.optional(fork.as_ref(), |form, ForkOrigin { kind, boundary, seed_length }| {
            form.number(match kind {
                ForkKind::Session => 0,
                ForkKind::Message => 1,
            });
            form.entry_no(Some(*boundary));
            form.number(u64::from(*seed_length));
        });
        self.optional(channel.as_ref(), Self::channel);
        self.maybe(project.as_deref());
        self.flag(*pinned);
        self.flag(*archived);
        self.payload(meta.as_ref());
    }

    fn session_patch(&mut self, patch: &SessionPatch) {
        let SessionPatch { title, cwd, channel, project, pinned, archived, meta } = patch;
        self.optional(title.as_ref(), |form, title| form.optional(title.as_ref(), Self::title));
        self.optional(cwd.as_ref(), |form, cwd| form.maybe(cwd.as_deref()));
        self.optional(channel.as_ref(), |form, channel| form.optional(channel.as_ref(), Self::channel));
        self.optional(project.as_ref(), |form, project| form.maybe(project.as_deref()));
        self.optional(*pinned, Self::flag);
        self.optional(*archived, Self::flag);
        self.optional(meta.as_ref(), |form, meta| form.payload(meta.as_ref()));
    }

    fn title(&mut self, title: &Title) {
        let Title { text, source } = title;
        self.text(text);
        self.number(match source {
            TitleSource::Manual => 0,
            TitleSource::Auto => 1,
        });
    }

    fn channel(&mut self, channel: &Channel) {
        let Channel { kind, id } = channel;
        self.text(kind);
        self.text(id);
    }

    /// Without run and turn, which may have been drawn for this very commit.
    fn entry(&mut self, entry: &NewEntry) {
        let NewEntry { parent, advance_leaf, kind, role, run: _, turn: _, key, on_key, .. } = entry;
        let NewEntry { visibility, at: _, refs, text, payload, .. } = entry;
        match parent {
            Parent::Leaf => self.number(0),
            Parent::Root => self.number(1),
            Parent::Number(number) => self.place(2, u64::from(number.get())),
            Parent::InCommit(place) => self.place(3, *place as u64),
        }
        self.flag(*advance_leaf);
        self.text(kind.as_str());
        self.maybe(role.as_ref().map(|role| role.as_str()));
        self.maybe(key.as_ref().map(|key| key.as_str()));
        self.number(match on_key {
            OnKey::Refuse => 0,
            OnKey::Skip => 1,
        });
        self.number(match visibility {
            Visibility::Conversation => 0,
            Visibility::Internal => 1,
            Visibility::Partial => 2,
        });
        self.list(refs, |form, (relation, target)| {
            form.text(relation.as_str());
            match target {
                RefTarget::Number(number) => form.place(0, u64::from(number.get())),
                RefTarget::InCommit(place) => form.place(1, *place as u64),
            }
        });
        self.maybe(text.as_deref());
        self.text(mutant::either("fingerprint/payload-left-out", "", payload.as_str()));
    }

    /// Exact rows, times included: they are the meaning, in the form that the seal compares.
    fn rows(&mut self, rows: &[Row]) {
        self.number(rows.len() as u64);
        let digest = rows.iter().fold([0; 32], |digest, row| fold_row(&digest, row));
        self.digest.add_bytes(&digest);
    }

    fn restored_record(&mut self, record: &Record) {
        let Record { collection, key, owner: _, status, ordinal, version: _, payload, .. } = record;
        self.text("restore_record");
        self.text(collection.as_str());
        self.text(key.as_str());
        self.maybe(status.as_ref().map(|status| status.as_str()));
        self.number(*ordinal);
        self.text(payload.as_str());
    }

    /// Without its id and the request it tries to fulfil, which may have been drawn for this very commit, and without
    /// the attempt before it, which is a condition.
    fn new_run(&mut self, session: &'a SessionRef, run: &'a NewRun) {
        let NewRun { id, state, intent: _, after: _, source, model, mode, work_dir } = run;
        self.on("start_run", session);
        self.text(state.as_str());
        [source, model, mode, work_dir].into_iter().for_each(|field| self.maybe(field.as_deref()));
        self.runs.push((session, id));
    }

    fn run_patch(&mut self, patch: &RunPatch) {
        let RunPatch { error, progress, context_usage, model } = patch;
        for field in [error, progress, context_usage] {
            self.optional(field.as_ref(), |form, field| form.payload(field.as_ref()));
        }
        self.optional(model.as_ref(), |form, model| form.maybe(model.as_deref()));
    }

    fn usage(&mut self, usage: &Usage) {
        let Usage {
            requests,
            input_tokens,
            output_tokens,
            total_tokens,
            cache_read_tokens,
            cache_write_tokens,
            duration_ms,
        } = usage;
        [
            requests,
            input_tokens,
            output_tokens,
            total_tokens,
            cache_read_tokens,
            cache_write_tokens,
            duration_ms,
        ]
        .into_iter()
        .for_each(|counter| self.number(*counter));
    }

    fn event(&mut self, event: &NewEvent) {
        let NewEvent { kind, run: _, at: _, payload } = event;
        self.text(kind.as_str());
        self.text(payload.as_str());
    }

    fn put(&mut self, put: &Put) {
        let Put { collection, key, owner, status, expect, payload } = put;
        self.text("put_record");
        self.text(collection.as_str());
        self.text(key.as_str());
        self.optional(owner.as_ref(), Self::session);
        self.maybe(status.as_ref().map(|status| status.as_str()));
        self.expect(*expect);
        self.text(payload.as_str());
    }

    /// The version of an expectation is something that a retry reads anew.
    fn expect(&mut self, expect: Expect) {
        self.number(match expect {
            Expect::Any => 0,
            Expect::Absent => 1,
            Expect::Version(_) => 2,
        });
    }

    fn lease(&mut self, name: &LeaseName) {
        match name {
            LeaseName::Session(session) => {
                self.number(0);
                self.session(session);
            }
            LeaseName::Named(id) => {
                self.number(1);
                self.text(id.as_str());
            }
        }
    }

    fn on(&mut self, tag: &str, session: &SessionRef) {
        self.text(tag);
        self.session(session);
    }

    fn session(&mut self, session: &SessionRef) {
        let made = self
            .sessions
            .iter()
            .position(|new| new.incarnation == session.incarnation && new.id == session.id);
        match made {
            Some(place) => self.place(1, place as u64),
            None => {
                self.number(0);
                self.text(session.id.as_str());
            }
        }
    }

    fn run(&mut self, session: &SessionRef, run: &RunId) {
        match self.runs.iter().position(|made| *made == (session, run)) {
            Some(place) => self.place(1, place as u64),
            None => {
                self.number(0);
                self.text(run.as_str());
            }
        }
    }

    fn states(&mut self, states: RunStates) {
        self.number(states.iter().count() as u64);
        states.iter().for_each(|state| self.text(state.as_str()));
    }

    fn payload(&mut self, payload: Option<&Payload>) {
        self.maybe(payload.map(Payload::as_str));
    }

    fn entry_no(&mut self, number: Option<EntryNo>) {
        self.number(u64::from(number.map_or(0, EntryNo::get)));
    }

    fn place(&mut self, kind: u64, number: u64) {
        self.number(kind);
        self.number(number);
    }

    fn list<T>(&mut self, items: &[T], each: impl Fn(&mut Self, &T)) {
        self.number(items.len() as u64);
        items.iter().for_each(|item| each(self, item));
    }

    fn optional<T>(&mut self, value: Option<T>, some: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            some(self, value);
        }
    }

    fn maybe(&mut self, text: Option<&str>) {
        self.optional(text, Self::text);
    }

    fn flag(&mut self, flag: bool) {
        self.number(u64::from(flag));
    }

    fn text(&mut self, text: &str) {
        self.digest.add_bytes(text.as_bytes());
    }

    fn number(&mut self, number: u64) {
        self.digest.add_number(number);
    }
}
