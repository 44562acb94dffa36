//! Answers the look-ups that the rules ask for.

use turnkeep_core::model::{LeaseName, Liveness};
use turnkeep_core::mutant;
use turnkeep_core::rules::{Facts, LeaseFact, Lookup, OwnerState, ReadSet, RecordFact, RequestFact};
use turnkeep_core::{OwnerId, WorkspaceId};

use crate::tables::{Tables, Workspace};

impl Tables {
    /// Every row that a commit asks for. What is not there is left out, which holds its absence.
    pub fn facts(
        &self,
        workspace: &WorkspaceId,
        reads: ReadSet,
        liveness: impl Fn(&OwnerId) -> Liveness,
    ) -> Facts {
        let mut facts = Facts::default();
        if let Some(workspace) = self.workspaces.get(workspace) {
            for lookup in reads.lookups {
                workspace.look_up(lookup, &mut facts, &liveness);
            }
        }
        facts
    }
}

impl Workspace {
    fn look_up(&self, lookup: Lookup, facts: &mut Facts, liveness: &impl Fn(&OwnerId) -> Liveness) {
        match lookup {
            Lookup::Session(id) => {
                if let Some(life) = self.life(&id) {
                    facts.sessions.insert(id, life.row.clone());
                }
            }
            Lookup::Place(session, number) => {
                if let Some(place) = self.lives.get(&session).and_then(|life| life.place(number)) {
                    facts.places.insert((session, number), place);
                }
            }
            Lookup::Span(session, after, through) => {
                if let Some(span) = self.lives.get(&session).and_then(|life| life.span(after, through)) {
                    facts.spans.insert((session, after, through), span);
                }
            }
            Lookup::EntryKey(session, key) => {
                let Some(life) = self.lives.get(&session) else { return };
                if let Some(number) = life.keys.get(&key).copied() {
                    if let Some(place) = life.place(number) {
                        facts.places.insert((session.clone(), number), place);
                    }
                    facts.keys.insert((session, key), number);
                }
            }
            Lookup::Run(session, id) => {
                if let Some(run) = self.lives.get(&session).and_then(|life| life.runs.get(&id)) {
                    facts.runs.insert((session, id), (**run).clone());
                }
            }
            Lookup::LatestAttempt(session, intent) => {
                if let Some(newest) = self.lives.get(&session).and_then(|life| life.attempts.get(&intent)) {
                    facts.attempts.insert((session, intent), newest.clone());
                }
            }
            Lookup::Lease(name) => {
                if let Some(row) = self.ledger.leases.get(&name).filter(|_| self.may_hold(&name)) {
                    let liveness = liveness(&row.owner);
                    facts.leases.insert(name, LeaseFact { row: row.clone(), liveness });
                }
            }
            Lookup::Record(collection, key) => {
                let id = (collection, key);
                if let Some(record) = self.ledger.records.get(&id) {
                    let owner = self.owner_state(record.owner.as_ref());
                    if let Some(life) = record.owner.as_ref().and_then(|owner| self.lives.get(owner)) {
                        facts.sessions.insert(life.row.id.clone(), life.row.clone());
                    }
                    facts.records.insert(id, RecordFact { record: (**record).clone(), owner });
                }
            }
            Lookup::Stream(session, name) => {
                if let Some(row) = self.lives.get(&session).and_then(|life| life.streams.get(&name)) {
                    facts.streams.insert((session, name), row.clone());
                }
            }
            Lookup::Ordinal(collection, owner) => {
                let owner = owner.filter(|_| !mutant::is("memory/places-counted-per-collection"));
                let alive = self.owner_state(owner.as_ref()) != OwnerState::Gone;
                if let Some(last) = self.ledger.ordinal(&collection, &owner).filter(|_| alive) {
                    facts.ordinals.insert((collection, owner), last);
                }
            }
            Lookup::Request(scope, id) => {
                // A receipt dies with its session, also before the purge has come to it.
                facts.request = self
                    .ledger
                    .requests
                    .get(&(scope, id))
                    .filter(|row| {
                        self.owner_state(row.owner.as_ref()) != OwnerState::Gone
                            || mutant::is("memory/receipt-outlives-its-session")
                    })
                    .map(|row| RequestFact { fingerprint: row.fingerprint, receipt: row.receipt.clone() });
            }
        }
    }

    /// Whether what a lease protects is still there: the lease of a deleted session is gone with it.
    pub(crate) fn may_hold(&self, name: &LeaseName) -> bool {
        match name {
            LeaseName::Session(session) => self.lives.contains_key(session),
            LeaseName::Named(_) => true,
        }
    }
}
