//! Fences, guards, and who may do exclusive work.

use turnkeep_core::ErrorKind;

use super::{Check, Work, entries};
use crate::tape::ops::{Condition, Expected, Hold, Life};

impl Work {
    pub(super) fn fence(&mut self, lease: &Hold) -> Check {
        if self.model.lease(lease).is_some_and(|row| row.held) && self.proves(lease) {
            self.held.insert(lease.clone());
            return Ok(());
        }
        Err(ErrorKind::LeaseLost)
    }

    pub(super) fn guard(&mut self, guard: &Condition) -> Check {
        let (holds, otherwise) = match guard {
            Condition::Leaf { session, leaf } => {
                (self.active(session)?.leaf == leaf.as_ref().map(entries::number), ErrorKind::StaleLeaf)
            }
            Condition::Head { session, head } => {
                (self.active(session)?.head() == head.as_ref().map(entries::number), ErrorKind::StaleLeaf)
            }
            Condition::Revision { session, revision } => {
                (self.active(session)?.revision == *revision, ErrorKind::StaleLeaf)
            }
            Condition::NoSession { id } => (!self.model.sessions.contains_key(id), ErrorKind::AlreadyExists),
            Condition::NoActiveRun { session } => {
                (self.active(session)?.active_run().is_none(), ErrorKind::ActiveRun)
            }
            Condition::RunIn { session, run, states } => {
                let runs = &self.active(session)?.runs;
                let run = runs.iter().find(|known| known.id == *run).ok_or(ErrorKind::NotFound)?;
                (states.contains(&run.state), ErrorKind::RunState)
            }
            Condition::KeyThere { session, key } => {
                (self.active(session)?.keyed(key).is_some(), ErrorKind::NotFound)
            }
            Condition::KeyFree { session, key } => {
                (self.active(session)?.keyed(key).is_none(), ErrorKind::AlreadyExists)
            }
            Condition::Record { collection, key, expect } => {
                (self.as_expected(collection, key, *expect), ErrorKind::VersionConflict)
            }
        };
        if holds { Ok(()) } else { Err(otherwise) }
    }

    pub(super) fn as_expected(&self, collection: &str, key: &str, expect: Expected) -> bool {
        let doc = self.model.doc(collection, key);
        match expect {
            Expected::Any => true,
            Expected::Absent => doc.is_none(),
            Expected::Seen | Expected::Former => {
                let wanted = self.model.mind(self.handle.0).version(collection, key, expect);
                wanted.is_some() && doc.map(|doc| doc.version) == wanted
            }
        }
    }

    /// Exclusive work: the lease is proven in this commit, or nobody alive and in time has it.
    pub(super) fn exclusive(&mut self, life: &Life) -> Check {
        self.active(life)?;
        if self.held.contains(&Hold::Session(life.clone())) {
            return Ok(());
        }
        let at_work = self.active(life)?.active_run().is_some();
        let Some(lease) = self.active(life)?.lease.clone().filter(|lease| lease.held) else { return Ok(()) };
        if !self.model.expired(&lease) && !self.model.dead_owner(&lease) {
            return Err(ErrorKind::LeaseHeld);
        }
        if at_work {
            return Err(ErrorKind::ActiveRun);
        }
        if let Some(lease) = &mut self.active(life)?.lease {
            lease.held = false;
            lease.epoch += 1;
        }
        Ok(())
    }

    /// Work on a session in the making: only its builder.
    pub(super) fn builder(&mut self, life: &Life) -> Check {
        if !self.any(life)?.restoring {
            return Err(ErrorKind::Invalid);
        }
        let held = self.held.contains(&Hold::Session(life.clone()));
        if held { Ok(()) } else { Err(ErrorKind::LeaseLost) }
    }
}
