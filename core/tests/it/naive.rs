//! The smallest store that keeps what the rules decide: maps, answered and written one row at a time.
//!
//! It checks on the way that every write keeps the promises that backends build on.

use std::collections::BTreeMap;

use turnkeep_core::commit::{RequestId, RequestScope};
use turnkeep_core::error::Result;
use turnkeep_core::id::{Collection, OwnerId, RecordKey, SessionId, StreamName};
use turnkeep_core::model::{
    Entry, Event, LeaseName, Liveness, Record, Run, RunState, SessionRow, SessionState, StreamRow,
};
use turnkeep_core::rules::{
    AttemptFact, Facts, LeaseFact, LeaseRow, Lookup, OwnerState, Place, ReadSet, RecordFact, RequestFact,
    RequestRow, Segment, SessionChange, Span, Stamp, Write, WriteSet, counts_as_message, decide, plan,
};
use turnkeep_core::{Commit, EntryNo, Receipt, SessionRef};

/// What lies below one session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Life {
    pub(crate) entries: Vec<Entry>,
    pub(crate) segments: BTreeMap<EntryNo, Segment>,
    pub(crate) runs: Vec<Run>,
    pub(crate) streams: BTreeMap<StreamName, (StreamRow, Vec<Event>)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Naive {
    pub(crate) sessions: BTreeMap<SessionId, SessionRow>,
    pub(crate) lives: BTreeMap<SessionRef, Life>,
    pub(crate) records: BTreeMap<(Collection, RecordKey), Record>,
    pub(crate) ordinals: BTreeMap<(Collection, Option<SessionRef>), u64>,
    pub(crate) leases: BTreeMap<LeaseName, LeaseRow>,
    pub(crate) requests: BTreeMap<(RequestScope, RequestId), RequestRow>,
    /// Counts what `changes` of the workspace must notice.
    pub(crate) moves: u64,
}

pub(crate) fn everybody_lives(_: OwnerId) -> Liveness {
    Liveness::Alive
}

impl Naive {
    /// Plans, decides and writes, if it is not refused.
    pub(crate) fn commit(&mut self, commit: &Commit, stamp: &Stamp) -> Result<Receipt> {
        self.commit_with(commit, stamp, everybody_lives)
    }

    pub(crate) fn commit_with(
        &mut self,
        commit: &Commit,
        stamp: &Stamp,
        liveness: impl Fn(OwnerId) -> Liveness,
    ) -> Result<Receipt> {
        let facts = self.facts(&plan(commit), liveness);
        let set = decide(commit, facts, stamp)?;
        self.apply(&set);
        Ok(set.receipt)
    }

    pub(crate) fn row(&self, session: &SessionRef) -> Option<&SessionRow> {
        self.sessions.get(&session.id).filter(|row| row.incarnation == session.incarnation)
    }

    pub(crate) fn life(&self, session: &SessionRef) -> &Life {
        &self.lives[session]
    }

    /// Answers exactly what was asked for.
    pub(crate) fn facts(&self, reads: &ReadSet, liveness: impl Fn(OwnerId) -> Liveness) -> Facts {
        let mut facts = Facts::default();
        for lookup in &reads.lookups {
            self.answer(lookup, &liveness, &mut facts);
        }
        facts
    }

    /// Answers everything there is, and of requests and spans what was asked for.
    pub(crate) fn all_facts(&self, reads: &ReadSet, liveness: impl Fn(OwnerId) -> Liveness) -> Facts {
        let mut facts = self.facts(reads, &liveness);
        let mut tell = |lookup: Lookup| self.answer(&lookup, &liveness, &mut facts);
        self.sessions.keys().for_each(|id| tell(Lookup::Session(id.clone())));
        for (session, life) in &self.lives {
            for entry in &life.entries {
                tell(Lookup::Place(session.clone(), entry.number));
                entry.key.iter().for_each(|key| tell(Lookup::EntryKey(session.clone(), key.clone())));
            }
            for run in &life.runs {
                tell(Lookup::Run(session.clone(), run.id.clone()));
                let intent = run.intent.iter();
                intent.for_each(|intent| tell(Lookup::LatestAttempt(session.clone(), intent.clone())));
            }
            life.streams.keys().for_each(|name| tell(Lookup::Stream(session.clone(), name.clone())));
        }
        self.leases.keys().for_each(|name| tell(Lookup::Lease(name.clone())));
        self.records.keys().for_each(|(collection, key)| {
            tell(Lookup::Record(collection.clone(), key.clone()));
        });
        self.ordinals.keys().for_each(|(collection, owner)| {
            tell(Lookup::Ordinal(collection.clone(), owner.clone()));
        });
        facts
    }

    fn answer(&self, lookup: &Lookup, liveness: &impl Fn(OwnerId) -> Liveness, facts: &mut Facts) {
        // What lies below a life that is over is not there.
        let below = |session: &SessionRef| self.row(session).and_then(|_| self.lives.get(session));
        match lookup {
            Lookup::Session(id) => {
                let row = self.sessions.get(id).cloned();
                facts.sessions.extend(row.map(|row| (id.clone(), row)));
            }
            Lookup::Place(session, number) => {
                let place = below(session).and_then(|life| life.place(*number));
                facts.places.extend(place.map(|place| ((session.clone(), *number), place)));
            }
            Lookup::Span(session, after, through) => {
                let span = below(session).map(|life| life.span(*after, *through)).unwrap_or_default();
                facts.spans.insert((session.clone(), *after, *through), span);
            }
            Lookup::EntryKey(session, key) => {
                let mut entries = below(session).into_iter().flat_map(|life| &life.entries);
                let found = entries.find(|entry| entry.key.as_ref() == Some(key));
                if let Some(entry) = found {
                    facts.keys.insert((session.clone(), key.clone()), entry.number);
                    self.answer(&Lookup::Place(session.clone(), entry.number), liveness, facts);
                }
            }
            Lookup::Run(session, id) => {
                let found = below(session).and_then(|life| life.runs.iter().find(|run| run.id == *id));
                facts.runs.extend(found.map(|run| ((session.clone(), id.clone()), run.clone())));
            }
            Lookup::LatestAttempt(session, intent) => {
                let runs = below(session).into_iter().flat_map(|life| &life.runs);
                let tries = runs.filter(|run| run.intent.as_ref() == Some(intent));
                let latest = tries.max_by_key(|run| run.attempt);
                facts.attempts.extend(latest.map(|run| {
                    let fact = AttemptFact { run: run.id.clone(), attempt: run.attempt };
                    ((session.clone(), intent.clone()), fact)
                }));
            }
            Lookup::Lease(name) => {
                let row = self.leases.get(name).cloned();
                facts.leases.extend(row.map(|row| {
                    let liveness = liveness(row.owner);
                    (name.clone(), LeaseFact { row, liveness })
                }));
            }
            Lookup::Record(collection, key) => {
                let at = (collection.clone(), key.clone());
                let Some(record) = self.records.get(&at) else { return };
                let owner = match &record.owner {
                    None => OwnerState::Unowned,
                    Some(owner) => match self.row(owner) {
                        None => OwnerState::Gone,
                        Some(row) if row.state == SessionState::Restoring => OwnerState::Restoring,
                        Some(row) => {
                            facts.sessions.insert(owner.id.clone(), row.clone());
                            OwnerState::Active
                        }
                    },
                };
                facts.records.insert(at, RecordFact { record: record.clone(), owner });
            }
            Lookup::Stream(session, name) => {
                let row = below(session).and_then(|life| life.streams.get(name)).map(|(row, _)| row.clone());
                facts.streams.extend(row.map(|row| ((session.clone(), name.clone()), row)));
            }
            Lookup::Ordinal(collection, owner) => {
                let at = (collection.clone(), owner.clone());
                facts.ordinals.extend(self.ordinals.get(&at).map(|last| (at.clone(), *last)));
            }
            Lookup::Request(scope, id) => {
                let alive = match scope {
                    RequestScope::Workspace => true,
                    RequestScope::Session(session) => self.row(session).is_some(),
                };
                facts.request =
                    self.requests.get(&(scope.clone(), id.clone())).filter(|_| alive).map(|row| {
                        RequestFact { fingerprint: row.fingerprint, receipt: row.receipt.clone() }
                    });
            }
        }
    }

    /// Writes what was decided.
    pub(crate) fn apply(&mut self, set: &WriteSet) {
        for write in &set.writes {
            if !matches!(write, Write::Lease { .. } | Write::Request(_)) {
                self.moves += 1;
            }
            self.write(write);
        }
    }

    fn write(&mut self, write: &Write) {
        match write {
            Write::Session { row, change } => self.write_session(row, *change),
            Write::DeleteSession { session } => {
                assert!(self.row(session).is_some(), "a session is deleted once");
                self.sessions.remove(&session.id);
                self.lives.remove(session);
                self.leases.remove(&LeaseName::Session(session.clone()));
                self.requests.retain(|_, row| row.owner.as_ref() != Some(session));
                self.ordinals.retain(|(_, owner), _| owner.as_ref() != Some(session));
            }
            Write::Segments { session, segments } => {
                let life = self.below(session);
                for segment in segments {
                    assert!(life.segments.last_key_value().is_none_or(|(last, _)| *last < segment.first));
                    life.segments.insert(segment.first, *segment);
                }
            }
            Write::Entries { session, entries } => {
                let life = self.below(session);
                for entry in entries {
                    life.entries.push(entry.clone());
                    assert_eq!(life.entries.len(), entry.number.get() as usize, "numbers have no gaps");
                }
            }
            Write::Copy { from, to, after, through } => self.copy(from, to, *after, *through),
            Write::Run { run, new } => {
                let life = self.below(&run.session);
                match life.runs.iter_mut().find(|known| known.id == run.id) {
                    Some(known) => {
                        assert!(!new, "a run is new only once");
                        *known = (**run).clone();
                    }
                    None => {
                        assert!(new, "a changed run is there");
                        life.runs.push((**run).clone());
                    }
                }
            }
            Write::Stream { session, row } => {
                let known = self.below(session).streams.entry(row.name.clone());
                known.or_insert_with(|| (row.clone(), Vec::new())).0 = row.clone();
            }
            Write::Events { session, stream, events } => {
                let life = self.below(session);
                let (row, log) = life.streams.get_mut(stream).expect("a stream comes before its events");
                for event in events {
                    let last = log.last().map(|event| event.number);
                    assert!(last.is_none_or(|last| last + 1 == event.number), "events have no gaps");
                    assert!(event.number <= row.head);
                    log.push(event.clone());
                }
            }
            Write::DropEvents { session, stream, through } => {
                let life = self.below(session);
                let (row, log) = life.streams.get_mut(stream).expect("only a known stream drops events");
                assert!(row.floor >= *through);
                log.retain(|event| event.number > *through);
            }
            Write::Record { record } => {
                assert!(record.owner.as_ref().is_none_or(|owner| self.row(owner).is_some()));
                self.records.insert((record.collection.clone(), record.key.clone()), (**record).clone());
            }
            Write::DeleteRecord { collection, key } => {
                self.records.remove(&(collection.clone(), key.clone()));
            }
            Write::Ordinal { collection, owner, last } => {
                assert!(owner.as_ref().is_none_or(|owner| self.row(owner).is_some()));
                self.ordinals.insert((collection.clone(), owner.clone()), *last);
            }
            Write::Lease { name, row } => {
                if let LeaseName::Session(session) = name {
                    assert!(self.row(session).is_some(), "a session's lease needs the session");
                }
                let before = self.leases.insert(name.clone(), row.clone());
                assert!(before.is_none_or(|before| before.epoch <= row.epoch), "epochs only grow");
            }
            Write::Request(row) => {
                assert!(row.owner.as_ref().is_none_or(|owner| self.row(owner).is_some()));
                let before = self.requests.insert((row.scope.clone(), row.id.clone()), (**row).clone());
                assert!(before.is_none(), "a receipt is written once");
            }
            Write::TouchWorkspace => {}
        }
    }

    fn write_session(&mut self, row: &SessionRow, change: SessionChange) {
        let before = self.sessions.insert(row.id.clone(), row.clone());
        if change == SessionChange::New {
            assert!(before.is_none(), "a new session replaces none");
            assert!(self.lives.insert(row.session_ref(), Life::default()).is_none());
            return;
        }
        let before = before.expect("a changed session is there");
        assert_eq!(before.session_ref(), row.session_ref());
        assert!(before.revision < row.revision, "every change moves the revision");
        assert!(before.state == SessionState::Restoring || before.updated_at <= row.updated_at);
        if change == SessionChange::Counters {
            assert_eq!((before.state, before.created_at), (row.state, row.created_at));
            assert_eq!(before.profile, row.profile);
        }
    }

    fn copy(&mut self, from: &SessionRef, to: &SessionRef, after: Option<EntryNo>, through: EntryNo) {
        let source = self.life(from).clone();
        let child = self.below(to);
        let inside = |number: EntryNo| after < Some(number) && number <= through;
        for entry in source.entries.iter().filter(|entry| inside(entry.number)) {
            let run = entry.run.as_ref().and_then(|id| source.runs.iter().find(|run| run.id == *id));
            if let Some(run) = run
                && child.runs.iter().all(|known| known.id != run.id)
            {
                let mut run = Run { session: to.clone(), ..run.clone() };
                if !run.state.is_terminal() {
                    (run.state, run.finished_at) = (RunState::Interrupted, Some(run.updated_at));
                }
                child.runs.push(run);
            }
            child.entries.push(entry.clone());
            assert_eq!(child.entries.len(), entry.number.get() as usize);
        }
        let segments = source.segments.into_iter().filter(|(first, _)| inside(*first));
        child.segments.extend(segments);
    }

    fn below(&mut self, session: &SessionRef) -> &mut Life {
        assert!(self.row(session).is_some(), "nothing is written below a session that is not there");
        self.lives.get_mut(session).unwrap()
    }

    /// Removes what deleted sessions left.
    pub(crate) fn purge(&mut self) {
        let alive: Vec<SessionRef> = self.sessions.values().map(SessionRow::session_ref).collect();
        self.records.retain(|_, record| record.owner.as_ref().is_none_or(|owner| alive.contains(owner)));
    }
}

impl Life {
    fn place(&self, number: EntryNo) -> Option<Place> {
        let entry = self.entries.get(number.get() as usize - 1)?;
        let segment = self.segments.range(..=number).next_back().map(|(first, _)| *first);
        Some(Place { on_path: entry.on_path, segment })
    }

    fn span(&self, after: Option<EntryNo>, through: EntryNo) -> Span {
        let mut span = Span::default();
        for entry in &self.entries {
            if after >= Some(entry.number) || entry.number > through {
                continue;
            }
            if counts_as_message(entry) {
                span.messages += 1;
                let user = entry.role.as_ref().is_some_and(|role| role.as_str() == "user");
                if user && span.first_user_text.is_none() {
                    span.first_user_text.clone_from(&entry.text);
                }
            }
            if entry.on_path {
                let segment = self.place(entry.number).and_then(|place| place.segment).unwrap();
                span.tip = Some((entry.number, segment));
            }
        }
        span
    }

    /// The path of an entry, from it to the root, parent by parent.
    pub(crate) fn path_by_parents(&self, leaf: Option<EntryNo>) -> Vec<EntryNo> {
        let parent = |number: &EntryNo| self.entries[number.get() as usize - 1].parent;
        std::iter::successors(leaf, parent).collect()
    }

    /// The path of an entry, from it to the root, by ranges of numbers.
    pub(crate) fn path_by_segments(
        &self,
        leaf: Option<EntryNo>,
        leaf_segment: Option<EntryNo>,
    ) -> Vec<EntryNo> {
        let mut path = Vec::new();
        let mut part = leaf.zip(leaf_segment);
        while let Some((last, first)) = part {
            let entries = &self.entries[first.get() as usize - 1..last.get() as usize];
            path.extend(entries.iter().rev().filter(|entry| entry.on_path).map(|entry| entry.number));
            let segment = self.segments[&first];
            part = segment.parent.zip(segment.parent_segment);
        }
        path
    }
}
