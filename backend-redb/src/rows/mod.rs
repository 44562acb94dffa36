//! Rows as bytes and back. The README of this crate tells how they are written.

mod entry;
mod event;
mod ledger;
mod run;
mod session;

pub(crate) use entry::{entry_key, read_entry, write_entry};
pub(crate) use event::{event_key, read_event, read_stream, stream_key, write_event, write_stream};
pub(crate) use ledger::{
    RecordPlaces, StoredRecord, lease_key, read_lease, read_record, read_request, record_key, request_key,
    request_places, write_lease, write_record, write_request,
};
pub(crate) use run::{read_run, run_key, write_run};
pub(crate) use session::{Head, read_head, read_profile, session_key, write_head, write_profile};

use serde::Serialize;
use serde::de::DeserializeOwned;
use turnkeep_core::{EntryNo, Error, ErrorKind, Result};

use crate::codec::{Fields, Value};
use crate::tables::Table;

/// The number of an entry where there may be none.
fn maybe_number(number: Option<EntryNo>) -> u32 {
    number.map_or(0, EntryNo::get)
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| {
        Error::new(ErrorKind::Invalid, "a value cannot be written as JSON").with_source(error)
    })
}

fn from_json<T: DeserializeOwned>(table: Table, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| crate::error::damaged(table, "json").with_source(error))
}

/// A value that is one number.
pub(crate) fn number_value(number: u64) -> Value {
    Value::new().u64(number)
}

pub(crate) fn read_number(table: Table, body: &[u8]) -> Result<u64> {
    let mut fields = Fields::of_value(table, body)?;
    let number = fields.u64()?;
    fields.end()?;
    Ok(number)
}

/// The value of a row whose key says everything.
pub(crate) fn nothing() -> Value {
    Value::sized(0)
}
