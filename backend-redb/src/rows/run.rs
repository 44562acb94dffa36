//! Runs.

use turnkeep_core::Result;
use turnkeep_core::model::Run;

use super::{from_json, json};
use crate::codec::{Fields, Key, Value};
use crate::tables;

pub(crate) fn run_key(skey: u64, number: u32) -> Key {
    Key::new().u64(skey).u32(number)
}

pub(crate) fn write_run(run: &Run) -> Result<Value> {
    let json = json(run)?;
    Ok(Value::sized(json.len() + 4).str(&json))
}

pub(crate) fn read_run(body: &[u8]) -> Result<Run> {
    let mut fields = Fields::of_value(tables::RUNS, body)?;
    let run = from_json(tables::RUNS, fields.str()?)?;
    fields.end()?;
    Ok(run)
}
