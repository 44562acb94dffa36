//! The log file. A person can read it: every line is text.
//!
//! Three sectors of 512 bytes come first. One names the format and never changes. The other two are marks, written by
//! turns: each says up to where the log was whole and durable when it was written. Then comes one line per commit, with
//! a check sum over its place and its content.
//!
//! The marks tell a torn tail from a damaged middle. A commit writes a mark for what lies before it, then its line, and
//! syncs both together: so at most the last line can be torn, and whatever a mark covers must be good.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::local::CommitFailure;
use turnkeep_core::local::place::beside;
use turnkeep_core::rules::WriteSet;
use turnkeep_core::{Error, ErrorKind, Result};
use turnkeep_memory::Tables;

use crate::medium::{Medium, MediumFile};
use crate::migrate;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// Where the lines begin.
const LINES: usize = 3 * SECTOR;

/// The log grows by this much before it is written anew, or by a quarter, whichever is more.
const SLACK: u64 = 8 << 20;

/// An open log.
#[derive(Debug)]
pub(crate) struct Log {
    medium: Arc<dyn Medium>,
    path: PathBuf,
    file: Box<dyn MediumFile>,
    /// Where the next line goes.
    end: u64,
    /// Which mark was written last.
    turn: u64,
    /// How long the log was when it was new.
    new: u64,
}

/// Up to where the log was whole and durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    turn: u64,
    sound: u64,
}

impl Mark {
    fn check(self) -> String {
        to_hex(&FieldDigest::new("toy-mark/2").number(self.turn).number(self.sound).finish())
    }

    fn sector(self) -> Vec<u8> {
        let text = format!("mark {} sound {} check {}", self.turn, self.sound, self.check());
        sector(&text)
    }

    fn place(self) -> u64 {
        (SECTOR + SECTOR * usize::from(self.turn % 2 == 1)) as u64
    }

    fn read(sector: &[u8]) -> Option<Self> {
        let words: Vec<&str> = std::str::from_utf8(sector).ok()?.split_whitespace().collect();
        let ["mark", turn, "sound", sound, "check", check] = words.as_slice() else { return None };
        let mark = Self { turn: turn.parse().ok()?, sound: sound.parse().ok()? };
        (mark.check() == *check).then_some(mark)
    }
}

/// A line of text that fills a sector.
fn sector(text: &str) -> Vec<u8> {
    format!("{text:<width$}\n", width = SECTOR - 1).into_bytes()
}

/// A commit as a line. Its check sum covers its place, so that a line is good nowhere else.
fn line(at: u64, activity: u64, set: &WriteSet) -> Result<Vec<u8>> {
    let set = serde_json::to_string(set).map_err(|error| {
        Error::new(ErrorKind::Io, "a commit cannot be written as text").with_source(error)
    })?;
    let content = format!("{activity} {set}");
    let check = FieldDigest::new("toy-line/2").number(at).text(&content).finish();
    Ok(format!("{} {content}\n", to_hex(&check)).into_bytes())
}

/// Reads the line at a place: what it says, and where the next one begins. `None` for a line that is not good.
fn read_line(bytes: &[u8], at: usize) -> Option<(u64, WriteSet, usize)> {
    let rest = bytes.get(at..)?;
    let length = rest.iter().position(|byte| *byte == b'\n')?;
    let (check, content) = std::str::from_utf8(&rest[..length]).ok()?.split_once(' ')?;
    let expected = FieldDigest::new("toy-line/2").number(at as u64).text(content).finish();
    if to_hex(&expected) != check {
        return None;
    }
    let (activity, set) = migrate::read_content(content)?;
    Some((activity, set, at + length + 1))
}

/// How far a log is good.
struct Extent {
    turn: u64,
    /// What the newest mark covers.
    sound: u64,
    /// Where the good lines end; the rest is a torn tail.
    end: u64,
}

/// Reads a log of today's format line by line.
fn read(bytes: &[u8], path: &Path, mut take: impl FnMut(u64, WriteSet)) -> Result<Extent> {
    let marks = [SECTOR..2 * SECTOR, 2 * SECTOR..LINES];
    let marks = marks.into_iter().filter_map(|place| Mark::read(bytes.get(place)?));
    let Some(mark) = marks.max_by_key(|mark| mark.turn) else {
        return Err(corrupt(path, "neither mark of the log is good"));
    };
    if mark.sound > bytes.len() as u64 {
        return Err(corrupt(path, "the log is shorter than it was: its last part is lost"));
    }
    let mut at = LINES;
    while at < bytes.len() {
        match read_line(bytes, at) {
            Some((activity, set, next)) => {
                take(activity, set);
                at = next;
            }
            None if (at as u64) < mark.sound => {
                return Err(corrupt(path, "a line of the log is damaged").with("offset", at));
            }
            None => break,
        }
    }
    Ok(Extent { turn: mark.turn, sound: mark.sound, end: at as u64 })
}

pub(crate) fn corrupt(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{what}; nothing was changed: restore a backup"))
        .with("path", path.display())
}

impl Log {
    /// Reads a log of today's format into tables, and cuts a torn tail off. Nothing is written before all of it is
    /// accepted.
    pub(crate) fn open(medium: &Arc<dyn Medium>, path: &Path) -> Result<(Self, Tables)> {
        let file =
            medium.open(path).map_err(|error| Error::io("the log could not be opened", path, error))?;
        let bytes = file.read().map_err(|error| Error::io("the log could not be read", path, error))?;
        let mut tables = Tables::default();
        let extent = read(&bytes, path, |activity, set| drop(tables.apply(set, activity)))?;
        let mut log = Self {
            medium: Arc::clone(medium),
            path: path.to_owned(),
            file,
            end: extent.end,
            turn: extent.turn,
            new: extent.end,
        };
        if extent.sound < bytes.len() as u64 {
            // The last line may be in the cache alone, also after a sync that failed: it is written again before
            // anybody is told of it.
            let tail = bytes.get(extent.sound as usize..extent.end as usize).unwrap_or_default();
            let settled = log.file.set_len(extent.end).and_then(|()| log.file.write(extent.sound, tail));
            settled
                .and_then(|()| log.file.sync())
                .map_err(|error| Error::io("the log could not be settled", path, error))?;
            log.rest()?;
        }
        Ok((log, tables))
    }

    /// Makes a log of what tables hold, whole or not at all: under another name first, synced, and only then in place
    /// of what has the name. `Unknown` says that the new log may or may not have the name.
    pub(crate) fn make(
        medium: &Arc<dyn Medium>,
        path: &Path,
        tables: &Tables,
    ) -> std::result::Result<Self, CommitFailure> {
        let unfinished = beside(path, ".unfinished");
        let log = Self::fill(medium, path, &unfinished, tables).map_err(CommitFailure::NothingApplied)?;
        medium.rename(&unfinished, path).map_err(|error| {
            CommitFailure::NothingApplied(Error::io("the log could not be named", path, error))
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        medium
            .sync_folder(folder)
            .map_err(|error| CommitFailure::Unknown(Error::io("the log could not be named", path, error)))?;
        Ok(log)
    }

    fn fill(medium: &Arc<dyn Medium>, path: &Path, unfinished: &Path, tables: &Tables) -> Result<Self> {
        const CHUNK: usize = 1 << 20;
        let written = |error| Error::io("the log could not be written", unfinished, error);
        let file = medium.create(unfinished).map_err(written)?;
        let (mut end, mut chunk) = (LINES as u64, Vec::with_capacity(CHUNK));
        tables.image(|activity, set| {
            chunk.extend(line(end + chunk.len() as u64, activity, &set)?);
            if chunk.len() >= CHUNK {
                file.write(end, &chunk).map_err(written)?;
                end += chunk.len() as u64;
                chunk.clear();
            }
            Ok(())
        })?;
        file.write(end, &chunk).map_err(written)?;
        end += chunk.len() as u64;
        let mut head = sector(&migrate::first_line());
        head.extend(Mark { turn: 0, sound: end }.sector());
        head.extend(sector(""));
        file.write(0, &head).and_then(|()| file.sync()).map_err(written)?;
        let (medium, path) = (Arc::clone(medium), path.to_owned());
        Ok(Self { medium, path, file, end, turn: 0, new: end })
    }

    /// Adds a commit. It is durable when this returns.
    pub(crate) fn append(&mut self, activity: u64, set: &WriteSet) -> std::result::Result<(), CommitFailure> {
        let line = line(self.end, activity, set).map_err(CommitFailure::NothingApplied)?;
        let mark = Mark { turn: self.turn + 1, sound: self.end };
        let written = self.file.write(mark.place(), &mark.sector());
        if let Err(error) = written.and_then(|()| self.file.write(self.end, &line)) {
            // Without its end a line is no commit. What there is of it is cut off now, or by the next opening.
            let _ = self.file.set_len(self.end);
            return Err(CommitFailure::NothingApplied(Error::io(
                "the log could not be written",
                &self.path,
                error,
            )));
        }
        self.file.sync().map_err(|error| {
            CommitFailure::Unknown(Error::io("the log could not be synced", &self.path, error))
        })?;
        self.turn = mark.turn;
        self.end += line.len() as u64;
        Ok(())
    }

    /// Whether the log has grown so much that it should be written anew.
    pub(crate) fn is_long(&self) -> bool {
        self.end - self.new > SLACK.max(self.new / 4)
    }

    /// Leaves out whatever is not needed any more.
    pub(crate) fn shorten(&mut self, tables: &Tables) -> std::result::Result<(), CommitFailure> {
        match Self::make(&self.medium, &self.path, tables) {
            Ok(log) => *self = log,
            Err(CommitFailure::NothingApplied(error)) => {
                // Not before it has grown as much again.
                self.new = self.end;
                return Err(CommitFailure::NothingApplied(error));
            }
            Err(unknown) => return Err(unknown),
        }
        Ok(())
    }

    /// Marks all of the log as whole, so that a loss of its last part is noticed.
    pub(crate) fn rest(&mut self) -> Result<()> {
        let mark = Mark { turn: self.turn + 1, sound: self.end };
        let written = self.file.write(mark.place(), &mark.sector()).and_then(|()| self.file.sync());
        written.map_err(|error| Error::io("the log could not be marked", &self.path, error))?;
        self.turn = mark.turn;
        Ok(())
    }

    /// Reads all of the file again. What is damaged is an error.
    pub(crate) fn check(&self) -> Result<()> {
        let bytes =
            self.file.read().map_err(|error| Error::io("the log could not be read", &self.path, error))?;
        let extent = read(&bytes, &self.path, |_, _| ())?;
        if extent.end < self.end {
            return Err(corrupt(&self.path, "a line of the log is damaged").with("offset", extent.end));
        }
        Ok(())
    }

    /// Bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.end
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
