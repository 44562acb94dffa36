//! Answers the look-ups that the rules ask for, within the write transaction.

use redb::WriteTransaction;
use turnkeep_core::commit::{RequestId, RequestScope};
use turnkeep_core::id::{Collection, EntryKey, IntentId, RecordKey, SessionId, StreamName};
use turnkeep_core::local::{FactSource, Handles, gather};
use turnkeep_core::model::{LeaseName, Run, SessionRow, StreamRow, role};
use turnkeep_core::mutant;
use turnkeep_core::rules::{
    AttemptFact, Facts, LeaseFact, OwnerState, Place, ReadSet, RecordFact, RequestFact, Span,
    counts_as_message,
};
use turnkeep_core::{EntryNo, Result, RunId, SessionRef, WorkspaceId};

use crate::codec::{Fields, Key};
use crate::error::damaged;
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
    owners: &Handles,
    workspace: &WorkspaceId,
    reads: &ReadSet,
) -> Result<Facts> {
    // Nothing can be found in a workspace that nobody wrote to.
    match cache.workspace(from, workspace)? {
        Some(wkey) => gather(&mut Answers { from, cache, owners, workspace, wkey }, reads),
        None => Ok(Facts::default()),
    }
}

struct Answers<'a> {
    from: &'a WriteTransaction,
    cache: &'a mut Cache,
    owners: &'a Handles,
    workspace: &'a WorkspaceId,
    wkey: u64,
}

impl Answers<'_> {
    fn life(&mut self, session: &SessionRef) -> Result<Option<u64>> {
        self.cache.life(self.from, self.wkey, self.workspace, session)
    }

    fn segment(&self, skey: u64, number: EntryNo) -> Result<Option<EntryNo>> {
        Ok(segment_at(self.from, skey, number.get())?.and_then(|segment| EntryNo::new(segment.first)))
    }
}

impl FactSource for Answers<'_> {
    fn session(&mut self, id: &SessionId) -> Result<Option<SessionRow>> {
        let found = self.cache.session(self.from, self.wkey, self.workspace, id)?;
        Ok(found.map(|found| found.row.clone()))
    }

    fn entry_with_key(&mut self, session: &SessionRef, key: &EntryKey) -> Result<Option<EntryNo>> {
        let Some(skey) = self.life(session)? else { return Ok(None) };
        number_with_key(self.from, skey, key.as_str())
    }

    fn place(&mut self, session: &SessionRef, number: EntryNo) -> Result<Option<Place>> {
        let Some(skey) = self.life(session)? else { return Ok(None) };
        let key = entry_key(skey, number.get());
        let Some(body) = self.from.get(tables::ENTRIES, &key)? else { return Ok(None) };
        let on_path = read_entry(key.as_bytes(), &body)?.on_path;
        Ok(Some(Place { on_path, segment: self.segment(skey, number)? }))
    }

    fn span(
        &mut self,
        session: &SessionRef,
        after: Option<EntryNo>,
        through: EntryNo,
    ) -> Result<Option<Span>> {
        let Some(skey) = self.life(session)? else { return Ok(None) };
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

    fn run(&mut self, session: &SessionRef, id: &RunId) -> Result<Option<Run>> {
        let Some(skey) = self.life(session)? else { return Ok(None) };
        let Some(number) = self.from.get(tables::RUN_IDS, &Key::new().u64(skey).tail(id.as_str()))? else {
            return Ok(None);
        };
        let number = u32::try_from(read_number(tables::RUN_IDS, &number)?)
            .map_err(|_| damaged(tables::RUN_IDS, "number"))?;
        let body = self.from.get(tables::RUNS, &run_key(skey, number))?;
        read_run(&body.ok_or_else(|| damaged(tables::RUN_IDS, "run"))?).map(Some)
    }

    fn latest_attempt(&mut self, session: &SessionRef, intent: &IntentId) -> Result<Option<AttemptFact>> {
        let Some(skey) = self.life(session)? else { return Ok(None) };
        let span = source::Span::within(Key::new().u64(skey).text(intent.as_str()));
        let newest = mutant::either("redb/attempt-is-the-oldest", Toward::Higher, Toward::Lower);
        let Some((key, _)) = first(self.from, tables::RUN_INTENTS, &span, newest)? else {
            return Ok(None);
        };
        let mut fields = Fields::of_key(tables::RUN_INTENTS, &key);
        fields.u64()?;
        fields.text()?;
        let (attempt, number) = (fields.u32()?, fields.u32()?);
        let body = self.from.get(tables::RUNS, &run_key(skey, number))?;
        let run = read_run(&body.ok_or_else(|| damaged(tables::RUN_INTENTS, "run"))?)?;
        Ok(Some(AttemptFact { run: run.id, attempt }))
    }

    fn lease(&mut self, name: &LeaseName) -> Result<Option<LeaseFact>> {
        let row = match name {
            LeaseName::Named(id) => stored_lease(self.from, 0, self.wkey, id.as_str())?,
            LeaseName::Session(session) => match self.life(session)? {
                Some(skey) => stored_lease(self.from, skey, self.wkey, "")?,
                None => None,
            },
        };
        Ok(row.map(|row| LeaseFact { liveness: self.owners.liveness(&row), row }))
    }

    fn record(&mut self, collection: &Collection, key: &RecordKey) -> Result<Option<RecordFact>> {
        let stored_key = record_key(self.wkey, collection, key);
        let Some(body) = self.from.get(tables::RECORDS, &stored_key)? else { return Ok(None) };
        let stored = read_record(stored_key.as_bytes(), &body)?;
        let owner = owner_state(self.from, stored.owner)?;
        Ok(Some(RecordFact { record: stored.record, owner }))
    }

    fn stream(&mut self, session: &SessionRef, name: &StreamName) -> Result<Option<StreamRow>> {
        let Some(skey) = self.life(session)? else { return Ok(None) };
        let key = stream_key(skey, name.as_str());
        let body = self.from.get(tables::STREAMS, &key)?;
        body.map(|body| read_stream(key.as_bytes(), &body)).transpose()
    }

    fn ordinal(&mut self, collection: &Collection, owner: Option<&SessionRef>) -> Result<Option<u64>> {
        let skey = match owner {
            Some(owner) => match self.life(owner)? {
                Some(skey) => skey,
                None => return Ok(None),
            },
            None => 0,
        };
        let key = Key::new().u64(skey).u64(self.wkey).tail(collection.as_str());
        let body = self.from.get(tables::ORDINALS, &key)?;
        body.map(|body| read_number(tables::ORDINALS, &body)).transpose()
    }

    fn request(&mut self, scope: &RequestScope, id: &RequestId) -> Result<Option<RequestFact>> {
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
        if owner_state(self.from, stored.owner)? == OwnerState::Gone
            && !mutant::is("redb/receipt-outlives-its-session")
        {
            return Ok(None);
        }
        Ok(Some(RequestFact { fingerprint: stored.fingerprint, receipt: stored.receipt }))
    }
}
