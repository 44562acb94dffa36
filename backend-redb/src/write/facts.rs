//! Answers the look-ups that the rules ask for, within the write transaction.

use redb::WriteTransaction;
use turnkeep_core::commit::{RequestId, RequestScope};
use turnkeep_core::id::{Collection, IntentId, RecordKey, StreamName};
use turnkeep_core::model::{LeaseName, role};
use turnkeep_core::rules::{
    AttemptFact, Facts, LeaseFact, Lookup, OwnerState, Place, ReadSet, RecordFact, RequestRow, Span,
    counts_as_message,
};
use turnkeep_core::{EntryNo, Result, RunId, SessionRef, WorkspaceId};

use crate::codec::{Fields, Key};
use crate::error::damaged;
use crate::owners::Owners;
use crate::read::{number_with_key, owner_state, segment_at, stored_lease};
use crate::rows::{
    entry_key, read_entry, read_number, read_record, read_request, read_run, read_stream, record_key,
    request_key, run_key, stream_key,
};
use crate::source::{self, Source as _, Toward, first};
use crate::tables;
use crate::write::cache::Cache;

pub(super) fn facts(
    from: &WriteTransaction,
    cache: &mut Cache,
    owners: &Owners,
    workspace: &WorkspaceId,
    reads: &ReadSet,
) -> Result<Facts> {
    let mut facts = Facts::default();
    // Nothing can be found in a workspace that nobody wrote to.
    if let Some(wkey) = cache.workspace(from, workspace)? {
        let mut answers = Answers { from, cache, owners, workspace, wkey };
        for lookup in &reads.lookups {
            answers.look_up(lookup, &mut facts)?;
        }
    }
    Ok(facts)
}

struct Answers<'a> {
    from: &'a WriteTransaction,
    cache: &'a mut Cache,
    owners: &'a Owners,
    workspace: &'a WorkspaceId,
    wkey: u64,
}

impl Answers<'_> {
    fn look_up(&mut self, lookup: &Lookup, facts: &mut Facts) -> Result<()> {
        match lookup {
            Lookup::Session(id) => {
                if let Some(found) = self.cache.session(self.from, self.wkey, self.workspace, id)? {
                    facts.sessions.insert(id.clone(), found.row.clone());
                }
            }
            Lookup::Place(session, number) => {
                if let Some(skey) = self.life(session)?
                    && let Some(place) = self.place(skey, *number)?
                {
                    facts.places.insert((session.clone(), *number), place);
                }
            }
            Lookup::Span(session, after, through) => {
                if let Some(skey) = self.life(session)?
                    && let Some(span) = self.span(skey, *after, *through)?
                {
                    facts.spans.insert((session.clone(), *after, *through), span);
                }
            }
            Lookup::EntryKey(session, key) => {
                if let Some(skey) = self.life(session)?
                    && let Some(number) = number_with_key(self.from, skey, key.as_str())?
                {
                    if let Some(place) = self.place(skey, number)? {
                        facts.places.insert((session.clone(), number), place);
                    }
                    facts.keys.insert((session.clone(), key.clone()), number);
                }
            }
            Lookup::Run(session, id) => self.run(session, id, facts)?,
            Lookup::LatestAttempt(session, intent) => self.latest_attempt(session, intent, facts)?,
            Lookup::Lease(name) => self.lease(name, facts)?,
            Lookup::Record(collection, key) => self.record(collection, key, facts)?,
            Lookup::Stream(session, name) => self.stream(session, name, facts)?,
            Lookup::Ordinal(collection, owner) => self.ordinal(collection, owner.as_ref(), facts)?,
            Lookup::Request(scope, id) => facts.request = self.request(scope, id)?,
        }
        Ok(())
    }

    fn life(&mut self, session: &SessionRef) -> Result<Option<u64>> {
        self.cache.life(self.from, self.wkey, self.workspace, session)
    }

    fn place(&self, skey: u64, number: EntryNo) -> Result<Option<Place>> {
        let key = entry_key(skey, number.get());
        let Some(body) = self.from.get(tables::ENTRIES, &key)? else { return Ok(None) };
        let on_path = read_entry(key.as_bytes(), &body)?.on_path;
        Ok(Some(Place { on_path, segment: self.segment(skey, number)? }))
    }

    fn segment(&self, skey: u64, number: EntryNo) -> Result<Option<EntryNo>> {
        Ok(segment_at(self.from, skey, number.get())?.and_then(|segment| EntryNo::new(segment.first)))
    }

    fn span(&self, skey: u64, after: Option<EntryNo>, through: EntryNo) -> Result<Option<Span>> {
        let mut span = Span::default();
        let (mut tip, mut last) = (None, None);
        let within = source::Span::all()
            .after(entry_key(skey, after.map_or(0, EntryNo::get)))
            .through(entry_key(skey, through.get()));
        self.from.scan(tables::ENTRIES, &within, Toward::Higher, &mut |key, body| {
            let entry = read_entry(key, body)?;
            if counts_as_message(&entry) {
                span.messages = span.messages.saturating_add(1);
                let user = entry.role.as_ref().is_some_and(|of| of.as_str() == role::USER);
                if user && span.first_user_text.is_none() {
                    span.first_user_text.clone_from(&entry.text);
                }
            }
            if entry.on_path {
                tip = Some(entry.number);
            }
            last = Some(entry.number);
            Ok(true)
        })?;
        if last != Some(through) {
            return Ok(None);
        }
        if let Some(tip) = tip {
            span.tip = self.segment(skey, tip)?.map(|segment| (tip, segment));
        }
        Ok(Some(span))
    }

    fn run(&mut self, session: &SessionRef, id: &RunId, facts: &mut Facts) -> Result<()> {
        let Some(skey) = self.life(session)? else { return Ok(()) };
        let Some(number) = self.from.get(tables::RUN_IDS, &Key::new().u64(skey).tail(id.as_str()))? else {
            return Ok(());
        };
        let number = u32::try_from(read_number(tables::RUN_IDS, &number)?)
            .map_err(|_| damaged(tables::RUN_IDS, "number"))?;
        let body = self.from.get(tables::RUNS, &run_key(skey, number))?;
        let run = read_run(&body.ok_or_else(|| damaged(tables::RUN_IDS, "run"))?)?;
        facts.runs.insert((session.clone(), id.clone()), run);
        Ok(())
    }

    fn latest_attempt(&mut self, session: &SessionRef, intent: &IntentId, facts: &mut Facts) -> Result<()> {
        let Some(skey) = self.life(session)? else { return Ok(()) };
        let span = source::Span::within(Key::new().u64(skey).text(intent.as_str()));
        let Some((key, _)) = first(self.from, tables::RUN_INTENTS, &span, Toward::Lower)? else {
            return Ok(());
        };
        let mut fields = Fields::of_key(tables::RUN_INTENTS, &key);
        fields.u64()?;
        fields.text()?;
        let (attempt, number) = (fields.u32()?, fields.u32()?);
        let body = self.from.get(tables::RUNS, &run_key(skey, number))?;
        let run = read_run(&body.ok_or_else(|| damaged(tables::RUN_INTENTS, "run"))?)?;
        facts.attempts.insert((session.clone(), intent.clone()), AttemptFact { run: run.id, attempt });
        Ok(())
    }

    fn lease(&mut self, name: &LeaseName, facts: &mut Facts) -> Result<()> {
        let row = match name {
            LeaseName::Named(id) => stored_lease(self.from, 0, self.wkey, id.as_str())?,
            LeaseName::Session(session) => match self.life(session)? {
                Some(skey) => stored_lease(self.from, skey, self.wkey, "")?,
                None => None,
            },
        };
        if let Some(row) = row {
            let liveness = self.owners.liveness(&row);
            facts.leases.insert(name.clone(), LeaseFact { row, liveness });
        }
        Ok(())
    }

    fn record(&mut self, collection: &Collection, key: &RecordKey, facts: &mut Facts) -> Result<()> {
        let stored_key = record_key(self.wkey, collection, key);
        let Some(body) = self.from.get(tables::RECORDS, &stored_key)? else { return Ok(()) };
        let stored = read_record(stored_key.as_bytes(), &body)?;
        let owner = owner_state(self.from, stored.owner)?;
        // A change of owner moves the revision of both sessions.
        if let (Some(session), OwnerState::Active | OwnerState::Restoring) = (&stored.record.owner, owner)
            && let Some(found) = self.cache.session(self.from, self.wkey, self.workspace, &session.id)?
        {
            facts.sessions.insert(session.id.clone(), found.row.clone());
        }
        facts.records.insert((collection.clone(), key.clone()), RecordFact { record: stored.record, owner });
        Ok(())
    }

    fn stream(&mut self, session: &SessionRef, name: &StreamName, facts: &mut Facts) -> Result<()> {
        let Some(skey) = self.life(session)? else { return Ok(()) };
        let key = stream_key(skey, name.as_str());
        if let Some(body) = self.from.get(tables::STREAMS, &key)? {
            facts.streams.insert((session.clone(), name.clone()), read_stream(key.as_bytes(), &body)?);
        }
        Ok(())
    }

    fn ordinal(
        &mut self,
        collection: &Collection,
        owner: Option<&SessionRef>,
        facts: &mut Facts,
    ) -> Result<()> {
        let skey = match owner {
            Some(owner) => match self.life(owner)? {
                Some(skey) => skey,
                None => return Ok(()),
            },
            None => 0,
        };
        let key = Key::new().u64(skey).u64(self.wkey).tail(collection.as_str());
        if let Some(body) = self.from.get(tables::ORDINALS, &key)? {
            let last = read_number(tables::ORDINALS, &body)?;
            facts.ordinals.insert((collection.clone(), owner.cloned()), last);
        }
        Ok(())
    }

    fn request(&mut self, scope: &RequestScope, id: &RequestId) -> Result<Option<RequestRow>> {
        let skey = match scope {
            RequestScope::Workspace => 0,
            RequestScope::Session(session) => match self.life(session)? {
                Some(skey) => skey,
                None => return Ok(None),
            },
        };
        let Some(body) = self.from.get(tables::REQUESTS, &request_key(skey, self.wkey, id))? else {
            return Ok(None);
        };
        let stored = read_request(&body)?;
        // A receipt dies with its session, also before the purge has come to it.
        if owner_state(self.from, stored.owner)? == OwnerState::Gone {
            return Ok(None);
        }
        let owner = match scope {
            RequestScope::Session(session) => Some(session.clone()),
            RequestScope::Workspace => stored.session,
        };
        Ok(Some(RequestRow {
            scope: scope.clone(),
            id: id.clone(),
            owner,
            fingerprint: stored.fingerprint,
            receipt: stored.receipt,
            created_at: stored.created_at,
            expires_at: stored.expires_at,
        }))
    }
}
