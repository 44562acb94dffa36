//! Our own lines: a header, rows, a footer.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::BufRead;

use serde::{Deserialize, Serialize};
use turnkeep_core::digest::{from_hex32, to_hex};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryNo, SessionId, StreamName};
use turnkeep_core::limits::PAYLOAD_BYTES;
use turnkeep_core::model::{Entry, Event, Row, SessionImage};
use turnkeep_core::payload::Payload;
use turnkeep_core::time::Timestamp;

use super::content::why_not_json;
use super::lines::Lines;
use super::report::{DropReason, Dropped, Missing, Wholeness};
use super::stand_in;
use super::survey::{Item, read_failed};
use crate::message::json::Object;

/// The name in the header of an export.
pub const FORMAT_NAME: &str = "turnkeep-session";
/// The version in the header of an export.
pub const FORMAT_VERSION: u32 = 1;

/// The longest line that a row can have: a payload whose every character is escaped once more, and its text.
const LONGEST_LINE: usize = 8 * PAYLOAD_BYTES + 1024 * 1024;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) session: SessionId,
    pub(super) created_at: Timestamp,
    /// Entries in the file.
    #[serde(default)]
    pub(super) entries: u64,
}

/// The last line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Footer {
    /// Always `footer`, so that no row is mistaken for it.
    pub(super) row: FooterMark,
    pub(super) rows: u64,
    pub(super) entries: u64,
    /// SHA-256 over all lines before, each with a line feed.
    pub(super) sha256: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FooterMark {
    Footer,
}

impl Footer {
    pub(super) fn new(rows: u64, entries: u64, digest: &[u8; 32]) -> Self {
        Self { row: FooterMark::Footer, rows, entries, sha256: to_hex(digest) }
    }
}

/// The header in a line, if it is one.
///
/// # Errors
/// `NewerFormat` if it is one of a version that is not known here.
pub(super) fn header(text: &str) -> Result<Option<Header>> {
    #[derive(Deserialize)]
    struct Outline {
        format: String,
        version: u32,
    }
    let Ok(outline) = serde_json::from_str::<Outline>(text) else { return Ok(None) };
    if outline.format != FORMAT_NAME {
        return Ok(None);
    }
    if outline.version > FORMAT_VERSION {
        return Err(Error::new(
            ErrorKind::NewerFormat,
            "the export was written by a newer version of this software; upgrade to import it",
        )
        .with("version", outline.version)
        .with("known", FORMAT_VERSION));
    }
    Ok(serde_json::from_str(text).ok())
}

/// Whether a line is a row of an export.
pub(super) fn is_row(text: &str) -> bool {
    serde_json::from_str::<Row>(text).is_ok()
}

/// Reads an export. Entries keep their numbers: where lines were dropped, others stand in.
pub(super) struct JsonlReader<R> {
    lines: Lines<R>,
    header: Option<Header>,
    image: Option<SessionImage>,
    wholeness: Wholeness,
    ended: bool,
    rows: u64,
    dropped: u64,
    /// Dropped lines that something stands in for.
    made_good: u64,
    places: Places,
    stand_ins: u64,
    /// What follows from the line at hand and was not given out yet.
    waiting: VecDeque<Item>,
}

/// What is known of the rows so far.
#[derive(Default)]
struct Places {
    head: u32,
    /// The newest entry on a path.
    tip: Option<EntryNo>,
    beside: HashSet<EntryNo>,
    streams: HashMap<StreamName, Events>,
    runs: u32,
}

/// The next event of a stream, and the last that its row speaks of.
struct Events {
    next: u64,
    head: u64,
}

/// The widest gap of missing lines that is filled in; and the most that is filled in at all, in a file that has no more
/// lines than that before the gap. So a short file never becomes a huge session.
const WIDEST_GAP: u64 = 100_000;

impl Places {
    fn lies_on_a_path(&self, number: EntryNo) -> bool {
        number.get() <= self.head && !self.beside.contains(&number)
    }
}

impl<R: BufRead> JsonlReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            lines: Lines::new(input, LONGEST_LINE),
            header: None,
            image: None,
            wholeness: Wholeness::Damaged,
            ended: false,
            rows: 0,
            dropped: 0,
            made_good: 0,
            places: Places::default(),
            stand_ins: 0,
            waiting: VecDeque::new(),
        }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.lines.bytes_read()
    }

    pub(super) fn file_digest(&self) -> [u8; 32] {
        self.lines.digest()
    }

    pub(super) fn session_id(&self) -> Option<SessionId> {
        self.header.as_ref().map(|header| header.session.clone())
    }

    pub(super) fn wholeness(&self) -> Wholeness {
        self.wholeness
    }

    pub(super) fn stand_ins(&self) -> u64 {
        self.stand_ins
    }

    /// What the file says of the session; without its line, what the rest of it shows.
    pub(super) fn image(&self) -> SessionImage {
        let mut image = self.image.clone().unwrap_or_else(|| {
            let created_at = self.header.as_ref().map_or_else(Timestamp::default, |header| header.created_at);
            SessionImage {
                created_at,
                updated_at: created_at,
                activity: 0,
                leaf: None,
                usage: turnkeep_core::model::Usage::default(),
                profile: turnkeep_core::model::Profile::default(),
            }
        });
        let holds = image.leaf.is_none_or(|leaf| self.places.lies_on_a_path(leaf));
        if self.image.is_none() || !holds {
            image.leaf = self.places.tip;
        }
        image
    }

    /// The next row or dropped line.
    pub(super) fn next_item(&mut self, payload_bytes: usize) -> Result<Option<Item>> {
        loop {
            if let Some(item) = self.waiting.pop_front() {
                return Ok(Some(item));
            }
            let Some(line) = self.lines.next_line().map_err(read_failed)? else { return Ok(None) };
            let number = line.number;
            let found = match line.text {
                Err(reason) => Err(reason),
                Ok(_) if self.ended => Err(DropReason::AfterEnd),
                Ok(text) if self.header.is_none() && self.rows == 0 => match header(text)? {
                    Some(header) => Ok(Read::Header(header)),
                    None => read(text, line.ended, payload_bytes),
                },
                Ok(text) => read(text, line.ended, payload_bytes),
            };
            let placed = match found {
                Err(reason) => Err(reason),
                Ok(Read::Header(header)) => {
                    self.header = Some(header);
                    Ok(())
                }
                Ok(Read::Footer(footer)) => {
                    self.end(&footer);
                    Ok(())
                }
                Ok(Read::Row(row)) => self.place(number, *row),
            };
            if let Err(reason) = placed {
                self.dropped += 1;
                self.wholeness = Wholeness::Damaged;
                return Ok(Some(Item::Dropped(Dropped { line: number, reason })));
            }
        }
    }

    fn end(&mut self, footer: &Footer) {
        self.ended = true;
        let agrees = self.header.is_some()
            && self.dropped == 0
            && self.stand_ins == 0
            && footer.rows == self.rows
            && footer.entries == u64::from(self.places.head)
            && from_hex32(&footer.sha256) == Some(self.lines.digest());
        self.wholeness = if agrees { Wholeness::Proven } else { Wholeness::Damaged };
    }

    /// Checks that a row follows on those before, and hands it out after what has to stand in for lost ones.
    fn place(&mut self, line: u64, row: Row) -> Result<(), DropReason> {
        match &row {
            Row::Session(image) => {
                if self.image.replace(image.clone()).is_some() {
                    return Err(DropReason::OutOfOrder);
                }
                self.rows += 1;
                return Ok(());
            }
            Row::Entry(entry) => self.place_entry(line, entry)?,
            Row::Run(run) => {
                if run.number <= self.places.runs {
                    return Err(DropReason::OutOfOrder);
                }
                self.places.runs = run.number;
            }
            Row::Stream(stream) => {
                if self.places.streams.contains_key(&stream.name) {
                    return Err(DropReason::OutOfOrder);
                }
                let events = Events { next: stream.floor.saturating_add(1), head: stream.head };
                self.places.streams.insert(stream.name.clone(), events);
            }
            Row::Event { stream, event } => self.place_event(line, stream, event)?,
            Row::Record(_) => {}
        }
        self.rows += 1;
        self.waiting.push_back(Item::Row { line, row });
        Ok(())
    }

    /// Whether a gap before a number is filled in: because of dropped lines, or because the file itself says that there
    /// is such a number, so that lines are missing.
    fn fills(&self, gap: u64, number: u64, said: u64) -> bool {
        let in_all = self.stand_ins.saturating_add(gap);
        gap <= self.lost() || (number <= said && gap <= WIDEST_GAP && in_all <= WIDEST_GAP.max(self.rows))
    }

    /// How many dropped lines have nothing in their place yet.
    fn lost(&self) -> u64 {
        self.dropped.saturating_sub(self.made_good)
    }

    /// Counts what stands in for something, and names it unless dropped lines explain it: those are named already.
    fn stands_in(&mut self, line: u64, gap: u64, what: impl FnOnce() -> String) {
        if gap > self.lost() {
            self.wholeness = Wholeness::Damaged;
            self.waiting.push_back(Item::Missing(Missing { before_line: line, what: what() }));
        }
        self.made_good += gap.min(self.lost());
        self.stand_ins += gap;
    }

    fn place_entry(&mut self, line: u64, entry: &Entry) -> Result<(), DropReason> {
        let number = entry.number.get();
        let Some(gap) = number.checked_sub(self.places.head.saturating_add(1)) else {
            return Err(DropReason::OutOfOrder);
        };
        let said = self.header.as_ref().map_or(0, |header| header.entries);
        if !self.fills(gap.into(), number.into(), said) {
            return Err(DropReason::OutOfOrder);
        }
        if entry.parent.is_some_and(|parent| parent >= entry.number)
            || entry.refs.iter().any(|reference| reference.entry >= entry.number)
            || entry.parent.is_some_and(|parent| self.places.beside.contains(&parent))
        {
            return Err(DropReason::NotARow);
        }
        if gap > 0 {
            self.stands_in(line, gap.into(), || {
                span("entry", "entries", (number - gap).into(), (number - 1).into())
            });
        }
        for _ in 0..gap {
            let places = &self.places;
            let stand_in =
                stand_in::entry(places.head, places.tip, entry.at).ok_or(DropReason::OutOfOrder)?;
            self.places.head = stand_in.number.get();
            self.places.tip = Some(stand_in.number);
            self.waiting.push_back(Item::StandIn(Row::Entry(stand_in)));
        }
        self.places.head = number;
        if entry.on_path {
            self.places.tip = Some(entry.number);
        } else {
            self.places.beside.insert(entry.number);
        }
        Ok(())
    }

    fn place_event(&mut self, line: u64, stream: &StreamName, event: &Event) -> Result<(), DropReason> {
        let (next, head) = match self.places.streams.get(stream) {
            Some(events) => (events.next, events.head),
            None => {
                // The row of the stream is lost: what is left of it begins here.
                let Some(floor) = event.number.checked_sub(1) else { return Err(DropReason::OutOfOrder) };
                self.stands_in(line, 1, || format!("the row of stream {stream}"));
                self.waiting.push_back(Item::StandIn(Row::Stream(stand_in::stream(stream.clone(), floor))));
                (event.number, 0)
            }
        };
        let Some(gap) = event.number.checked_sub(next) else { return Err(DropReason::OutOfOrder) };
        if !self.fills(gap, event.number, head) {
            return Err(DropReason::OutOfOrder);
        }
        if gap > 0 {
            self.stands_in(line, gap, || {
                format!("stream {stream}, {}", span("event", "events", next, event.number - 1))
            });
        }
        for number in next..event.number {
            let event = stand_in::event(number, event.at).ok_or(DropReason::OutOfOrder)?;
            self.waiting.push_back(Item::StandIn(Row::Event { stream: stream.clone(), event }));
        }
        let events = Events { next: event.number.saturating_add(1), head };
        self.places.streams.insert(stream.clone(), events);
        Ok(())
    }
}

/// `entry 5`, or `entries 5-7`.
fn span(one: &str, many: &str, first: u64, last: u64) -> String {
    if first == last { format!("{one} {first}") } else { format!("{many} {first}-{last}") }
}

enum Read {
    Header(Header),
    Row(Box<Row>),
    Footer(Footer),
}

fn read(text: &str, ended: bool, payload_bytes: usize) -> Result<Read, DropReason> {
    if let Ok(row) = serde_json::from_str::<Row>(text) {
        return if fits(&row, payload_bytes) {
            Ok(Read::Row(Box::new(row)))
        } else {
            Err(DropReason::TooLarge)
        };
    }
    if let Ok(footer) = serde_json::from_str::<Footer>(text) {
        return Ok(Read::Footer(footer));
    }
    // A payload is JSON within the line, and has reasons of its own.
    if let Some(payload) = Object::parse(text).and_then(|object| object.string("payload"))
        && Payload::new(payload.as_str()).is_err()
    {
        return Err(why_not_json(&payload, true));
    }
    Err(why_not_json(text, ended))
}

/// Whether a store takes what is in a row.
fn fits(row: &Row, payload_bytes: usize) -> bool {
    let within = |payload: &Payload| payload.as_str().len() <= payload_bytes;
    match row {
        Row::Session(image) => image.profile.meta.iter().all(within),
        Row::Entry(entry) => {
            within(&entry.payload) && entry.text.as_ref().is_none_or(|text| text.len() <= payload_bytes)
        }
        Row::Run(run) => [&run.error, &run.progress, &run.context_usage].into_iter().flatten().all(within),
        Row::Stream(_) => true,
        Row::Event { event, .. } => within(&event.payload),
        Row::Record(record) => within(&record.payload),
    }
}
