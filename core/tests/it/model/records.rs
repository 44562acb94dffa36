//! Records, and what is restored.

use turnkeep_core::commit::{Expect, Put};
use turnkeep_core::id::{Collection, RecordKey};
use turnkeep_core::model::{LeaseName, Record, Row, SessionState};
use turnkeep_core::rules::{fold_row, is_exclusive_collection};
use turnkeep_core::{ErrorKind, SessionRef};

use super::{Check, Doc, Done, Work};

impl Work<'_> {
    fn version(&mut self) -> u64 {
        self.model.versions += 1;
        self.model.versions
    }

    /// A record that came with a session which is being built is its builder's.
    fn not_in_the_making(&self, at: &(Collection, RecordKey)) -> Check {
        let owner = self.model.records.get(at).and_then(|doc| doc.owner.as_ref());
        let state = owner.and_then(|owner| self.model.session(owner)).map(|row| row.state);
        if state == Some(SessionState::Restoring) { Err(ErrorKind::VersionConflict) } else { Ok(()) }
    }

    pub(super) fn put(&mut self, put: &Put) -> Check<Done> {
        let exclusive = is_exclusive_collection(put.collection.as_str());
        if let Some(owner) = &put.owner {
            self.active(owner)?;
            if exclusive {
                self.exclusive(owner)?;
            }
        }
        let at = (put.collection.clone(), put.key.clone());
        self.not_in_the_making(&at)?;
        let before = self.model.doc(&at).cloned();
        if !self.expected(before.as_ref(), put.expect) {
            return Err(ErrorKind::VersionConflict);
        }
        if exclusive && before.as_ref().is_some_and(|before| before.owner != put.owner) {
            return Err(ErrorKind::Invalid);
        }
        let stays = before.as_ref().filter(|before| before.owner == put.owner);
        let ordinal = match stays {
            Some(before) => before.ordinal,
            None => {
                let last = (put.collection.clone(), put.owner.clone());
                let last = self.model.ordinals.entry(last).or_default();
                *last += 1;
                *last
            }
        };
        for owner in before.iter().filter_map(|before| before.owner.as_ref()).chain(&put.owner) {
            self.change(owner)?;
        }
        let version = self.version();
        let doc = Doc {
            owner: put.owner.clone(),
            status: put.status.as_ref().map(|status| status.as_str().to_owned()),
            ordinal,
            version,
            payload: put.payload.clone(),
        };
        self.model.records.insert(at, doc);
        Ok(Done::Record { version, ordinal })
    }

    pub(super) fn delete_record(
        &mut self,
        at: &(Collection, RecordKey),
        owner: Option<&SessionRef>,
        expect: Expect,
    ) -> Check<Done> {
        self.not_in_the_making(at)?;
        let before = self.model.doc(at).cloned();
        if !self.expected(before.as_ref(), expect) {
            return Err(ErrorKind::VersionConflict);
        }
        let Some(before) = before else { return Ok(Done::Plain) };
        if let Some(owned_by) = &before.owner {
            if is_exclusive_collection(at.0.as_str()) {
                if owner != Some(owned_by) {
                    return Err(ErrorKind::VersionConflict);
                }
                self.exclusive(owned_by)?;
            }
            self.change(owned_by)?;
        }
        self.model.records.remove(at);
        Ok(Done::Plain)
    }

    pub(super) fn restore_record(&mut self, record: &Record, owner: Option<&SessionRef>) -> Check<Done> {
        let at = (record.collection.clone(), record.key.clone());
        let gone = |doc: &Doc| doc.owner.as_ref().is_some_and(|owner| self.model.session(owner).is_none());
        if self.model.records.get(&at).is_some_and(|doc| !gone(doc)) {
            return Err(ErrorKind::AlreadyExists);
        }
        let last = self.model.ordinals.entry((record.collection.clone(), owner.cloned())).or_default();
        *last = record.ordinal.max(*last);
        let version = self.version();
        let doc = Doc {
            owner: owner.cloned(),
            status: record.status.as_ref().map(|status| status.as_str().to_owned()),
            ordinal: record.ordinal,
            version,
            payload: record.payload.clone(),
        };
        self.model.records.insert(at, doc);
        Ok(Done::Plain)
    }

    /// The tape restores records only; the other kinds have tests of their own.
    pub(super) fn restore(&mut self, session: &SessionRef, rows: &[Row]) -> Check<Done> {
        self.builder(session)?;
        for row in rows {
            let Row::Record(record) = row else { panic!("the tape restores records only") };
            self.restore_record(record, Some(session))?;
        }
        self.change(session)?.restored.extend_from_slice(rows);
        Ok(Done::Plain)
    }

    pub(super) fn seal(&mut self, session: &SessionRef, rows: u64, digest: &[u8; 32]) -> Check<Done> {
        self.builder(session)?;
        let restored = std::mem::take(&mut self.any(session)?.restored);
        let sum = restored.iter().fold([0; 32], |sum, row| fold_row(&sum, row));
        if rows != restored.len() as u64 || *digest != sum {
            return Err(ErrorKind::Corrupt);
        }
        self.change(session)?.state = SessionState::Active;
        Ok(Done::Plain)
    }

    /// Everything of the session is gone; its records are invisible, because their owner is.
    pub(super) fn delete(&mut self, session: &SessionRef, force: bool) -> Check<Done> {
        let building = self.any(session)?.state == SessionState::Restoring;
        if self.made.contains(session) {
            return Err(ErrorKind::Invalid);
        }
        if !force {
            if building {
                self.builder(session)?;
            } else {
                self.exclusive(session)?;
            }
            let fenced = self.held.contains(&LeaseName::Session(session.clone()));
            if !fenced && self.any(session)?.active_run().is_some() {
                return Err(ErrorKind::ActiveRun);
            }
        }
        self.model.sessions.remove(&session.id);
        self.model.requests.retain(|_, stored| stored.owner.as_ref() != Some(session));
        self.model.ordinals.retain(|(_, owner), _| owner.as_ref() != Some(session));
        self.held.remove(&LeaseName::Session(session.clone()));
        Ok(Done::Plain)
    }
}
