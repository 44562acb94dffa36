//! Streams and their events.

use std::sync::Arc;

use turnkeep_core::id::StreamName;
use turnkeep_core::model::{Event, StreamRow};
use turnkeep_core::{Payload, Result};

use crate::codec::{Fields, Key, Value};
use crate::tables;

pub(crate) fn stream_key(skey: u64, name: &str) -> Key {
    Key::new().u64(skey).tail(name)
}

pub(crate) fn write_stream(row: &StreamRow) -> Value {
    Value::new().u64(row.head).u64(row.floor).flag(row.closed).u64(row.batch_first).bytes(&row.batch_digest)
}

pub(crate) fn read_stream(key: &[u8], body: &[u8]) -> Result<StreamRow> {
    let mut place = Fields::of_key(tables::STREAMS, key);
    place.u64()?;
    let name = place.tail()?;
    let name = place.parse(name)?;
    let mut fields = Fields::of_value(tables::STREAMS, body)?;
    let row = StreamRow {
        name,
        head: fields.u64()?,
        floor: fields.u64()?,
        closed: fields.flag()?,
        batch_first: fields.u64()?,
        batch_digest: fields.bytes()?,
    };
    fields.end()?;
    Ok(row)
}

pub(crate) fn event_key(skey: u64, stream: &str, number: u64) -> Key {
    Key::new().u64(skey).text(stream).u64(number)
}

pub(crate) fn write_event(event: &Event) -> Value {
    Value::sized(64 + event.payload.as_str().len())
        .time(event.at)
        .str(event.kind.as_str())
        .maybe_str(event.run.as_ref().map(AsRef::as_ref))
        .str(event.payload.as_str())
}

/// An event of a stored row, and its stream.
pub(crate) fn read_event(key: &[u8], body: &[u8]) -> Result<(StreamName, Event)> {
    let mut place = Fields::of_key(tables::EVENTS, key);
    place.u64()?;
    let stream = place.text()?;
    let stream = place.parse(stream)?;
    let number = place.u64()?;
    place.end()?;
    let mut fields = Fields::of_value(tables::EVENTS, body)?;
    let at = fields.time()?;
    let kind = fields.id()?;
    let run = fields.maybe_id()?;
    let payload = Payload::from_stored(Arc::from(fields.str()?));
    fields.end()?;
    Ok((stream, Event { number, kind, run, at, payload }))
}
