//! How a look-up becomes a fact: the same for every engine that can be asked row by row.

use crate::commit::{RequestId, RequestScope};
use crate::error::Result;
use crate::id::{
    Collection, EntryKey, EntryNo, IntentId, RecordKey, RunId, SessionId, SessionRef, StreamName,
};
use crate::model::{LeaseName, Run, SessionRow, StreamRow};
use crate::rules::{
    AttemptFact, Facts, LeaseFact, Lookup, OwnerState, Place, ReadSet, RecordFact, RequestFact, Span,
};

/// The rows of one workspace, as the writer's transaction sees them. Each answers `None` for what is not there, which
/// holds its absence, and for everything below a life of a session that is over.
#[expect(clippy::missing_errors_doc, reason = "all of them answer what the engine answers")]
pub trait FactSource {
    /// The session with this id, in use or restoring.
    fn session(&mut self, id: &SessionId) -> Result<Option<SessionRow>>;
    /// Where an entry lies.
    fn place(&mut self, session: &SessionRef, number: EntryNo) -> Result<Option<Place>>;
    /// What the entries `after+1 ..= through` add up to; `None` if they do not reach that far.
    fn span(
        &mut self,
        session: &SessionRef,
        after: Option<EntryNo>,
        through: EntryNo,
    ) -> Result<Option<Span>>;
    /// The entry with a key.
    fn entry_with_key(&mut self, session: &SessionRef, key: &EntryKey) -> Result<Option<EntryNo>>;
    /// A run.
    fn run(&mut self, session: &SessionRef, id: &RunId) -> Result<Option<Run>>;
    /// The newest attempt at a request.
    fn latest_attempt(&mut self, session: &SessionRef, intent: &IntentId) -> Result<Option<AttemptFact>>;
    /// A lease with its owner's liveness.
    fn lease(&mut self, name: &LeaseName) -> Result<Option<LeaseFact>>;
    /// A record, also of a deleted owner.
    fn record(&mut self, collection: &Collection, key: &RecordKey) -> Result<Option<RecordFact>>;
    /// The state of a stream.
    fn stream(&mut self, session: &SessionRef, name: &StreamName) -> Result<Option<StreamRow>>;
    /// The last ordinal given.
    fn ordinal(&mut self, collection: &Collection, owner: Option<&SessionRef>) -> Result<Option<u64>>;
    /// The stored receipt of a request; one whose session is gone is none.
    fn request(&mut self, scope: &RequestScope, id: &RequestId) -> Result<Option<RequestFact>>;
}

/// Answers every look-up of a read set.
///
/// # Errors
/// What the engine answers; an absence is no error.
pub fn gather(source: &mut impl FactSource, reads: &ReadSet) -> Result<Facts> {
    let mut facts = Facts::default();
    for lookup in &reads.lookups {
        answer(source, lookup, &mut facts)?;
    }
    Ok(facts)
}

fn answer(source: &mut impl FactSource, lookup: &Lookup, facts: &mut Facts) -> Result<()> {
    match lookup {
        Lookup::Session(id) => facts.sessions.extend(source.session(id)?.map(|row| (id.clone(), row))),
        Lookup::Place(session, number) => {
            facts
                .places
                .extend(source.place(session, *number)?.map(|place| ((session.clone(), *number), place)));
        }
        Lookup::Span(session, after, through) => {
            let span = source.span(session, *after, *through)?;
            facts.spans.extend(span.map(|span| ((session.clone(), *after, *through), span)));
        }
        Lookup::EntryKey(session, key) => {
            if let Some(number) = source.entry_with_key(session, key)? {
                // An entry of the same append may follow the one that has the key.
                let place = source.place(session, number)?;
                facts.places.extend(place.map(|place| ((session.clone(), number), place)));
                facts.keys.insert((session.clone(), key.clone()), number);
            }
        }
        Lookup::Run(session, id) => {
            facts.runs.extend(source.run(session, id)?.map(|run| ((session.clone(), id.clone()), run)));
        }
        Lookup::LatestAttempt(session, intent) => {
            let newest = source.latest_attempt(session, intent)?;
            facts.attempts.extend(newest.map(|newest| ((session.clone(), intent.clone()), newest)));
        }
        Lookup::Lease(name) => facts.leases.extend(source.lease(name)?.map(|fact| (name.clone(), fact))),
        Lookup::Record(collection, key) => {
            let Some(fact) = source.record(collection, key)? else { return Ok(()) };
            // A change of owner moves the revision of both sessions.
            if let (Some(owner), OwnerState::Active | OwnerState::Restoring) =
                (&fact.record.owner, fact.owner)
            {
                facts.sessions.extend(source.session(&owner.id)?.map(|row| (owner.id.clone(), row)));
            }
            facts.records.insert((collection.clone(), key.clone()), fact);
        }
        Lookup::Stream(session, name) => {
            facts
                .streams
                .extend(source.stream(session, name)?.map(|row| ((session.clone(), name.clone()), row)));
        }
        Lookup::Ordinal(collection, owner) => {
            let last = source.ordinal(collection, owner.as_ref())?;
            facts.ordinals.extend(last.map(|last| ((collection.clone(), owner.clone()), last)));
        }
        Lookup::Request(scope, id) => facts.request = source.request(scope, id)?,
    }
    Ok(())
}
