//! Writes what the rules decided, and purges what was deleted.

use std::sync::Arc;

use turnkeep_core::model::{Entry, Event};
use turnkeep_core::mutant;
use turnkeep_core::rules::{SessionChange, Write, WriteSet};
use turnkeep_core::store::PurgeReport;
use turnkeep_core::{Receipt, SessionRef, WorkspaceId};

use crate::tables::{Life, Tables, Tomb};

impl Tables {
    /// Writes all rows of a commit. Called under the write lock with what `decide` gave, so nothing here can fail;
    /// rows below a session that is not there are the rules' broken promise and are dropped.
    ///
    /// A set without writes changes nothing: it is the answer to a repeated request.
    pub fn apply(&mut self, set: WriteSet, activity: u64) -> Receipt {
        if set.writes.is_empty() {
            return set.receipt;
        }
        self.activity = self.activity.max(activity);
        let moves = |write: &Write| matches!(write, Write::Session { .. } | Write::TouchWorkspace);
        let moved = set.writes.iter().any(moves);
        for write in set.writes {
            self.write(&set.workspace, write);
        }
        if moved && !mutant::is("memory/marks-stand-still") {
            self.workspaces.entry(set.workspace).or_default().mark = activity;
        }
        set.receipt
    }

    fn write(&mut self, id: &WorkspaceId, write: Write) {
        let workspace = self.workspaces.entry(id.clone()).or_default();
        let ledger = &mut workspace.ledger;
        match write {
            Write::Session { row, change } => {
                self.activity = self.activity.max(row.activity);
                if change == SessionChange::New {
                    self.finish_purge_of(id, &row.session_ref());
                }
                self.workspaces.entry(id.clone()).or_default().put_session(*row);
            }
            Write::DeleteSession { session } => {
                if let Some(life) = workspace.bury(&session) {
                    self.tombs.push_back(Tomb { workspace: id.clone(), life });
                }
            }
            Write::Copy { from, to, after, through } => {
                let slice = workspace.lives.get(&from).map(|parent| parent.slice(after, through));
                if let (Some(slice), Some(child)) = (slice, workspace.lives.get_mut(&to)) {
                    child.add_slice(slice);
                }
            }
            Write::Segments { session, segments } => self.below(id, &session, |life| {
                life.segments.extend(segments.into_iter().map(|segment| (segment.first, segment)));
            }),
            Write::Entries { session, entries } => {
                self.below(id, &session, |life| put_entries(life, entries))
            }
            Write::Run { run, .. } => {
                let session = run.session.clone();
                self.below(id, &session, |life| life.put_run(*run));
            }
            Write::Stream { session, row } => self.below(id, &session, |life| {
                life.streams.insert(row.name.clone(), row);
            }),
            Write::Events { session, stream, events } => self.below(id, &session, |life| {
                let rows = events.into_iter().map(|event: Event| (event.number, Arc::new(event)));
                life.events.entry(stream).or_default().extend(rows);
            }),
            Write::DropEvents { session, stream, through } => self.below(id, &session, |life| {
                if let Some(events) = life.events.get_mut(&stream) {
                    let first_kept =
                        through.saturating_add(mutant::either("memory/drops-one-too-many", 2, 1));
                    *events = events.split_off(&first_kept);
                }
            }),
            Write::Record { record } => ledger.put_record(*record),
            Write::DeleteRecord { collection, key } => {
                ledger.remove_record(&(collection, key));
            }
            Write::Ordinal { collection, owner, last } => ledger.put_ordinal(collection, owner, last),
            Write::Lease { name, row } => {
                ledger.leases.insert(name, row);
            }
            Write::Request(row) => ledger.put_request(*row),
            Write::TouchWorkspace => {}
        }
    }

    fn below(&mut self, workspace: &WorkspaceId, session: &SessionRef, write: impl FnOnce(&mut Life)) {
        let life = self.workspaces.get_mut(workspace).and_then(|workspace| workspace.lives.get_mut(session));
        debug_assert!(life.is_some(), "the rules write below a session that is not there");
        if let Some(life) = life {
            write(life);
        }
    }

    /// A caller that draws one incarnation twice gets a second life that inherits nothing: what waits for the purge
    /// under the same name goes first.
    fn finish_purge_of(&mut self, workspace: &WorkspaceId, session: &SessionRef) {
        let same = |tomb: &Tomb| tomb.workspace == *workspace && tomb.life.row.session_ref() == *session;
        if self.tombs.iter().any(same) {
            self.tombs.retain(|tomb| !same(tomb));
            if let Some(workspace) = self.workspaces.get_mut(workspace) {
                while workspace.ledger.purge_one(session) {}
            }
        }
    }

    /// Removes at most `rows` rows of deleted sessions, oldest first.
    pub fn purge_slice(&mut self, rows: u64) -> PurgeReport {
        let mut report = PurgeReport::default();
        for _ in 0..rows {
            let Some(tomb) = self.tombs.front_mut() else { break };
            report.rows += 1;
            let session = tomb.life.row.session_ref();
            let workspace = self.workspaces.get_mut(&tomb.workspace);
            if purge_one(&mut tomb.life)
                || (workspace.is_some_and(|workspace| workspace.ledger.purge_one(&session))
                    && !mutant::is("memory/purge-stops-at-the-first-record"))
            {
                continue;
            }
            self.tombs.pop_front();
            report.sessions += 1;
        }
        report
    }
}

fn put_entries(life: &mut Life, entries: Vec<Entry>) {
    for entry in entries {
        life.put_entry(Arc::new(entry));
    }
}

/// Removes one row below a deleted session; `false` when none is left.
fn purge_one(life: &mut Life) -> bool {
    if let Some((_, entry)) = life.entries.pop_last() {
        if let Some(key) = &entry.key {
            life.keys.remove(key);
        }
        return true;
    }
    if life.segments.pop_last().is_some() {
        return true;
    }
    if life.streams.pop_last().is_some() {
        return true;
    }
    if let Some((id, run)) = life.runs.pop_last() {
        life.run_order.remove(&(run.number, id));
        if let Some(intent) = &run.intent {
            life.attempts.remove(intent);
        }
        return true;
    }
    while let Some(mut last) = life.events.last_entry() {
        if last.get_mut().pop_last().is_some() {
            return true;
        }
        last.remove();
    }
    false
}
