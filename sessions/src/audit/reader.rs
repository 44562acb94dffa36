//! Reading the log back, whatever became of it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use turnkeep_core::error::{Error, ErrorKind, Result};

use super::AuditEvent;

/// The longest line that is taken for one.
const LONGEST: u64 = 64 * 1024;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditLine {
    /// Something that happened.
    Event(Box<AuditEvent>),
    /// A line that cannot be read: its write was cut off, or somebody else wrote it.
    Torn {
        /// Its number in its file, from 1.
        line: u64,
    },
}

/// The lines about a session, the oldest first. What cannot be read ends nothing: it comes as [`AuditLine::Torn`].
#[derive(Debug)]
pub struct AuditLines {
    files: std::vec::IntoIter<BufReader<File>>,
    file: Option<BufReader<File>>,
    line: u64,
}

impl AuditLines {
    pub(super) fn open(paths: Vec<PathBuf>) -> Result<Self> {
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            match File::open(&path) {
                Ok(file) => files.push(BufReader::new(file)),
                // Put aside just now, and then it is under its new name, or removed by a person.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(Error::new(ErrorKind::Io, "the audit log cannot be read")
                        .with("path", path.display())
                        .with_source(error));
                }
            }
        }
        let mut files = files.into_iter();
        let file = files.next();
        Ok(Self { files, file, line: 0 })
    }
}

impl Iterator for AuditLines {
    type Item = AuditLine;

    fn next(&mut self) -> Option<AuditLine> {
        loop {
            let mut bytes = Vec::new();
            let file = self.file.as_mut()?;
            let read = file.by_ref().take(LONGEST).read_until(b'\n', &mut bytes).unwrap_or(0);
            if read == 0 {
                self.file = self.files.next();
                self.line = 0;
                continue;
            }
            self.line += 1;
            let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return Some(match serde_json::from_slice::<AuditEvent>(line) {
                Ok(event) if !event.event.is_empty() => AuditLine::Event(Box::new(event)),
                _ => AuditLine::Torn { line: self.line },
            });
        }
    }
}
