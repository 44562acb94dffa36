//! The first look at a file: which format it is, what it holds, and what is wrong with it.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;

use turnkeep_core::digest::to_hex;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::SessionId;
use turnkeep_core::model::{Row, SessionImage};

use super::content::ContentDigest;
use super::jsonl::{self, JsonlReader};
use super::lines::Lines;
use super::pi::{self, PiReader};
use super::report::{Dropped, Format, MOST_DROPPED, Missing, Tally, Wholeness};
use super::{OnProgress, Progress};
use crate::redact::Redaction;

/// Lines that are looked at to find out the format.
const PROBED_LINES: usize = 20;
/// The longest line that is looked at for that.
const PROBED_BYTES: usize = 32 * 1024 * 1024;
/// Bytes between two calls of the progress callback.
const REPORT_EVERY: u64 = 256 * 1024;

/// What a file gives.
pub(super) enum Item {
    /// A row of a line.
    Row { line: u64, row: Row },
    /// A row in place of a lost one.
    StandIn(Row),
    /// A line that was dropped.
    Dropped(Dropped),
    /// Something that has no line.
    Missing(Missing),
}

impl Item {
    fn redacted(mut self, redaction: &Redaction) -> Result<Self> {
        match &mut self {
            Self::Row { row, .. } | Self::StandIn(row) => redaction.row(row)?,
            Self::Dropped(_) | Self::Missing(_) => {}
        }
        Ok(self)
    }
}

/// How rows are taken from a file.
#[derive(Clone, Copy)]
pub(super) struct Taking<'a> {
    /// The largest payload that the store takes.
    pub(super) payload_bytes: usize,
    /// What is hidden of them.
    pub(super) redaction: Option<&'a Redaction>,
}

/// A file of either format.
pub(super) enum Reader<R> {
    Jsonl(Box<JsonlReader<R>>),
    Pi(Box<PiReader<R>>),
}

impl<R: BufRead> Reader<R> {
    pub(super) fn new(format: Format, input: R) -> Self {
        match format {
            Format::Turnkeep => Self::Jsonl(Box::new(JsonlReader::new(input))),
            Format::Pi => Self::Pi(Box::new(PiReader::new(input))),
        }
    }

    /// The next row as it is to be stored, or a line that was dropped.
    pub(super) fn next_item(&mut self, taking: Taking<'_>) -> Result<Option<Item>> {
        let item = match self {
            Self::Jsonl(reader) => reader.next_item(taking.payload_bytes),
            Self::Pi(reader) => reader.next_item(taking.payload_bytes),
        }?;
        let Some(redaction) = taking.redaction else { return Ok(item) };
        item.map(|item| item.redacted(redaction)).transpose()
    }

    pub(super) fn bytes_read(&self) -> u64 {
        match self {
            Self::Jsonl(reader) => reader.bytes_read(),
            Self::Pi(reader) => reader.bytes_read(),
        }
    }

    pub(super) fn file_digest(&self) -> [u8; 32] {
        match self {
            Self::Jsonl(reader) => reader.file_digest(),
            Self::Pi(reader) => reader.file_digest(),
        }
    }
}

/// What a whole file holds.
pub(super) struct Survey {
    pub(super) format: Format,
    /// The session as the file names it, else a name made of its content.
    pub(super) id: SessionId,
    pub(super) image: SessionImage,
    /// SHA-256 over the lines.
    pub(super) file: [u8; 32],
    /// The digest of the rows, whatever id and store they come to.
    pub(super) content: [u8; 32],
    pub(super) tally: Tally,
    pub(super) dropped: Vec<Dropped>,
    pub(super) wholeness: Wholeness,
}

/// Calls the progress callback now and then, and finds out whether to go on.
pub(super) struct Reporter<'a, 'b> {
    on_progress: &'a mut OnProgress<'b>,
    total: u64,
    base: u64,
    reported: Option<u64>,
    /// What the error says when it is not to go on.
    cancelled: &'static str,
}

impl<'a, 'b> Reporter<'a, 'b> {
    pub(super) fn new(on_progress: &'a mut OnProgress<'b>, total: u64) -> Self {
        let cancelled = "the transfer was cancelled; nothing of it stays";
        Self { on_progress, total, base: 0, reported: None, cancelled }
    }

    /// Says something else when it is not to go on.
    pub(super) fn cancelled(mut self, message: &'static str) -> Self {
        self.cancelled = message;
        self
    }

    /// Counts from here on for the next reading of the file.
    pub(super) fn begin_at(&mut self, base: u64) {
        self.base = base;
    }

    /// Tells that `done` is done, if that is news.
    pub(super) fn tell(&mut self, done: u64, every: u64) -> Result<()> {
        let done = self.base.saturating_add(done).min(self.total);
        if self.reported.is_some_and(|reported| done < reported.saturating_add(every) && done < self.total) {
            return Ok(());
        }
        self.reported = Some(done);
        match (self.on_progress)(Progress { done, total: self.total }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::new(ErrorKind::Cancelled, self.cancelled)),
        }
    }

    pub(super) fn bytes(&mut self, read: u64) -> Result<()> {
        self.tell(read, REPORT_EVERY)
    }
}

pub(super) fn read_failed(error: io::Error) -> Error {
    Error::new(ErrorKind::Io, "the file cannot be read").with_source(error)
}

/// Goes back to the beginning of a file.
pub(super) fn rewind<R: Read + Seek>(file: &mut R) -> Result<BufReader<&mut R>> {
    file.seek(SeekFrom::Start(0)).map_err(read_failed)?;
    Ok(BufReader::with_capacity(64 * 1024, file))
}

/// Finds out the format of a file by its first lines.
///
/// # Errors
/// `Invalid` when it is empty or no session file, `NewerFormat` or `Unsupported` for a version that is not known.
fn format_of(input: impl BufRead) -> Result<Format> {
    let mut lines = Lines::new(input, PROBED_BYTES);
    let mut any = false;
    for _ in 0..PROBED_LINES {
        let Some(line) = lines.next_line().map_err(read_failed)? else { break };
        any = true;
        let Ok(text) = line.text else { continue };
        if jsonl::header(text)?.is_some() || jsonl::is_row(text) {
            return Ok(Format::Turnkeep);
        }
        if pi::is_line(text)? {
            return Ok(Format::Pi);
        }
    }
    Err(if any {
        Error::new(
            ErrorKind::Invalid,
            "the file is no session: expected an export of this software, or a session of pi",
        )
    } else {
        Error::new(ErrorKind::Invalid, "the file is empty")
    })
}

/// Reads a file once, keeping nothing but counts and digests.
///
/// # Errors
/// `Invalid` when it is no session file or almost nothing of it is one; `Io` when it cannot be read; `Cancelled`.
pub(super) fn survey<R: Read + Seek>(
    file: &mut R,
    taking: Taking<'_>,
    reporter: &mut Reporter<'_, '_>,
) -> Result<Survey> {
    let format = format_of(rewind(file)?)?;
    let mut reader = Reader::new(format, rewind(file)?);
    let mut tally = Tally::default();
    let mut dropped = Vec::new();
    let mut content = ContentDigest::new(SessionId::new("session")?);
    while let Some(item) = reader.next_item(taking)? {
        match item {
            Item::Row { line, row } => {
                content.fold(&row);
                match &row {
                    Row::Entry(entry) => tally.entry(line, entry),
                    _ => tally.other_rows += 1,
                }
            }
            Item::StandIn(row) => content.fold(&row),
            Item::Dropped(line) if dropped.len() < MOST_DROPPED => dropped.push(line),
            Item::Missing(missing) if tally.missing.len() < MOST_DROPPED => tally.missing.push(missing),
            Item::Dropped(_) | Item::Missing(_) => {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!(
                        "more than {MOST_DROPPED} lines of the file are missing or cannot be read; it is no session"
                    ),
                ));
            }
        }
        reporter.bytes(reader.bytes_read())?;
    }
    let file = reader.file_digest();
    let (id, mut image, wholeness) = match &reader {
        Reader::Jsonl(reader) => {
            tally.headers += u64::from(reader.session_id().is_some());
            tally.stand_ins = reader.stand_ins();
            (reader.session_id(), reader.image(), reader.wholeness())
        }
        Reader::Pi(reader) => (reader.session_id(), reader.image(), reader.wholeness(dropped.len())),
    };
    let id = match id {
        Some(id) => id,
        None => SessionId::new(format!("{format}-{}", to_hex(file.get(..16).unwrap_or_default())))?,
    };
    if let Some(redaction) = taking.redaction {
        redaction.image(&mut image)?;
    }
    Ok(Survey { format, id, image, file, content: content.finish(), tally, dropped, wholeness })
}
