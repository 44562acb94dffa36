//! Looks at everything and names what is damaged.

use std::collections::BTreeMap;

use redb::{ReadTransaction, ReadableTable};
use turnkeep_core::model::{Entry, entry_kind};
use turnkeep_core::rules::counts_as_message;
use turnkeep_core::store::{Damage, VerifyReport};
use turnkeep_core::{EntryNo, Error, ErrorKind, Payload, Result};

use super::leads_to;
use super::places::{is_whole, place_of};
use crate::codec::{Fields, Key};
use crate::error;
use crate::read::{SegmentRow, activity_key, number_with_key, profile, read_segment};
use crate::rows::{
    Head, RecordPlaces, read_entry, read_event, read_head, read_lease, read_record, read_request, read_run,
    read_stream, session_key,
};
use crate::source::{Source, Span, Toward};
use crate::tables::{self, Table};

/// Findings that are named; more say nothing new.
const MOST: usize = 1_000;

pub(super) fn damaged_pages(error: &Error) -> VerifyReport {
    let what = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let damage = vec![Damage { place: "pages of the file".to_owned(), what }];
    VerifyReport { damage, ..VerifyReport::default() }
}

/// The rows that are not what was written.
pub(super) fn damaged_rows(snapshot: &ReadTransaction) -> Result<Vec<Damage>> {
    let mut look = Look { source: snapshot, report: VerifyReport::default() };
    look.sums(snapshot)?;
    Ok(look.report.damage)
}

pub(super) fn verify(snapshot: &ReadTransaction) -> Result<VerifyReport> {
    let mut look = Look { source: snapshot, report: VerifyReport::default() };
    look.sums(snapshot)?;
    // Rows that are not what was written would only be found again, or end the reading.
    if look.report.damage.is_empty() {
        look.sessions()?;
        look.indexes()?;
        look.ledger()?;
    }
    Ok(look.report)
}

struct Look<'a> {
    source: &'a dyn Source,
    report: VerifyReport,
}

impl Look<'_> {
    fn check(&mut self, holds: bool, place: &str, what: &str) {
        if !holds && self.report.damage.len() < MOST {
            self.report.damage.push(Damage { place: place.to_owned(), what: what.to_owned() });
        }
    }

    /// Turns a damaged row into a finding.
    fn attempt<T>(&mut self, place: &str, answer: Result<T>) -> Result<Option<T>> {
        match answer {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                self.check(false, place, &error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Every row of every table has its check sum. Each that has not is named.
    fn sums(&mut self, snapshot: &ReadTransaction) -> Result<()> {
        for table in tables::ALL {
            let rows = snapshot.open_table(table.definition()).map_err(error::table)?;
            for row in rows.iter().map_err(error::storage)? {
                let (key, value) = match row.map_err(error::storage) {
                    Ok(row) => row,
                    Err(error) if error.kind() == ErrorKind::Corrupt => {
                        self.check(false, table.0, "the rest of it cannot be read");
                        break;
                    }
                    Err(error) => return Err(error),
                };
                if self.report.damage.len() < MOST && !is_whole(table, key.value(), value.value()) {
                    let place = place_of(self.source, table, key.value());
                    self.check(false, &place, "the row is not what was written: its check sum does not fit");
                }
            }
        }
        Ok(())
    }

    fn sessions(&mut self) -> Result<()> {
        let mut heads = Vec::new();
        self.source.scan(tables::SESSIONS, &Span::all(), Toward::Higher, &mut |key, body| {
            let skey = Fields::of_key(tables::SESSIONS, key).u64()?;
            heads.push((skey, read_head(body)?));
            Ok(true)
        })?;
        for (skey, head) in heads {
            self.report.sessions += 1;
            let place = format!("session {}", head.id);
            let checked = self.session(&place, skey, &head);
            self.attempt(&place, checked)?;
        }
        Ok(())
    }

    fn session(&mut self, place: &str, skey: u64, head: &Head) -> Result<()> {
        let by_id =
            self.source.get(tables::SESSION_IDS, &Key::new().u64(head.wkey).tail(head.id.as_str()))?;
        self.leads(place, tables::SESSION_IDS, by_id, skey)?;
        let by_activity = self
            .source
            .get(tables::SESSIONS_BY_ACTIVITY, &activity_key(head.wkey, head.activity, &head.id))?;
        self.leads(place, tables::SESSIONS_BY_ACTIVITY, by_activity, skey)?;
        let profile = profile(self.source, skey)?;
        if let Some(parent) = &profile.parent {
            let key = Key::new().u64(head.wkey).text(parent.as_str()).u64(skey);
            let listed = self.source.get(tables::SESSIONS_BY_PARENT, &key)?.is_some();
            self.check(listed, place, "its parent's list of children has it not");
        }
        let restoring = head.state == turnkeep_core::model::SessionState::Restoring;
        self.check(
            restoring == head.restore.is_some(),
            place,
            "state and restore progress do not fit together",
        );
        self.entries(place, skey, head)?;
        self.runs(place, skey, head)?;
        self.streams(place, skey)
    }

    fn leads(&mut self, place: &str, table: Table, body: Option<Vec<u8>>, skey: u64) -> Result<()> {
        let found = match body {
            Some(body) => leads_to(self.source, table, &body)?.map(|(skey, _)| skey),
            None => None,
        };
        self.check(found == Some(skey), place, &format!("the index {} leads elsewhere", table.0));
        Ok(())
    }

    /// Every path entry follows the one before it in its segment, or the parent that its segment names.
    fn entries(&mut self, place: &str, skey: u64, head: &Head) -> Result<()> {
        let mut segments: BTreeMap<u32, SegmentRow> = BTreeMap::new();
        let below = || Span::within(Key::new().u64(skey));
        self.source.scan(tables::SEGMENTS, &below(), Toward::Higher, &mut |key, body| {
            let segment = read_segment(key, body)?;
            segments.insert(segment.first, segment);
            Ok(true)
        })?;
        let mut walk = Path {
            segments,
            before: None,
            segment: None,
            tip: None,
            last: 0,
            messages: 0,
            wrong: Vec::new(),
        };
        let source = self.source;
        source.scan(tables::ENTRIES, &below(), Toward::Higher, &mut |key, body| {
            let entry = read_entry(key, body)?;
            walk.entry(&entry);
            let number = entry.number;
            if let Some(key) = &entry.key {
                let leads = number_with_key(source, skey, key.as_str())? == Some(number);
                walk.wrong_unless(leads, number, "its key leads elsewhere");
            }
            if entry.kind.as_str() != entry_kind::MESSAGE {
                let key = Key::new().u64(skey).text(entry.kind.as_str()).u32(number.get());
                let listed = source.get(tables::ENTRY_KINDS, &key)?.is_some();
                walk.wrong_unless(listed, number, "the index of kinds has it not");
            }
            Ok(walk.wrong.len() < MOST)
        })?;
        let Path { segments, segment: _, tip, last, messages, wrong, .. } = walk;
        self.report.entries += u64::from(last);
        for (number, what) in wrong {
            self.check(false, &format!("{place}, entry {number}"), what);
        }
        let segment_of = |number: Option<EntryNo>| {
            let number = number?.get();
            segments.range(..=number).next_back().and_then(|(first, _)| EntryNo::new(*first))
        };
        let path = &head.path;
        self.check(head.head.map_or(0, EntryNo::get) == last, place, "the head is not the last entry");
        self.check(head.messages == messages, place, "the message counter does not fit the messages");
        self.check(path.tip == tip, place, "the tip is not the newest path entry");
        self.check(path.tip_segment == segment_of(tip), place, "the tip is said to lie in another segment");
        let leaf = path.leaf.is_none_or(|leaf| leaf.get() <= last);
        self.check(leaf, place, "the leaf is no entry");
        self.check(
            path.leaf_segment == segment_of(path.leaf),
            place,
            "the leaf is said to lie in another segment",
        );
        let begins = segments.keys().all(|first| *first <= last);
        self.check(begins, place, "a segment begins at no entry");
        Ok(())
    }

    fn runs(&mut self, place: &str, skey: u64, head: &Head) -> Result<()> {
        let (source, mut active, mut wrong) = (self.source, Vec::new(), Vec::new());
        source.scan(
            tables::RUNS,
            &Span::within(Key::new().u64(skey)),
            Toward::Higher,
            &mut |key, body| {
                let mut fields = Fields::of_key(tables::RUNS, key);
                fields.u64()?;
                let (number, run) = (fields.u32()?, read_run(body)?);
                let by_id = source.get(tables::RUN_IDS, &Key::new().u64(skey).tail(run.id.as_str()))?;
                let leads = match by_id {
                    Some(body) => crate::rows::read_number(tables::RUN_IDS, &body)? == u64::from(number),
                    None => false,
                };
                let fits = run.number == number && run.session == head.session_ref() && number <= head.runs;
                if !leads || !fits {
                    wrong.push(format!("{place}, run {}", run.id));
                }
                if !run.state.is_terminal() {
                    active.push(run.id.clone());
                    let key = Key::new().u64(head.wkey).text(head.id.as_str()).u32(number);
                    if source.get(tables::RUNS_ACTIVE, &key)?.is_none() {
                        wrong.push(format!("{place}, active run {}", run.id));
                    }
                }
                Ok(true)
            },
        )?;
        for place in wrong {
            self.check(false, &place, "it does not fit its session, its number or its indexes");
        }
        let is = active.pop();
        self.check(active.is_empty(), place, "more than one run is active");
        self.check(head.active_run == is, place, "the session names another active run");
        Ok(())
    }

    fn streams(&mut self, place: &str, skey: u64) -> Result<()> {
        let below = || Span::within(Key::new().u64(skey));
        let mut streams = Vec::new();
        self.source.scan(tables::STREAMS, &below(), Toward::Higher, &mut |key, body| {
            streams.push(read_stream(key, body)?);
            Ok(true)
        })?;
        let mut events: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
        let mut unreadable = Vec::new();
        self.source.scan(tables::EVENTS, &below(), Toward::Higher, &mut |key, body| {
            let (stream, event) = read_event(key, body)?;
            if Payload::new(event.payload.as_str()).is_err() {
                unreadable.push((stream.clone(), event.number));
            }
            let number = event.number;
            let seen = events.entry(stream.as_str().to_owned()).or_insert((number, number, 0));
            *seen = (seen.0, number, seen.2 + 1);
            Ok(true)
        })?;
        for (stream, number) in unreadable {
            self.check(false, &format!("{place}, stream {stream}, event {number}"), NO_JSON);
        }
        for row in &streams {
            let (first, last, count) =
                events.remove(row.name.as_str()).unwrap_or((row.floor + 1, row.floor, 0));
            let whole = row.floor <= row.head
                && first == row.floor + 1
                && last == row.head
                && count == row.head - row.floor;
            let place = format!("{place}, stream {}", row.name);
            self.check(whole, &place, "it does not hold the events after its floor up to its head");
        }
        self.check(events.is_empty(), place, "there are events of no stream");
        Ok(())
    }

    /// No index has more than what it is an index of, and nothing lies below a session that is not there.
    fn indexes(&mut self) -> Result<()> {
        let sessions = self.source.count(tables::SESSIONS)?;
        for table in [tables::SESSION_IDS, tables::SESSIONS_BY_ACTIVITY] {
            self.check(
                self.source.count(table)? == sessions,
                table.0,
                "it has other rows than there are sessions",
            );
        }
        let buried = self.source.count(tables::TOMBSTONES)?;
        self.check(
            self.source.count(tables::PROFILES)? == sessions + buried,
            tables::PROFILES.0,
            "it has other rows than there are sessions",
        );
        self.check(
            self.source.count(tables::RUN_IDS)? == self.source.count(tables::RUNS)? || buried > 0,
            tables::RUN_IDS.0,
            "it has other rows than there are runs",
        );
        for table in [
            tables::ENTRIES,
            tables::ENTRY_KEYS,
            tables::ENTRY_KINDS,
            tables::SEGMENTS,
            tables::RUNS,
            tables::RUN_IDS,
            tables::RUN_INTENTS,
            tables::STREAMS,
            tables::EVENTS,
            tables::ORDINALS,
            tables::LEASES,
            tables::REQUESTS,
            tables::RECORDS_BY_OWNER,
            tables::RECORD_KEYS_OF_OWNER,
        ] {
            self.homeless(table)?;
        }
        Ok(())
    }

    /// Rows whose key begins with a session that is neither there nor waiting for its purge. One look per session.
    fn homeless(&mut self, table: Table) -> Result<()> {
        let mut next = Some(1_u64);
        while let Some(from) = next {
            let span = Span::all().from(Key::new().u64(from));
            let Some((key, _)) = crate::source::first(self.source, table, &span, Toward::Higher)? else {
                return Ok(());
            };
            let skey = Fields::of_key(table, &key).u64()?;
            let known = self.source.get(tables::SESSIONS, &session_key(skey))?.is_some()
                || self.source.get(tables::TOMBSTONES, &session_key(skey))?.is_some();
            self.check(known, &format!("{} of session key {skey}", table.0), "it belongs to no session");
            next = skey.checked_add(1);
        }
        Ok(())
    }

    fn ledger(&mut self) -> Result<()> {
        let (source, mut wrong, mut statuses) = (self.source, Vec::new(), 0_u64);
        source.scan(tables::RECORDS, &Span::all(), Toward::Higher, &mut |key, body| {
            let wkey = Fields::of_key(tables::RECORDS, key).u64()?;
            let stored = read_record(key, body)?;
            let place = format!("record {} {}", stored.record.collection, stored.record.key);
            let places = RecordPlaces::of(wkey, &stored);
            let mut listed = source.get(tables::RECORDS_IN_ORDER, &places.in_order)?.is_some()
                && source.get(tables::RECORDS_BY_OWNER, &places.by_owner)?.is_some()
                && source.get(tables::RECORD_KEYS_OF_OWNER, &places.of_owner)?.is_some();
            if let Some(by_status) = &places.by_status {
                statuses += 1;
                listed &= source.get(tables::RECORDS_BY_STATUS, by_status)?.is_some();
            }
            if !listed {
                wrong.push((place.clone(), "an index has it not"));
            }
            if Payload::new(stored.record.payload.as_str()).is_err() {
                wrong.push((place.clone(), NO_JSON));
            }
            let collection = stored.record.collection.as_str();
            let last =
                source.get(tables::ORDINALS, &Key::new().u64(stored.owner).u64(wkey).tail(collection))?;
            let last = last.map(|body| crate::rows::read_number(tables::ORDINALS, &body)).transpose()?;
            // The purge of an owner may have taken its counter before its records.
            let alive =
                stored.owner == 0 || source.get(tables::SESSIONS, &session_key(stored.owner))?.is_some();
            if alive && stored.record.ordinal > last.unwrap_or(0) {
                wrong.push((place, "its ordinal lies beyond the last one given"));
            }
            Ok(wrong.len() < MOST)
        })?;
        for (place, what) in wrong {
            self.check(false, &place, what);
        }
        let records = source.count(tables::RECORDS)?;
        for (table, rows) in [
            (tables::RECORDS_IN_ORDER, records),
            (tables::RECORDS_BY_OWNER, records),
            (tables::RECORD_KEYS_OF_OWNER, records),
            (tables::RECORDS_BY_STATUS, statuses),
        ] {
            self.check(source.count(table)? == rows, table.0, "it has other rows than there are records");
        }
        let mut readable = |table: Table, read: fn(&[u8]) -> Result<()>| {
            let scanned = source.scan(table, &Span::all(), Toward::Higher, &mut |_, body| {
                read(body)?;
                Ok(true)
            });
            self.attempt(table.0, scanned).map(drop)
        };
        readable(tables::LEASES, |body| read_lease(body).map(drop))?;
        readable(tables::REQUESTS, |body| read_request(body).map(drop))
    }
}

const NO_JSON: &str = "it holds a payload that is no valid JSON any more";

/// A walk over the entries of a session.
struct Path {
    segments: BTreeMap<u32, SegmentRow>,
    before: Option<EntryNo>,
    segment: Option<EntryNo>,
    tip: Option<EntryNo>,
    last: u32,
    messages: u32,
    wrong: Vec<(EntryNo, &'static str)>,
}

impl Path {
    fn wrong_unless(&mut self, holds: bool, number: EntryNo, what: &'static str) {
        if !holds {
            self.wrong.push((number, what));
        }
    }

    fn entry(&mut self, entry: &Entry) {
        let number = entry.number;
        self.wrong_unless(number.get() == self.last + 1, number, "the numbers have a gap before it");
        self.last = number.get();
        self.messages += u32::from(counts_as_message(entry));
        if let Some(begins) = self.segments.get(&number.get()).copied() {
            let holder = begins.parent.and_then(|parent| {
                self.segments.range(..=parent.get()).next_back().and_then(|(first, _)| EntryNo::new(*first))
            });
            self.wrong_unless(begins.parent == entry.parent, number, "its segment names another parent");
            self.wrong_unless(
                begins.parent_segment == holder,
                number,
                "its segment names another parent segment",
            );
            self.wrong_unless(entry.on_path, number, "a segment begins beside the path");
            self.segment = Some(number);
            self.before = entry.parent;
        }
        let older = entry.parent.is_none_or(|parent| parent < number);
        self.wrong_unless(older, number, "its parent is not older");
        if entry.on_path {
            self.wrong_unless(self.segment.is_some(), number, "it lies in no segment");
            self.wrong_unless(entry.parent == self.before, number, "it does not follow its segment");
            self.before = Some(number);
            self.tip = Some(number);
        }
        let refs = entry.refs.iter().all(|reference| reference.entry < number);
        self.wrong_unless(refs, number, "it refers to an entry that is not earlier");
        self.wrong_unless(Payload::new(entry.payload.as_str()).is_ok(), number, NO_JSON);
    }
}
