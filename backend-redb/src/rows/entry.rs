//! Entries.

use std::sync::Arc;

use turnkeep_core::model::{Entry, Reference, Visibility};
use turnkeep_core::{EntryNo, Payload, Result};

use super::maybe_number;
use crate::codec::{Fields, Key, Value};
use crate::tables;

pub(crate) fn entry_key(skey: u64, number: u32) -> Key {
    Key::new().u64(skey).u32(number)
}

pub(crate) fn write_entry(entry: &Entry) -> Value {
    let text = entry.text.as_ref().map_or(0, String::len);
    let ids = [
        entry.role.as_ref().map(AsRef::as_ref),
        entry.run.as_ref().map(AsRef::as_ref),
        entry.turn.as_ref().map(AsRef::as_ref),
        entry.key.as_ref().map(AsRef::as_ref),
    ];
    let mut value = Value::sized(160 + text + entry.payload.as_str().len())
        .u32(maybe_number(entry.parent))
        .flag(entry.on_path)
        .u8(visibility_byte(entry.visibility))
        .time(entry.at)
        .str(entry.kind.as_str());
    for id in ids {
        value = value.maybe_str(id);
    }
    value = value.u32(u32::try_from(entry.refs.len()).unwrap_or(u32::MAX));
    for reference in &entry.refs {
        value = value.str(reference.relation.as_str()).u32(reference.entry.get());
    }
    value.maybe_str(entry.text.as_deref()).str(entry.payload.as_str())
}

/// An entry of a stored row.
pub(crate) fn read_entry(key: &[u8], body: &[u8]) -> Result<Entry> {
    let mut place = Fields::of_key(tables::ENTRIES, key);
    place.u64()?;
    let number = EntryNo::new(place.u32()?).ok_or_else(|| place.damaged("number"))?;
    place.end()?;
    let mut fields = Fields::of_value(tables::ENTRIES, body)?;
    let parent = EntryNo::new(fields.u32()?);
    let on_path = fields.flag()?;
    let visibility = visibility(fields.u8()?).ok_or_else(|| fields.damaged("visibility"))?;
    let at = fields.time()?;
    let kind = fields.id()?;
    let (role, run, turn, key) =
        (fields.maybe_id()?, fields.maybe_id()?, fields.maybe_id()?, fields.maybe_id()?);
    let count = fields.u32()?;
    let mut refs = Vec::new();
    for _ in 0..count {
        let relation = fields.id()?;
        let entry = EntryNo::new(fields.u32()?).ok_or_else(|| fields.damaged("refs"))?;
        refs.push(Reference { relation, entry });
    }
    let text = fields.maybe_str()?.map(str::to_owned);
    let payload = Payload::from_stored(Arc::from(fields.str()?));
    fields.end()?;
    Ok(Entry { number, parent, on_path, kind, role, run, turn, key, visibility, at, refs, text, payload })
}

fn visibility_byte(visibility: Visibility) -> u8 {
    match visibility {
        Visibility::Conversation => 0,
        Visibility::Internal => 1,
        Visibility::Partial => 2,
    }
}

fn visibility(byte: u8) -> Option<Visibility> {
    match byte {
        0 => Some(Visibility::Conversation),
        1 => Some(Visibility::Internal),
        2 => Some(Visibility::Partial),
        _ => None,
    }
}
