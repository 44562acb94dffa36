//! A file line by line, in bounded memory, with a digest over its lines.

use std::io::{self, BufRead};

use sha2::{Digest, Sha256};

use super::report::DropReason;

/// A line of a file. Blank lines are passed over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Its number, from 1.
    pub(super) number: u64,
    /// Whether a line break ends it; only the last line of a file may have none.
    pub(super) ended: bool,
    /// Its text, or why there is none.
    pub(super) text: Result<&'a str, DropReason>,
}

/// Reads lines. A byte order mark at the beginning and a carriage return at the end of a line are not part of it.
pub(super) struct Lines<R> {
    input: R,
    /// The longest line that is kept, in bytes.
    longest: usize,
    number: u64,
    read: u64,
    line: Vec<u8>,
    digest: Sha256,
    /// Whether the line at hand is not in the digest yet.
    pending: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R, longest: usize) -> Self {
        Self { input, longest, number: 0, read: 0, line: Vec::new(), digest: Sha256::new(), pending: false }
    }

    /// Bytes read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.read
    }

    /// SHA-256 over all lines before the one at hand, each with a line feed; after the last line, over all.
    pub(super) fn digest(&self) -> [u8; 32] {
        self.digest.clone().finalize().into()
    }

    /// The next line that is not blank.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            if self.pending {
                self.digest.update(&self.line);
                self.digest.update(b"\n");
                self.pending = false;
            }
            let Some((ended, too_long)) = self.read_line()? else { return Ok(None) };
            if self.line.iter().all(u8::is_ascii_whitespace) && !too_long {
                continue;
            }
            self.pending = true;
            let text = if too_long {
                Err(DropReason::TooLong)
            } else {
                std::str::from_utf8(&self.line).map_err(|error| {
                    // A character that is cut in two at the very end was cut with the file.
                    if !ended && error.error_len().is_none() {
                        DropReason::CutOff
                    } else {
                        DropReason::NotUtf8
                    }
                })
            };
            return Ok(Some(Line { number: self.number, ended, text }));
        }
    }

    /// Reads to the next line break; what is too long goes to the digest at once and is forgotten.
    fn read_line(&mut self) -> io::Result<Option<(bool, bool)>> {
        self.line.clear();
        let mut any = false;
        let mut too_long = false;
        let ended = loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                break false;
            }
            any = true;
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
            self.line.extend_from_slice(piece);
            let used = piece.len() + usize::from(end.is_some());
            self.input.consume(used);
            self.read += used as u64;
            if self.line.len() > self.longest {
                too_long = true;
                self.digest.update(&self.line);
                self.line.clear();
            }
            if end.is_some() {
                break true;
            }
        };
        if !any {
            return Ok(None);
        }
        self.number += 1;
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
            self.line.drain(..3);
        }
        Ok(Some((ended, too_long)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number, whether a line break ends it, text.
    type Found = (u64, bool, Result<String, DropReason>);

    fn all(bytes: &[u8], longest: usize) -> (Vec<Found>, [u8; 32]) {
        // A tiny buffer, so that lines come in pieces.
        let mut lines = Lines::new(io::BufReader::with_capacity(3, bytes), longest);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push((line.number, line.ended, line.text.map(str::to_owned)));
        }
        assert_eq!(lines.bytes_read(), bytes.len() as u64);
        (found, lines.digest())
    }

    #[test]
    fn marks_returns_and_blank_lines_are_no_part_of_the_text() {
        let (plain, digest) = all(b"one\ntwo\n", 100);
        let (dressed, same) = all(b"\xef\xbb\xbfone\r\n\r\n  \ntwo\r\n", 100);
        assert_eq!(plain, [(1, true, Ok("one".into())), (2, true, Ok("two".into()))]);
        assert_eq!(dressed, [(1, true, Ok("one".into())), (4, true, Ok("two".into()))]);
        assert_eq!(digest, same);
        assert_eq!(digest, <[u8; 32]>::from(Sha256::digest(b"one\ntwo\n")));
    }

    #[test]
    fn what_cannot_be_read_is_named_and_the_next_line_is_read() {
        let (found, _) = all(b"\xff\xfe\nlonger than ten\nok\n\xe2\x82", 10);
        assert_eq!(
            found,
            [
                (1, true, Err(DropReason::NotUtf8)),
                (2, true, Err(DropReason::TooLong)),
                (3, true, Ok("ok".into())),
                (4, false, Err(DropReason::CutOff)),
            ]
        );
    }

    #[test]
    fn the_digest_tells_a_cut_line_from_a_whole_one() {
        assert_ne!(all(b"one\ntw", 100).1, all(b"one\ntwo", 100).1);
        assert_eq!(all(b"", 100), (Vec::new(), <[u8; 32]>::from(Sha256::digest(b""))));
    }
}
