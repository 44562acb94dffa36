//! Writes the rows that the rules decided, within the write transaction.

use redb::WriteTransaction;
use turnkeep_core::commit::RequestScope;
use turnkeep_core::id::{Collection, RecordKey, SessionRef, StreamName};
use turnkeep_core::model::{Entry, Event, LeaseName, Record, Run, SessionRow, entry_kind};
use turnkeep_core::mutant;
use turnkeep_core::rules::{LeaseRow, RequestRow, Segment, SessionChange, Write, WriteSet};
use turnkeep_core::{EntryNo, Error, ErrorKind, Result, WorkspaceId};

use crate::codec::{Key, Value};
use crate::error::damaged;
use crate::read::{activity_key, newest_activity, segment_key};
use crate::rows::{
    RecordPlaces, StoredRecord, entry_key, event_key, lease_key, nothing, number_value, read_record,
    read_request, record_key, request_key, request_places, run_key, session_key, stream_key, write_entry,
    write_event, write_head, write_lease, write_profile, write_record, write_request, write_run,
    write_stream,
};
use crate::source::{Source as _, Span};
use crate::tables;
use crate::write::cache::{Cache, Cached};
use crate::write::copy;
use crate::write::rows::{count_up, open, put, remove, remove_span};

/// Where the rows go.
pub(super) struct Target<'a> {
    pub(super) to: &'a WriteTransaction,
    cache: &'a mut Cache,
    workspace: &'a WorkspaceId,
    pub(super) wkey: u64,
    /// Raised to the highest activity number written.
    activity: &'a mut u64,
}

/// Writes a commit; `activity` is its number. Answers whether a deleted session waits for the purge.
pub(super) fn apply(
    to: &WriteTransaction,
    cache: &mut Cache,
    set: &WriteSet,
    activity: &mut u64,
) -> Result<bool> {
    let wkey = cache.workspace_or_new(to, &set.workspace)?;
    let stamp = *activity;
    let mut target = Target { to, cache, workspace: &set.workspace, wkey, activity };
    let (mut moved, mut deleted) = (false, false);
    for write in &set.writes {
        target.write(write)?;
        moved |= !matches!(write, Write::Lease { .. } | Write::Request(_));
        deleted |= matches!(write, Write::DeleteSession { .. });
    }
    // The newest activity of a session tells of the commit; only where that is not its number the workspace must.
    if moved && newest_activity(to, wkey)? != stamp && !mutant::is("redb/marks-stand-still") {
        target.cache.mark(to, &set.workspace, stamp)?;
    }
    Ok(deleted)
}

impl Target<'_> {
    fn write(&mut self, write: &Write) -> Result<()> {
        match write {
            Write::Session { row, change } => self.session(row, *change),
            Write::DeleteSession { session } => self.delete(session),
            Write::Segments { session, segments } => self.segments(session, segments),
            Write::Entries { session, entries } => self.entries(session, entries),
            Write::Copy { from, to, after, through } => {
                let (from, child) = (self.life(from)?, self.life(to)?);
                copy::slice(self, from, child, to, after.map_or(0, EntryNo::get), through.get())
            }
            Write::Run { run, new } => {
                let skey = self.life(&run.session)?;
                self.run(skey, run, *new)
            }
            Write::Stream { session, row } => {
                let skey = self.life(session)?;
                put(self.to, tables::STREAMS, &stream_key(skey, row.name.as_str()), write_stream(row))
            }
            Write::Events { session, stream, events } => self.events(session, stream, events),
            Write::DropEvents { session, stream, through } => self.drop_events(session, stream, *through),
            Write::Record { record } => self.record(record),
            Write::DeleteRecord { collection, key } => self.delete_record(collection, key),
            Write::Ordinal { collection, owner, last } => {
                let skey = self.maybe_life(owner.as_ref())?;
                let key = Key::new().u64(skey).u64(self.wkey).tail(collection.as_str());
                put(self.to, tables::ORDINALS, &key, number_value(*last))
            }
            Write::Lease { name, row } => self.lease(name, row),
            Write::Request(row) => self.request(row),
            Write::TouchWorkspace => Ok(()),
        }
    }

    /// The key of a session that the rules found to be there.
    fn life(&mut self, session: &SessionRef) -> Result<u64> {
        self.cache.life(self.to, self.wkey, self.workspace, session)?.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "rows were to be written below a session that is not there")
                .with("session", session)
        })
    }

    fn maybe_life(&mut self, session: Option<&SessionRef>) -> Result<u64> {
        session.map_or(Ok(0), |session| self.life(session))
    }

    fn session(&mut self, row: &SessionRow, change: SessionChange) -> Result<()> {
        *self.activity = (*self.activity).max(row.activity);
        let by_activity = activity_key(self.wkey, row.activity, &row.id);
        let skey = if change == SessionChange::New {
            let skey = count_up(self.to, "next_session")?;
            let by_id = Key::new().u64(self.wkey).tail(row.id.as_str());
            put(self.to, tables::SESSION_IDS, &by_id, number_value(skey))?;
            skey
        } else {
            let known = self.cache.session(self.to, self.wkey, self.workspace, &row.id)?;
            let known = known.ok_or_else(|| damaged(tables::SESSIONS, "row"))?;
            let (skey, old) = (known.skey, activity_key(self.wkey, known.row.activity, &row.id));
            let parent = known.row.profile.parent.clone();
            if !mutant::is("redb/old-place-in-lists-stays") {
                remove(self.to, tables::SESSIONS_BY_ACTIVITY, &old)?;
            }
            if let Some(parent) = parent.filter(|parent| Some(parent) != row.profile.parent.as_ref()) {
                remove(self.to, tables::SESSIONS_BY_PARENT, &parent_key(self.wkey, parent.as_str(), skey))?;
            }
            skey
        };
        put(self.to, tables::SESSIONS, &session_key(skey), write_head(self.wkey, row))?;
        put(self.to, tables::SESSIONS_BY_ACTIVITY, &by_activity, number_value(skey))?;
        if change != SessionChange::Counters {
            put(self.to, tables::PROFILES, &session_key(skey), write_profile(&row.profile)?)?;
            if let Some(parent) = &row.profile.parent {
                let key = parent_key(self.wkey, parent.as_str(), skey);
                put(self.to, tables::SESSIONS_BY_PARENT, &key, nothing())?;
            }
        }
        self.cache.put(self.wkey, Cached { skey, row: row.clone() });
        Ok(())
    }

    /// Takes the session out of every table that reads begin at. What lies below waits for the purge.
    fn delete(&mut self, session: &SessionRef) -> Result<()> {
        let skey = self.life(session)?;
        let known = self.cache.session(self.to, self.wkey, self.workspace, &session.id)?;
        let row = known.ok_or_else(|| damaged(tables::SESSIONS, "row"))?.row.clone();
        let grave = Value::new().u64(self.wkey).str(session.id.as_str());
        put(self.to, tables::TOMBSTONES, &session_key(skey), grave)?;
        remove(self.to, tables::SESSIONS, &session_key(skey))?;
        remove(self.to, tables::SESSION_IDS, &Key::new().u64(self.wkey).tail(session.id.as_str()))?;
        remove(self.to, tables::SESSIONS_BY_ACTIVITY, &activity_key(self.wkey, row.activity, &row.id))?;
        if let Some(parent) =
            row.profile.parent.as_ref().filter(|_| !mutant::is("redb/dead-child-stays-listed"))
        {
            remove(self.to, tables::SESSIONS_BY_PARENT, &parent_key(self.wkey, parent.as_str(), skey))?;
        }
        let active = Span::within(Key::new().u64(self.wkey).text(session.id.as_str()));
        remove_span(self.to, tables::RUNS_ACTIVE, &active)?;
        self.cache.forget(self.wkey, &session.id);
        Ok(())
    }

    fn segments(&mut self, session: &SessionRef, segments: &[Segment]) -> Result<()> {
        let skey = self.life(session)?;
        let mut table = open(self.to, tables::SEGMENTS)?;
        for segment in segments {
            let number = |number: Option<EntryNo>| number.map_or(0, EntryNo::get);
            let value = Value::new().u32(number(segment.parent)).u32(number(segment.parent_segment));
            table.put(&segment_key(skey, segment.first.get()), value)?;
        }
        Ok(())
    }

    fn entries(&mut self, session: &SessionRef, entries: &[Entry]) -> Result<()> {
        let skey = self.life(session)?;
        {
            let mut table = open(self.to, tables::ENTRIES)?;
            for entry in entries {
                table.put(&entry_key(skey, entry.number.get()), write_entry(entry))?;
            }
        }
        entries.iter().try_for_each(|entry| self.entry_indexes(skey, entry))
    }

    pub(super) fn entry_indexes(&self, skey: u64, entry: &Entry) -> Result<()> {
        if let Some(key) = &entry.key {
            let key = Key::new().u64(skey).tail(key.as_str());
            put(self.to, tables::ENTRY_KEYS, &key, number_value(entry.number.get().into()))?;
        }
        if entry.kind.as_str() != entry_kind::MESSAGE && !mutant::is("redb/kinds-not-indexed") {
            let key = Key::new().u64(skey).text(entry.kind.as_str()).u32(entry.number.get());
            put(self.to, tables::ENTRY_KINDS, &key, nothing())?;
        }
        Ok(())
    }

    /// A run keeps its id, its intent and its attempt.
    pub(super) fn run(&mut self, skey: u64, run: &Run, new: bool) -> Result<()> {
        if new {
            let by_id = Key::new().u64(skey).tail(run.id.as_str());
            put(self.to, tables::RUN_IDS, &by_id, number_value(run.number.into()))?;
            if let Some(intent) = &run.intent {
                let by_intent = Key::new().u64(skey).text(intent.as_str()).u32(run.attempt).u32(run.number);
                put(self.to, tables::RUN_INTENTS, &by_intent, nothing())?;
            }
        }
        let active = Key::new().u64(self.wkey).text(run.session.id.as_str()).u32(run.number);
        if run.state.is_terminal() {
            remove(self.to, tables::RUNS_ACTIVE, &active)?;
        } else {
            put(self.to, tables::RUNS_ACTIVE, &active, number_value(skey))?;
        }
        put(self.to, tables::RUNS, &run_key(skey, run.number), write_run(run)?)
    }

    fn events(&mut self, session: &SessionRef, stream: &StreamName, events: &[Event]) -> Result<()> {
        let skey = self.life(session)?;
        let mut table = open(self.to, tables::EVENTS)?;
        events.iter().try_for_each(|event| {
            table.put(&event_key(skey, stream.as_str(), event.number), write_event(event))
        })
    }

    fn drop_events(&mut self, session: &SessionRef, stream: &StreamName, through: u64) -> Result<()> {
        let skey = self.life(session)?;
        let span = Span::within(Key::new().u64(skey).text(stream.as_str())).through(event_key(
            skey,
            stream.as_str(),
            through.saturating_sub(mutant::either("redb/drops-one-too-few", 1, 0)),
        ));
        remove_span(self.to, tables::EVENTS, &span)
    }

    fn record(&mut self, record: &Record) -> Result<()> {
        let owner = self.maybe_life(record.owner.as_ref())?;
        let key = record_key(self.wkey, &record.collection, &record.key);
        self.unlist(&key)?;
        let stored = StoredRecord { owner, record: record.clone() };
        let places = RecordPlaces::of(self.wkey, &stored);
        put(self.to, tables::RECORDS_IN_ORDER, &places.in_order, nothing())?;
        put(self.to, tables::RECORDS_BY_OWNER, &places.by_owner, nothing())?;
        put(self.to, tables::RECORD_KEYS_OF_OWNER, &places.of_owner, nothing())?;
        if let Some(by_status) = &places.by_status {
            put(self.to, tables::RECORDS_BY_STATUS, by_status, nothing())?;
        }
        put(self.to, tables::RECORDS, &key, write_record(&stored))
    }

    fn delete_record(&mut self, collection: &Collection, key: &RecordKey) -> Result<()> {
        let key = record_key(self.wkey, collection, key);
        self.unlist(&key)?;
        remove(self.to, tables::RECORDS, &key).map(drop)
    }

    /// Takes a record out of the indexes, where it is there.
    fn unlist(&self, key: &Key) -> Result<()> {
        unlist(self.to, self.wkey, key).map(drop)
    }

    fn lease(&mut self, name: &LeaseName, row: &LeaseRow) -> Result<()> {
        let key = match name {
            LeaseName::Session(session) => lease_key(self.life(session)?, self.wkey, ""),
            LeaseName::Named(id) => lease_key(0, self.wkey, id.as_str()),
        };
        put(self.to, tables::LEASES, &key, write_lease(row))
    }

    /// Replaces the receipt of a session that is gone, should its purge not have come to it yet.
    fn request(&mut self, row: &RequestRow) -> Result<()> {
        let (skey, owner) = match &row.scope {
            RequestScope::Session(session) => (self.life(session)?, 0),
            RequestScope::Workspace => (0, self.maybe_life(row.owner.as_ref())?),
        };
        let key = request_key(skey, self.wkey, &row.id);
        remove_request(self.to, &key)?;
        for (table, place) in request_places(&key, owner, row.expires_at)? {
            put(self.to, table, &place, nothing())?;
        }
        put(self.to, tables::REQUESTS, &key, write_request(owner, row)?)
    }
}

fn parent_key(wkey: u64, parent: &str, skey: u64) -> Key {
    Key::new().u64(wkey).text(parent).u64(skey)
}

/// Takes a record out of the indexes; answers whether it was there.
pub(super) fn unlist(to: &WriteTransaction, wkey: u64, key: &Key) -> Result<bool> {
    let Some(body) = to.get(tables::RECORDS, key)? else { return Ok(false) };
    let places = RecordPlaces::of(wkey, &read_record(key.as_bytes(), &body)?);
    remove(to, tables::RECORDS_IN_ORDER, &places.in_order)?;
    if !mutant::is("redb/former-owner-keeps-the-record") {
        remove(to, tables::RECORDS_BY_OWNER, &places.by_owner)?;
    }
    remove(to, tables::RECORD_KEYS_OF_OWNER, &places.of_owner)?;
    if let Some(by_status) = &places.by_status {
        remove(to, tables::RECORDS_BY_STATUS, by_status)?;
    }
    Ok(true)
}

/// Removes a stored receipt and its places in the indexes; answers whether it was there.
pub(super) fn remove_request(to: &WriteTransaction, key: &Key) -> Result<bool> {
    let Some(body) = to.get(tables::REQUESTS, key)? else { return Ok(false) };
    let stored = read_request(&body)?;
    for (table, place) in request_places(key, stored.owner, stored.expires_at)? {
        remove(to, table, &place)?;
    }
    remove(to, tables::REQUESTS, key)
}
