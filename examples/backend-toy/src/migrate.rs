//! Formats: which ones this version can use, and how an older one becomes today's.
//!
//! | format | lines |
//! |---|---|
//! | 1 | after the first line, one line per commit with a check sum over its content; no marks |
//! | 2 | today's, see `log` |

use std::path::Path;
use std::sync::Arc;

use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::local::CommitFailure;
use turnkeep_core::local::place::beside;
use turnkeep_core::rules::WriteSet;
use turnkeep_core::{Error, ErrorKind, Result};
use turnkeep_memory::Tables;

use crate::log::{Log, corrupt};
use crate::medium::Medium;

/// The format that this version writes.
pub(crate) const FORMAT: u32 = 2;

const NAME: &str = "turnkeep-toy log, format ";

/// What every format begins with, so that any version can tell whose a file is.
pub(crate) fn first_line() -> String {
    format!("{NAME}{FORMAT}")
}

/// The format that a file says it has.
fn format_of(bytes: &[u8], path: &Path) -> Result<u32> {
    let first = bytes.split(|byte| *byte == b'\n').next().and_then(|line| std::str::from_utf8(line).ok());
    let Some(rest) = first.and_then(|line| line.strip_prefix(NAME)) else {
        let message = "the file is no log of this backend, or is damaged; it was not touched";
        return Err(Error::new(ErrorKind::Corrupt, message).with("path", path.display()));
    };
    rest.trim_end().parse().map_err(|_| corrupt(path, "the first line of the log is damaged"))
}

/// Opens a log of any format that was ever written, upgraded if it is an old one.
pub(crate) fn open(medium: &Arc<dyn Medium>, path: &Path) -> Result<(Log, Tables)> {
    let file = medium.open(path).map_err(|error| Error::io("the log could not be opened", path, error))?;
    let bytes = file.read().map_err(|error| Error::io("the log could not be read", path, error))?;
    match format_of(&bytes, path)? {
        FORMAT => Log::open(medium, path),
        1 => {
            upgrade(medium, path, &bytes)?;
            Log::open(medium, path)
        }
        newer if newer > FORMAT => Err(Error::new(
            ErrorKind::NewerFormat,
            "the log was written by a newer version; it was not touched: upgrade this program",
        )
        .with("found", newer)
        .with("known", FORMAT)),
        _ => Err(corrupt(path, "the log has a format that never was")),
    }
}

/// Writes format 1 anew as today's. The old log keeps its name until the new one is whole and durable, so a kill at any
/// point leaves one of them. A copy of the old one stays beside it.
fn upgrade(medium: &Arc<dyn Medium>, path: &Path, bytes: &[u8]) -> Result<()> {
    let tables = read_format_1(bytes, path)?;
    let copy = beside(path, ".format-1");
    let kept = medium.create(&copy).and_then(|file| file.write(0, bytes).and_then(|()| file.sync()));
    kept.map_err(|error| Error::io("the log could not be copied", &copy, error))?;
    match Log::make(medium, path, &tables) {
        Ok(_) => Ok(()),
        Err(CommitFailure::NothingApplied(error) | CommitFailure::Unknown(error)) => Err(error),
    }
}

/// Format 1 cannot tell a torn tail from a damaged last line, but any other bad line is damage.
fn read_format_1(bytes: &[u8], path: &Path) -> Result<Tables> {
    let mut tables = Tables::default();
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').skip(1).peekable();
    while let Some(line) = lines.next() {
        match read_line_1(line) {
            Some((activity, set)) => drop(tables.apply(set, activity)),
            None if lines.peek().is_some() => return Err(corrupt(path, "a line of the log is damaged")),
            None => {}
        }
    }
    Ok(tables)
}

fn read_line_1(line: &[u8]) -> Option<(u64, WriteSet)> {
    let (check, content) = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let expected = FieldDigest::new("toy-line/1").text(content).finish();
    if to_hex(&expected) == check { read_content(content) } else { None }
}

/// What a line says, in every format so far: the activity number and the write set.
pub(crate) fn read_content(content: &str) -> Option<(u64, WriteSet)> {
    let (activity, set) = content.split_once(' ')?;
    Some((activity.parse().ok()?, serde_json::from_str(set).ok()?))
}
