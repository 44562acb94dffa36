//! Guards and fences.

use turnkeep_core::ErrorKind;
use turnkeep_core::commit::{Expect, Fence, Guard};
use turnkeep_core::model::{LeaseName, LeaseState};

use super::{Check, Doc, Work};

impl Work<'_> {
    pub(super) fn fence(&mut self, fence: &Fence) -> Check {
        let lease = self.model.lease(&fence.name).ok_or(ErrorKind::LeaseLost)?;
        if lease.state != LeaseState::Held || !lease.proven_by(fence) {
            return Err(ErrorKind::LeaseLost);
        }
        self.held.insert(fence.name.clone());
        Ok(())
    }

    pub(super) fn guard(&mut self, guard: &Guard) -> Check {
        let (holds, otherwise) = match guard {
            Guard::Leaf { session, leaf } => {
                (self.active(session)?.leaf == leaf.map(|leaf| leaf.get()), ErrorKind::StaleLeaf)
            }
            Guard::Head { session, head } => {
                (self.active(session)?.head() == head.map(|head| head.get()), ErrorKind::StaleLeaf)
            }
            Guard::Revision { session, revision } => {
                (self.active(session)?.revision == *revision, ErrorKind::StaleLeaf)
            }
            Guard::SessionAbsent { id } => (!self.model.sessions.contains_key(id), ErrorKind::AlreadyExists),
            Guard::NoActiveRun { session } => {
                (self.active(session)?.active_run().is_none(), ErrorKind::ActiveRun)
            }
            Guard::RunIn { session, run, states } => {
                let runs = &self.active(session)?.runs;
                let run = runs.iter().find(|known| known.id == *run).ok_or(ErrorKind::NotFound)?;
                (states.contains(run.state), ErrorKind::RunState)
            }
            Guard::KeyPresent { session, key } => {
                (self.active(session)?.with_key(key).is_some(), ErrorKind::NotFound)
            }
            Guard::KeyAbsent { session, key } => {
                (self.active(session)?.with_key(key).is_none(), ErrorKind::AlreadyExists)
            }
            Guard::Record { collection, key, expect } => {
                let doc = self.model.doc(&(collection.clone(), key.clone()));
                (self.expected(doc, *expect), ErrorKind::VersionConflict)
            }
        };
        if holds { Ok(()) } else { Err(otherwise) }
    }

    pub(super) fn expected(&self, doc: Option<&Doc>, expect: Expect) -> bool {
        match expect {
            Expect::Any => true,
            Expect::Absent => doc.is_none(),
            Expect::Version(version) => {
                doc.is_some_and(|doc| self.world.versions.get(&version) == Some(&doc.version))
            }
        }
    }

    /// Exclusive work: its lease is proven in this commit, or nobody alive and in time has it.
    pub(super) fn exclusive(&mut self, session: &turnkeep_core::SessionRef) -> Check {
        self.active(session)?;
        if self.held.contains(&LeaseName::Session(session.clone())) {
            return Ok(());
        }
        let world = self.world;
        let row = self.active(session)?;
        let at_work = row.active_run().is_some();
        match &mut row.lease {
            Some(lease) if lease.state == LeaseState::Held => {
                if !lease.expired(world) && !lease.dead(world) {
                    return Err(ErrorKind::LeaseHeld);
                }
                if at_work {
                    return Err(ErrorKind::ActiveRun);
                }
                lease.state = LeaseState::Released;
                lease.epoch += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Work on a session that is being built: only its builder.
    pub(super) fn builder(&mut self, session: &turnkeep_core::SessionRef) -> Check {
        if self.any(session)?.state == turnkeep_core::model::SessionState::Active {
            return Err(ErrorKind::Invalid);
        }
        let held = self.held.contains(&LeaseName::Session(session.clone()));
        if held { Ok(()) } else { Err(ErrorKind::LeaseLost) }
    }
}
