//! What one life of a session consists of.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use turnkeep_core::id::{EntryKey, IntentId, StreamName};
use turnkeep_core::model::{Entry, Event, Run, SessionRow, StreamRow};
use turnkeep_core::mutant;
use turnkeep_core::rules::{AttemptFact, Place, Segment, Span, counts_as_message};
use turnkeep_core::{EntryNo, Error, ErrorKind, Result, RunId, SessionRef};

/// One life of a session: its row and everything that lies below it.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) row: SessionRow,
    /// Grows with every session that is made in the workspace.
    pub(crate) birth: u64,
    pub(crate) entries: BTreeMap<EntryNo, Arc<Entry>>,
    pub(crate) keys: BTreeMap<EntryKey, EntryNo>,
    pub(crate) segments: BTreeMap<EntryNo, Segment>,
    pub(crate) runs: BTreeMap<RunId, Arc<Run>>,
    pub(crate) run_order: BTreeSet<(u32, RunId)>,
    pub(crate) attempts: BTreeMap<IntentId, AttemptFact>,
    pub(crate) streams: BTreeMap<StreamName, StreamRow>,
    pub(crate) events: BTreeMap<StreamName, BTreeMap<u64, Arc<Event>>>,
}

impl Life {
    pub(crate) fn new(row: SessionRow, birth: u64) -> Self {
        Self {
            row,
            birth,
            entries: BTreeMap::new(),
            keys: BTreeMap::new(),
            segments: BTreeMap::new(),
            runs: BTreeMap::new(),
            run_order: BTreeSet::new(),
            attempts: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
        }
    }

    /// The segment at a number: the last one that begins at or before it.
    pub(crate) fn segment_at(&self, number: EntryNo) -> Option<&Segment> {
        self.segments.range(..=number).next_back().map(|(_, segment)| segment)
    }

    pub(crate) fn place(&self, number: EntryNo) -> Option<Place> {
        let entry = self.entries.get(&number)?;
        Some(Place { on_path: entry.on_path, segment: self.segment_at(number).map(|segment| segment.first) })
    }

    /// What the entries `after+1 ..= through` add up to; `None` if `through` is not there.
    pub(crate) fn span(&self, after: Option<EntryNo>, through: EntryNo) -> Option<Span> {
        self.entries.get(&through)?;
        let mut span = Span::default();
        let mut tip = None;
        for entry in self.between(after, through) {
            if counts_as_message(entry) {
                span.messages = span.messages.saturating_add(1);
                if span.first_user_text.is_none() && is_user(entry) {
                    span.first_user_text.clone_from(&entry.text);
                }
            }
            if entry.on_path {
                tip = Some(entry.number);
            }
        }
        span.tip = tip.and_then(|tip| Some((tip, self.segment_at(tip)?.first)));
        Some(span)
    }

    /// The entries `after+1 ..= through`, ascending.
    pub(crate) fn between(
        &self,
        after: Option<EntryNo>,
        through: EntryNo,
    ) -> impl Iterator<Item = &Arc<Entry>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let empty = after.is_some_and(|after| after >= through);
        (!empty)
            .then(|| self.entries.range((from, Bound::Included(through))))
            .into_iter()
            .flatten()
            .map(|(_, entry)| entry)
    }

    /// The path of an entry as number ranges, newest first, no further down than `floor`. Costs one step per
    /// segment; entries of other branches are never looked at.
    pub(crate) fn path_ranges(&self, leaf: EntryNo, floor: u32) -> Result<Vec<(EntryNo, EntryNo)>> {
        let mut ranges = Vec::new();
        let mut end = Some(leaf);
        while let Some(last) = end {
            if last.get() < floor {
                break;
            }
            let segment = self.segment_at(last).ok_or_else(|| self.broken_path(last))?;
            ranges.push((segment.first, last));
            // A parent that is not older than its child would make this walk endless.
            if segment.parent.is_some_and(|parent| parent >= segment.first) {
                return Err(self.broken_path(segment.first));
            }
            end = segment.parent;
        }
        Ok(ranges)
    }

    fn broken_path(&self, at: EntryNo) -> Error {
        Error::new(ErrorKind::Corrupt, "the path of the session has no segment here; verify the store")
            .with("session", &self.row.id)
            .with("entry", at)
    }

    pub(crate) fn put_entry(&mut self, entry: Arc<Entry>) {
        if let Some(key) = &entry.key {
            self.keys.insert(key.clone(), entry.number);
        }
        self.entries.insert(entry.number, entry);
    }

    pub(crate) fn put_run(&mut self, run: Run) {
        if let Some(intent) = &run.intent {
            let newest = self.attempts.get(intent);
            if newest.is_none_or(|newest| newest.attempt <= run.attempt) {
                let fact = AttemptFact { run: run.id.clone(), attempt: run.attempt };
                self.attempts.insert(intent.clone(), fact);
            }
        }
        if let Some(old) = self.runs.get(&run.id) {
            self.run_order.remove(&(old.number, old.id.clone()));
        }
        self.run_order.insert((run.number, run.id.clone()));
        self.runs.insert(run.id.clone(), Arc::new(run));
    }

    /// Takes what a fork's slice needs: entries (shared, not copied), segments that begin among them, and runs they
    /// name.
    pub(crate) fn slice(&self, after: Option<EntryNo>, through: EntryNo) -> Slice {
        let entries: Vec<_> = self.between(after, through).cloned().collect();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let segments = if entries.is_empty() {
            Vec::new()
        } else {
            self.segments.range((from, Bound::Included(through))).map(|(_, segment)| *segment).collect()
        };
        let named: BTreeSet<&RunId> = entries.iter().filter_map(|entry| entry.run.as_ref()).collect();
        let runs = named.into_iter().filter_map(|id| self.runs.get(id)).cloned().collect();
        Slice { entries, segments, runs }
    }

    /// Adds a slice of a parent. Runs that are here already stay as they are; an active one arrives interrupted.
    pub(crate) fn add_slice(&mut self, slice: Slice) {
        let child = self.row.session_ref();
        for entry in slice.entries {
            self.put_entry(entry);
        }
        for segment in slice.segments {
            self.segments.insert(segment.first, segment);
        }
        for run in slice.runs {
            if !self.runs.contains_key(&run.id) && !mutant::is("memory/fork-without-runs") {
                self.put_run(arriving(&run, &child));
            }
        }
    }
}

/// Part of a parent, on its way to a child.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    entries: Vec<Arc<Entry>>,
    segments: Vec<Segment>,
    runs: Vec<Arc<Run>>,
}

fn arriving(run: &Run, child: &SessionRef) -> Run {
    let mut run = run.clone();
    run.session = child.clone();
    if !run.state.is_terminal() && !mutant::is("memory/run-copied-active") {
        run.state = turnkeep_core::model::RunState::Interrupted;
        run.finished_at = Some(run.updated_at);
    }
    run
}

fn is_user(entry: &Entry) -> bool {
    entry.role.as_ref().is_some_and(|role| role.as_str() == turnkeep_core::model::role::USER)
}
