//! What a commit needs to know: a closed list of look-ups, each of one row.

use std::collections::HashSet;

use crate::commit::{Commit, Guard, NewEntry, Op, Parent, Put, RequestScope};
use crate::id::{EntryNo, SessionRef};
use crate::model::{LeaseName, Row};
use crate::mutant;
use crate::rules::{Lookup, ReadSet, is_exclusive_collection};

/// The look-ups that `decide` needs for this commit, each once, sessions before what lies below them.
#[must_use]
pub fn plan(commit: &Commit) -> ReadSet {
    let mut plan = Plan::default();
    if let Some(request) = &commit.request {
        if let RequestScope::Session(session) = &request.scope {
            plan.session(session);
        }
        request.owner.iter().for_each(|owner| plan.session(owner));
        plan.look(Lookup::Request(request.scope.clone(), request.id.clone()));
    }
    commit.fences.iter().for_each(|fence| plan.lease(&fence.name));
    commit.guards.iter().for_each(|guard| plan.guard(guard));
    for op in &commit.ops {
        plan.op(op);
        if let Op::SealSession { session, leaf: Some(leaf), .. } = op {
            plan.copied_leaf(&commit.ops, session, *leaf);
        }
    }
    ReadSet { lookups: plan.lookups }
}

#[derive(Default)]
struct Plan {
    lookups: Vec<Lookup>,
    seen: HashSet<Lookup>,
}

impl Plan {
    fn look(&mut self, lookup: Lookup) {
        // A handful is compared faster than hashed, and nearly every commit needs only a handful.
        if self.lookups.len() < 16 {
            if !self.lookups.contains(&lookup) {
                self.lookups.push(lookup);
            }
            return;
        }
        if self.seen.is_empty() {
            self.seen.extend(self.lookups.iter().cloned());
        }
        if self.seen.insert(lookup.clone()) {
            self.lookups.push(lookup);
        }
    }

    fn session(&mut self, session: &SessionRef) {
        self.look(Lookup::Session(session.id.clone()));
    }

    fn lease(&mut self, name: &LeaseName) {
        if let LeaseName::Session(session) = name {
            self.session(session);
        }
        self.look(Lookup::Lease(name.clone()));
    }

    fn exclusive(&mut self, session: &SessionRef) {
        if mutant::is("plan/leases-not-looked-up") {
            return self.session(session);
        }
        self.lease(&LeaseName::Session(session.clone()));
    }

    fn guard(&mut self, guard: &Guard) {
        match guard {
            Guard::Leaf { session, .. }
            | Guard::Head { session, .. }
            | Guard::Revision { session, .. }
            | Guard::NoActiveRun { session } => self.session(session),
            Guard::SessionAbsent { id } => self.look(Lookup::Session(id.clone())),
            Guard::RunIn { session, run, .. } => {
                self.session(session);
                self.look(Lookup::Run(session.clone(), run.clone()));
            }
            Guard::KeyPresent { session, key } | Guard::KeyAbsent { session, key } => {
                self.session(session);
                self.look(Lookup::EntryKey(session.clone(), key.clone()));
            }
            Guard::Record { collection, key, .. } => {
                self.look(Lookup::Record(collection.clone(), key.clone()))
            }
        }
    }

    fn op(&mut self, op: &Op) {
        match op {
            Op::WhenKey { session, key, then } => {
                self.session(session);
                self.look(Lookup::EntryKey(session.clone(), key.clone()));
                self.op(then);
            }
            Op::CreateSession(new) => self.look(Lookup::Session(new.id.clone())),
            Op::PatchSession { session, .. } => self.session(session),
            Op::DeleteSession { session, .. } => self.exclusive(session),
            Op::Append { session, entries } => {
                self.exclusive(session);
                entries.iter().for_each(|entry| self.entry(session, entry));
            }
            Op::MoveLeaf { session, to } => {
                self.exclusive(session);
                to.iter().for_each(|to| self.look(Lookup::Place(session.clone(), *to)));
            }
            Op::CopyEntries { from, to, after, through } => {
                self.session(from);
                self.exclusive(to);
                self.look(Lookup::Span(from.clone(), *after, *through));
            }
            Op::SealSession { session, leaf, .. } => {
                self.exclusive(session);
                leaf.iter().for_each(|leaf| self.look(Lookup::Place(session.clone(), *leaf)));
            }
            Op::Restore { session, rows } => {
                self.exclusive(session);
                rows.iter().for_each(|row| self.row(session, row));
            }
            Op::RestoreRecord { record } => {
                self.look(Lookup::Record(record.collection.clone(), record.key.clone()));
                self.look(Lookup::Ordinal(record.collection.clone(), None));
            }
            Op::StartRun { session, run } => {
                self.exclusive(session);
                self.look(Lookup::Run(session.clone(), run.id.clone()));
                run.intent
                    .iter()
                    .for_each(|intent| self.look(Lookup::LatestAttempt(session.clone(), intent.clone())));
            }
            Op::TransitionRun { session, run, .. }
            | Op::ReopenRun { session, run }
            | Op::PatchRun { session, run, .. } => {
                self.exclusive(session);
                self.look(Lookup::Run(session.clone(), run.clone()));
            }
            Op::AddUsage { session, run, .. } => {
                self.exclusive(session);
                run.iter().for_each(|run| self.look(Lookup::Run(session.clone(), run.clone())));
            }
            Op::AppendEvents { session, stream, .. } | Op::DropEvents { session, stream, .. } => {
                self.exclusive(session);
                self.look(Lookup::Stream(session.clone(), stream.clone()));
            }
            Op::PutRecord(put) => self.put(put),
            Op::DeleteRecord { collection, key, owner, .. } => {
                owner.iter().for_each(|owner| self.exclusive(owner));
                self.look(Lookup::Record(collection.clone(), key.clone()));
            }
            Op::AcquireLease(grant) => self.lease(&grant.name),
            Op::RenewLease { fence, .. } | Op::ReleaseLease { fence } => self.lease(&fence.name),
        }
    }

    /// What is copied in this very commit lies in the child as it lies in its source.
    fn copied_leaf(&mut self, ops: &[Op], child: &SessionRef, leaf: EntryNo) {
        for op in ops {
            if let Op::CopyEntries { from, to, .. } = op
                && to == child
            {
                self.look(Lookup::Place(from.clone(), leaf));
            }
        }
    }

    fn entry(&mut self, session: &SessionRef, entry: &NewEntry) {
        if let Parent::Number(parent) = entry.parent {
            self.look(Lookup::Place(session.clone(), parent));
        }
        let keys = entry.key.iter().filter(|_| !mutant::is("plan/keys-not-looked-up"));
        keys.for_each(|key| self.look(Lookup::EntryKey(session.clone(), key.clone())));
    }

    fn put(&mut self, put: &Put) {
        if let Some(owner) = &put.owner {
            self.session(owner);
            if is_exclusive_collection(put.collection.as_str()) {
                self.exclusive(owner);
            }
        }
        self.look(Lookup::Record(put.collection.clone(), put.key.clone()));
        self.look(Lookup::Ordinal(put.collection.clone(), put.owner.clone()));
    }

    fn row(&mut self, session: &SessionRef, row: &Row) {
        match row {
            Row::Session(_) | Row::Event { .. } => {
                if let Row::Event { stream, .. } = row {
                    self.look(Lookup::Stream(session.clone(), stream.clone()));
                }
            }
            Row::Entry(entry) => {
                entry.parent.iter().for_each(|parent| self.look(Lookup::Place(session.clone(), *parent)));
                entry.key.iter().for_each(|key| self.look(Lookup::EntryKey(session.clone(), key.clone())));
            }
            Row::Run(run) => self.look(Lookup::Run(session.clone(), run.id.clone())),
            Row::Stream(stream) => self.look(Lookup::Stream(session.clone(), stream.name.clone())),
            Row::Record(record) => {
                self.look(Lookup::Record(record.collection.clone(), record.key.clone()));
                self.look(Lookup::Ordinal(record.collection.clone(), Some(session.clone())));
            }
        }
    }
}
