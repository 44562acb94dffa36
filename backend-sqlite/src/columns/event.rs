//! Streams and events.

use turnkeep_core::Result;
use turnkeep_core::model::{Event, StreamRow};

use crate::columns::Fields;

/// The columns of a stream, as [`stream`] reads them.
pub(crate) const STREAM_COLUMNS: &str = "stkey, name, head, floor, closed, batch_first, batch_digest";

/// The columns of an event, as [`event`] reads them.
pub(crate) const EVENT_COLUMNS: &str = "number, kind, run, at, payload";

/// Reads the state of a stream, with its key.
pub(crate) fn stream(fields: &mut Fields<'_>) -> Result<(i64, StreamRow)> {
    let stkey = fields.int()?;
    let row = StreamRow {
        name: fields.id()?,
        head: fields.u64()?,
        floor: fields.u64()?,
        closed: fields.flag()?,
        batch_first: fields.u64()?,
        batch_digest: fields.bytes()?,
    };
    Ok((stkey, row))
}

/// Reads an event.
pub(crate) fn event(fields: &mut Fields<'_>) -> Result<Event> {
    Ok(Event {
        number: fields.u64()?,
        kind: fields.id()?,
        run: fields.maybe_id()?,
        at: fields.time()?,
        payload: fields.payload()?,
    })
}
