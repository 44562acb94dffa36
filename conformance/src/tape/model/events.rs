//! Streams.

use turnkeep_core::ErrorKind;

use super::{Check, Made, Work};
use crate::tape::ops::Life;

/// The streams of a tape that only the holder of the session's lease may write.
fn is_exclusive(stream: &str) -> bool {
    stream == "runs" || stream.starts_with("partial/")
}

impl Work {
    fn admit(&mut self, life: &Life, stream: &str) -> Check {
        if is_exclusive(stream) { self.exclusive(life) } else { self.active(life).map(|_| ()) }
    }

    pub(super) fn events(
        &mut self,
        life: &Life,
        stream: &str,
        next: Option<u64>,
        values: &[u32],
    ) -> Check<Made<u64>> {
        self.admit(life, stream)?;
        let known = self.active(life)?.streams.get(stream).cloned().unwrap_or_default();
        let (first, count) = (known.values.len() as u64 + 1, values.len() as u64);
        if let Some(expected) = next.filter(|expected| *expected != first) {
            let repeated = known.batch.as_ref() == Some(&(expected, values.to_vec()));
            if repeated && expected + count == first {
                return Ok(Made::Events { first: expected, last: expected + count - 1 });
            }
            return Err(ErrorKind::VersionConflict);
        }
        if known.closed {
            return Err(ErrorKind::TurnNotOpen);
        }
        let stream = self.change(life)?.streams.entry(stream.to_owned()).or_default();
        stream.values.extend(values);
        stream.batch = next.map(|expected| (expected, values.to_vec()));
        Ok(Made::Events { first, last: first + count - 1 })
    }

    pub(super) fn drop_events(
        &mut self,
        life: &Life,
        stream: &str,
        through: Option<u64>,
        close: bool,
    ) -> Check<Made<u64>> {
        self.admit(life, stream)?;
        let known = self.active(life)?.streams.get(stream).cloned().unwrap_or_default();
        let head = known.values.len() as u64;
        let floor = known.floor.max(through.unwrap_or(head).min(head));
        let closed = known.closed || close;
        if floor != known.floor || closed != known.closed {
            let stream = self.change(life)?.streams.entry(stream.to_owned()).or_default();
            stream.floor = floor;
            stream.closed = closed;
        }
        Ok(Made::Plain)
    }
}
