//! Fences and guards, evaluated against what is stored.

use crate::commit::{Expect, Fence, Guard};
use crate::error::{Error, ErrorKind, Result};
use crate::id::EntryNo;
use crate::model::LeaseState;
use crate::mutant;

use super::records;
use super::state::State;

impl State<'_> {
    /// A fence checks owner, token and epoch, never expiry: a late holder is refused only if somebody took over.
    pub(super) fn check_fence(&mut self, fence: &Fence) -> Result<()> {
        super::leases::check_session(self, &fence.name).map_err(|_| super::leases::lost(&fence.name))?;
        let held = self.facts.leases.get(&fence.name).is_some_and(|fact| {
            fact.row.state == LeaseState::Held && super::leases::matches(&fact.row, fence)
        });
        if !held && !mutant::is("fences/lost-lease-passes") {
            return Err(super::leases::lost(&fence.name));
        }
        self.held.insert(fence.name.clone());
        Ok(())
    }

    pub(super) fn check_guard(&self, guard: &Guard) -> Result<()> {
        match guard {
            Guard::Leaf { session, leaf } => {
                let observed = self.active(session)?.path.leaf;
                if observed == *leaf || mutant::is("guards/leaf-not-compared") {
                    return Ok(());
                }
                Err(stale("the leaf of the session moved; reload it and decide again", *leaf, observed)
                    .with("session", &session.id))
            }
            Guard::Head { session, head } => {
                let observed = self.active(session)?.head;
                if observed == *head || mutant::is("guards/head-not-compared") {
                    return Ok(());
                }
                Err(stale(
                    "the session has other entries than expected; reload it and decide again",
                    *head,
                    observed,
                )
                .with("session", &session.id))
            }
            Guard::Revision { session, revision } => {
                let observed = self.active(session)?.revision;
                if observed == *revision || mutant::is("guards/revision-not-compared") {
                    return Ok(());
                }
                Err(Error::new(ErrorKind::StaleLeaf, "the session was changed; reload it and decide again")
                    .with("session", &session.id)
                    .with("expected", revision)
                    .with("observed", observed))
            }
            Guard::SessionAbsent { id } => {
                if self.facts.sessions.contains_key(id) && !mutant::is("guards/absence-not-looked-at") {
                    return Err(Error::new(ErrorKind::AlreadyExists, "a session with this id is there")
                        .with("session", id));
                }
                Ok(())
            }
            Guard::RunIn { session, run, states } => {
                self.active(session)?;
                let observed = self.run(session, run)?.state;
                if states.contains(observed) || mutant::is("guards/run-state-not-compared") {
                    return Ok(());
                }
                Err(Error::new(ErrorKind::RunState, "the run is in another state than expected")
                    .with("session", &session.id)
                    .with("run", run)
                    .with("observed", observed.as_str()))
            }
            Guard::NoActiveRun { session } => super::runs::no_active_run(self, session),
            Guard::KeyPresent { session, key } => {
                self.active(session)?;
                if self.entry_with_key(session, key).is_some() || mutant::is("guards/key-may-be-missing") {
                    return Ok(());
                }
                Err(Error::new(ErrorKind::NotFound, "no entry has this key")
                    .with("session", &session.id)
                    .with("key", key))
            }
            Guard::KeyAbsent { session, key } => {
                self.active(session)?;
                match self.entry_with_key(session, key) {
                    None => Ok(()),
                    Some(_) if mutant::is("guards/key-may-be-taken") => Ok(()),
                    Some(entry) => Err(Error::new(ErrorKind::AlreadyExists, "an entry has this key already")
                        .with("session", &session.id)
                        .with("key", key)
                        .with("entry", entry)),
                }
            }
            Guard::Record { collection, key, expect } => {
                records::check(records::visible(self, collection, key), *expect, collection, key)
            }
        }
    }
}

fn stale(message: &str, expected: Option<EntryNo>, observed: Option<EntryNo>) -> Error {
    let number = |entry: Option<EntryNo>| entry.map_or(0, EntryNo::get);
    Error::new(ErrorKind::StaleLeaf, message)
        .with("expected", number(expected))
        .with("observed", number(observed))
}

/// Whether an expectation holds for a version, absent or present.
pub(super) fn holds(observed: Option<crate::model::Version>, expect: Expect) -> bool {
    match expect {
        Expect::Any => true,
        Expect::Absent => observed.is_none() || mutant::is("records/absence-not-looked-at"),
        Expect::Version(version) => observed == Some(version) || mutant::is("records/version-not-compared"),
    }
}
