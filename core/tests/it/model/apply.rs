//! Ops on sessions, entries and streams.

use turnkeep_core::commit::{NewEntry, NewEvent, NewSession, OnKey, Op, Parent, RefTarget};
use turnkeep_core::id::StreamName;
use turnkeep_core::rules::is_exclusive_stream;
use turnkeep_core::{EntryNo, ErrorKind, SessionRef};

use super::{Check, Done, Line, Session, Work};

impl Work<'_> {
    pub(super) fn op(&mut self, op: &Op) -> Check<Done> {
        match op {
            Op::WhenKey { session, key, then } => match self.active(session)?.with_key(key) {
                Some(_) => self.op(then),
                None => Ok(Done::Skipped),
            },
            Op::CreateSession(new) => self.create(new),
            Op::PatchSession { session, patch } => {
                self.active(session)?;
                let profile = &mut self.change(session)?.profile;
                if let Some(title) = &patch.title {
                    profile.title.clone_from(title);
                }
                if let Some(pinned) = patch.pinned {
                    profile.pinned = pinned;
                }
                Ok(Done::Plain)
            }
            Op::DeleteSession { session, force } => self.delete(session, *force),
            Op::Append { session, entries } => self.append(session, entries),
            Op::MoveLeaf { session, to } => {
                self.exclusive(session)?;
                let to = to.map(EntryNo::get);
                if let Some(to) = to {
                    on_path(self.active(session)?, to)?;
                }
                self.change(session)?.leaf = to;
                Ok(Done::Plain)
            }
            Op::StartRun { session, run } => self.start(session, run),
            Op::TransitionRun { session, run, from, to, error } => {
                self.transition(session, run, *from, *to, error.as_ref())
            }
            Op::ReopenRun { session, run } => self.reopen(session, run),
            Op::PatchRun { session, run, patch } => self.patch_run(session, run, patch),
            Op::AddUsage { session, run, usage } => self.usage(session, run.as_ref(), usage),
            Op::AppendEvents { session, stream, expect_next, events } => {
                self.append_events(session, stream, *expect_next, events)
            }
            Op::DropEvents { session, stream, through, close } => {
                self.drop_events(session, stream, *through, *close)
            }
            Op::PutRecord(put) => self.put(put),
            Op::DeleteRecord { collection, key, owner, expect } => {
                self.delete_record(&(collection.clone(), key.clone()), owner.as_ref(), *expect)
            }
            Op::RestoreRecord { record } => self.restore_record(record, None),
            Op::Restore { session, rows } => self.restore(session, rows),
            Op::SealSession { session, rows, digest, .. } => self.seal(session, *rows, digest),
            Op::AcquireLease(grant) => self.acquire(grant),
            Op::RenewLease { fence, ttl_ms } => self.renew(fence, *ttl_ms),
            Op::ReleaseLease { fence } => self.release(fence),
            Op::CopyEntries { .. } => panic!("the tape copies nothing"),
        }
    }

    fn create(&mut self, new: &NewSession) -> Check<Done> {
        if self.model.sessions.contains_key(&new.id) {
            return Err(ErrorKind::AlreadyExists);
        }
        let session = SessionRef { id: new.id.clone(), incarnation: new.incarnation };
        let row = Session {
            incarnation: new.incarnation,
            state: new.state,
            revision: 1,
            activity: self.world.activity,
            created_at: self.world.now,
            updated_at: self.world.now,
            entries: Vec::new(),
            leaf: None,
            runs: Vec::new(),
            usage: Default::default(),
            streams: Default::default(),
            lease: None,
            profile: new.profile.clone(),
            restored: Vec::new(),
        };
        self.model.sessions.insert(new.id.clone(), row);
        self.made.insert(session.clone());
        self.moved.insert(session);
        Ok(Done::Plain)
    }

    fn append(&mut self, session: &SessionRef, new: &[NewEntry]) -> Check<Done> {
        self.exclusive(session)?;
        let mut numbers = Vec::new();
        for entry in new {
            numbers.push(self.append_one(session, entry, &numbers)?);
        }
        Ok(Done::Entries(numbers))
    }

    fn append_one(&mut self, session: &SessionRef, new: &NewEntry, numbers: &[u32]) -> Check<u32> {
        let row = self.active(session)?;
        if let Some(taken) = new.key.as_ref().and_then(|key| row.with_key(key)) {
            return match new.on_key {
                OnKey::Skip => Ok(taken),
                OnKey::Refuse => Err(ErrorKind::AlreadyExists),
            };
        }
        let parent = match new.parent {
            Parent::Leaf => row.leaf,
            Parent::Root => None,
            Parent::Number(number) => Some(number.get()),
            Parent::InCommit(place) => Some(numbers[place]),
        };
        let refs = new.refs.iter().map(|(_, target)| match target {
            RefTarget::Number(number) => number.get(),
            RefTarget::InCommit(place) => numbers[*place],
        });
        let refs: Vec<u32> = refs.collect();
        if refs.iter().any(|target| row.line(*target).is_none()) {
            return Err(ErrorKind::NotFound);
        }
        if let Some(parent) = parent {
            on_path(row, parent)?;
        }
        let row = self.change(session)?;
        row.entries.push(Line {
            parent,
            on_path: new.advance_leaf,
            key: new.key.clone(),
            kind: new.kind.as_str().to_owned(),
            user: new.role.as_ref().is_some_and(|role| role.as_str() == "user"),
            visibility: new.visibility,
            refs,
            text: new.text.clone(),
            payload: new.payload.clone(),
        });
        let number = row.head().unwrap();
        if new.advance_leaf {
            row.leaf = Some(number);
        }
        Ok(number)
    }

    fn admit(&mut self, session: &SessionRef, stream: &StreamName) -> Check {
        if is_exclusive_stream(stream.as_str()) {
            self.exclusive(session)
        } else {
            self.active(session).map(drop)
        }
    }

    fn append_events(
        &mut self,
        session: &SessionRef,
        stream: &StreamName,
        expect_next: Option<u64>,
        new: &[NewEvent],
    ) -> Check<Done> {
        self.admit(session, stream)?;
        let batch: Vec<_> = new
            .iter()
            .map(|event| (event.kind.as_str().to_owned(), event.run.clone(), event.payload.clone()))
            .collect();
        let log = self.active(session)?.streams.get(stream).cloned().unwrap_or_default();
        let next = log.events.len() as u64 + 1;
        let len = new.len() as u64;
        if let Some(expected) = expect_next
            && expected != next
        {
            let repeat = log.repeatable == Some((expected, batch)) && expected + len == next;
            return if repeat {
                Ok(Done::Events(expected, expected + len - 1))
            } else {
                Err(ErrorKind::VersionConflict)
            };
        }
        if log.closed {
            return Err(ErrorKind::TurnNotOpen);
        }
        let log = self.change(session)?.streams.entry(stream.clone()).or_default();
        log.events.extend(batch.iter().map(|(kind, _, payload)| (kind.clone(), payload.clone())));
        log.repeatable = expect_next.map(|expected| (expected, batch));
        Ok(Done::Events(next, next + len - 1))
    }

    fn drop_events(
        &mut self,
        session: &SessionRef,
        stream: &StreamName,
        through: Option<u64>,
        close: bool,
    ) -> Check<Done> {
        self.admit(session, stream)?;
        let log = self.active(session)?.streams.get(stream).cloned().unwrap_or_default();
        let head = log.events.len() as u64;
        let floor = log.floor.max(through.map_or(head, |through| through.min(head)));
        let closed = log.closed || close;
        if (floor, closed) != (log.floor, log.closed) {
            let log = self.change(session)?.streams.entry(stream.clone()).or_default();
            (log.floor, log.closed) = (floor, closed);
        }
        Ok(Done::Plain)
    }
}

/// Only an entry of the conversation can be followed or be the leaf.
fn on_path(session: &Session, number: u32) -> Check {
    match session.line(number) {
        None => Err(ErrorKind::NotFound),
        Some(line) if line.on_path => Ok(()),
        Some(_) => Err(ErrorKind::Invalid),
    }
}
