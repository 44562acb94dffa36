//! Looks at everything and names what is damaged.

use turnkeep_core::model::{RunState, SessionState};
use turnkeep_core::rules::counts_as_message;
use turnkeep_core::store::{Damage, VerifyReport};
use turnkeep_core::{EntryNo, WorkspaceId};

use crate::tables::{Life, Tables, Workspace};

impl Tables {
    /// Looks at every row and names what does not fit together.
    #[must_use]
    pub fn verify(&self) -> VerifyReport {
        let mut report = VerifyReport::default();
        for (id, workspace) in &self.workspaces {
            for life in workspace.lives.values() {
                report.sessions += 1;
                report.entries += life.entries.len() as u64;
                let mut look =
                    Look { place: format!("workspace {id}, session {}", life.row.id), found: &mut report };
                look.check(life.row.activity <= self.activity, "the activity number is above the store's");
                look.session(id, workspace, life);
                look.entries(life);
                look.path(life);
                look.runs(life);
                look.streams(life);
            }
            Look { place: format!("workspace {id}"), found: &mut report }.workspace(workspace);
        }
        report
    }
}

struct Look<'a> {
    place: String,
    found: &'a mut VerifyReport,
}

impl Look<'_> {
    fn check(&mut self, holds: bool, what: &str) {
        if !holds {
            self.found.damage.push(Damage { place: self.place.clone(), what: what.to_owned() });
        }
    }

    fn at(&mut self, holds: bool, number: EntryNo, what: &str) {
        if !holds {
            let place = format!("{}, entry {number}", self.place);
            self.found.damage.push(Damage { place, what: what.to_owned() });
        }
    }

    fn session(&mut self, id: &WorkspaceId, workspace: &Workspace, life: &Life) {
        let row = &life.row;
        self.check(row.workspace == *id, "the session row names another workspace");
        self.check(workspace.ids.get(&row.id) == Some(&row.incarnation), "the id leads to another life");
        let place = (std::cmp::Reverse(row.activity), row.id.clone());
        self.check(workspace.recent.contains(&place), "the list by activity has it at another place");
        self.check(row.revision > 0, "the revision is 0");
        let restoring = row.state == SessionState::Restoring;
        self.check(restoring == row.restore.is_some(), "state and restore progress do not fit together");
    }

    fn entries(&mut self, life: &Life) {
        let last = life.entries.last_key_value().map(|(number, _)| *number);
        self.check(life.row.head == last, "the head is not the last entry");
        let count = last.map_or(0, EntryNo::get) as usize;
        self.check(life.entries.len() == count, "the numbers have a gap");
        let messages = life.entries.values().filter(|entry| counts_as_message(entry)).count();
        self.check(life.row.messages as usize == messages, "the message counter does not fit the messages");
        let mut keyed = 0;
        for (number, entry) in &life.entries {
            self.at(entry.number == *number, *number, "it is stored under another number");
            if let Some(key) = &entry.key {
                keyed += 1;
                self.at(life.keys.get(key) == Some(number), *number, "its key leads elsewhere");
            }
            let earlier = entry.refs.iter().all(|reference| reference.entry < *number);
            self.at(earlier, *number, "it refers to an entry that is not earlier");
        }
        self.check(life.keys.len() == keyed, "there are keys of no entry");
    }

    /// Every path entry follows the one before it in its segment, or the parent that its segment names.
    fn path(&mut self, life: &Life) {
        let mut before = None;
        let mut segment = None;
        for (number, entry) in &life.entries {
            if let Some(begins) = life.segments.get(number) {
                self.at(begins.parent == entry.parent, *number, "its segment names another parent");
                let holder = begins.parent.and_then(|parent| life.segment_at(parent)).map(|at| at.first);
                self.at(begins.parent_segment == holder, *number, "its segment names another parent segment");
                self.at(entry.on_path, *number, "a segment begins beside the path");
                let needed = begins.parent.is_none() || begins.parent != before;
                self.at(needed, *number, "a segment begins where the path goes on");
                segment = Some(*number);
                before = entry.parent;
            }
            let parent = entry.parent.and_then(|parent| life.entries.get(&parent));
            let sound = entry.parent.is_none_or(|number| number < entry.number)
                && entry.parent.is_some() == parent.is_some()
                && parent.is_none_or(|parent| parent.on_path);
            self.at(sound, *number, "its parent is not an earlier entry of a path");
            if entry.on_path {
                self.at(segment.is_some(), *number, "it lies in no segment");
                self.at(entry.parent == before, *number, "it does not follow its segment");
                before = Some(*number);
            }
        }
        for first in life.segments.keys() {
            self.at(life.entries.contains_key(first), *first, "a segment begins at no entry");
        }
        let path = life.row.path;
        let tip = life.entries.values().rev().find(|entry| entry.on_path).map(|entry| entry.number);
        let segment_of = |number: Option<EntryNo>| number.and_then(|n| life.segment_at(n)).map(|at| at.first);
        self.check(path.tip == tip, "the tip is not the newest path entry");
        self.check(path.tip_segment == segment_of(tip), "the tip is said to lie in another segment");
        let on_path = path.leaf.is_none_or(|leaf| life.entries.get(&leaf).is_some_and(|entry| entry.on_path));
        self.check(on_path, "the leaf is no entry of a path");
        self.check(path.leaf_segment == segment_of(path.leaf), "the leaf is said to lie in another segment");
    }

    fn runs(&mut self, life: &Life) {
        let session = life.row.session_ref();
        let mut active: Vec<_> = life.runs.values().filter(|run| !run.state.is_terminal()).collect();
        let is = active.pop().map(|run| &run.id);
        self.check(active.is_empty(), "more than one run is active");
        self.check(life.row.active_run.as_ref() == is, "the session names another active run");
        for run in life.runs.values() {
            self.check(run.session == session, "a run names another session");
            self.check(run.number > 0 && run.number <= life.row.runs, "the number of a run is out of range");
            let placed = life.run_order.contains(&(run.number, run.id.clone()));
            self.check(placed, "the list of runs has one at another place");
            let finished = run.finished_at.is_some() || run.state != RunState::Completed;
            self.check(finished, "a completed run has no end");
        }
        self.check(life.run_order.len() == life.runs.len(), "the list of runs has other runs");
    }

    fn streams(&mut self, life: &Life) {
        for (name, row) in &life.streams {
            self.check(row.name == *name && row.floor <= row.head, "a stream has impossible numbers");
            let events = life.events.get(name);
            let first = events.and_then(|events| events.first_key_value()).map_or(row.floor + 1, |(n, _)| *n);
            let last = events.and_then(|events| events.last_key_value()).map_or(row.floor, |(n, _)| *n);
            let count = events.map_or(0, std::collections::BTreeMap::len) as u64;
            let whole = first == row.floor + 1 && last == row.head && count == row.head - row.floor;
            self.check(whole, "a stream does not hold the events after its floor up to its head");
        }
        let homeless =
            life.events.iter().any(|(name, events)| !events.is_empty() && !life.streams.contains_key(name));
        self.check(!homeless, "there are events of no stream");
    }

    fn workspace(&mut self, workspace: &Workspace) {
        let lives = workspace.lives.len();
        self.check(workspace.ids.len() == lives, "the index of ids has other sessions");
        self.check(workspace.recent.len() == lives, "the list by activity has other sessions");
        let ledger = &workspace.ledger;
        let mut listed = 0;
        for (owner, owned) in &ledger.owned {
            let ordered: usize = owned.order.values().map(std::collections::BTreeSet::len).sum();
            self.check(owned.keys.len() == ordered, "an owner's list of records has other records");
            listed += owned.keys.len();
            for id in &owned.keys {
                let record = ledger.records.get(id);
                let fits = record.is_some_and(|record| {
                    let last = owned.ordinals.get(&record.collection).copied().unwrap_or(0);
                    record.owner == *owner && record.ordinal <= last
                });
                self.check(
                    fits,
                    "an owner's list has a record that is not its own, or an ordinal never given",
                );
            }
            let known = owned
                .requests
                .iter()
                .all(|id| ledger.requests.get(id).is_some_and(|row| row.owner == *owner));
            self.check(known, "an owner's list has a stored receipt that is not its own");
        }
        self.check(listed == ledger.records.len(), "there are records on no owner's list");
        let ordered: usize = ledger.order.values().map(std::collections::BTreeSet::len).sum();
        self.check(ordered == ledger.records.len(), "the list of records has other records");
    }
}
