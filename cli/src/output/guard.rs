//! A writer in front of a terminal.

use std::io::{self, Write};

use super::text;

/// Passes JSON lines on with every control character escaped. The value of each line stays the same.
///
/// Whole lines only, so that no character is torn between two writes.
#[derive(Debug)]
pub(crate) struct JsonGuard<W: Write> {
    inner: W,
    pending: Vec<u8>,
}

impl<W: Write> JsonGuard<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, pending: Vec::new() }
    }

    /// Passes on what is left, too.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.pending);
        self.pass(&rest)?;
        self.inner.flush()
    }

    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_all(text::json(&String::from_utf8_lossy(bytes)).as_bytes())
    }
}

impl<W: Write> Write for JsonGuard<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.pending.split_off(end + 1);
            let lines = std::mem::replace(&mut self.pending, rest);
            self.pass(&lines)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_characters_are_put_together_before_they_are_judged() {
        let mut out = Vec::new();
        let mut guard = JsonGuard::new(&mut out);
        for byte in "{\"a\":\"\u{9b}é\"}\n\"\u{7f}\"".as_bytes() {
            guard.write_all(&[*byte]).unwrap();
        }
        guard.finish().unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\"a\":\"\\u009bé\"}\n\"\\u007f\"");
    }
}
