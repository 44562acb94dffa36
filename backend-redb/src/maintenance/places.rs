//! What to call the place of a row, from its key alone: the value may be what is damaged.

use crate::codec::Fields;
use crate::read::head;
use crate::source::{Source, Span, Toward};
use crate::tables::{self, Table};

/// `entries: session talk, entry 5`, or as much of it as can be told.
pub(super) fn place_of(source: &dyn Source, table: Table, key: &[u8]) -> String {
    let place = place_below(source, table, key);
    format!("{}: {}", table.0, place.unwrap_or_else(|| hex(key)))
}

fn place_below(source: &dyn Source, table: Table, key: &[u8]) -> Option<String> {
    let mut fields = Fields::of_key(table, key);
    let place = match table {
        tables::WORKSPACES => format!("workspace {}", fields.tail().ok()?),
        tables::SESSIONS | tables::PROFILES | tables::TOMBSTONES => session(source, fields.u64().ok()?),
        tables::ENTRIES | tables::SEGMENTS => {
            format!("{}, entry {}", session(source, fields.u64().ok()?), fields.u32().ok()?)
        }
        tables::RUNS => format!("{}, run number {}", session(source, fields.u64().ok()?), fields.u32().ok()?),
        tables::STREAMS => format!("{}, stream {}", session(source, fields.u64().ok()?), fields.tail().ok()?),
        tables::EVENTS => {
            let session = session(source, fields.u64().ok()?);
            format!("{session}, stream {}, event {}", fields.text().ok()?, fields.u64().ok()?)
        }
        tables::RECORDS => {
            fields.u64().ok()?;
            format!("record {} {}", fields.text().ok()?, fields.tail().ok()?)
        }
        tables::ENTRY_KEYS | tables::ENTRY_KINDS | tables::RUN_IDS | tables::RUN_INTENTS => {
            session(source, fields.u64().ok()?)
        }
        _ => return None,
    };
    Some(place)
}

/// The session with a key; where its own row is damaged, by the index of ids.
fn session(source: &dyn Source, skey: u64) -> String {
    if let Ok(Some(head)) = head(source, skey) {
        return format!("session {}", head.id);
    }
    let mut found = None;
    let searched = source.scan(tables::SESSION_IDS, &Span::all(), Toward::Higher, &mut |key, body| {
        if crate::rows::read_number(tables::SESSION_IDS, body)? == skey {
            let mut fields = Fields::of_key(tables::SESSION_IDS, key);
            fields.u64()?;
            found = Some(format!("session {}", fields.tail()?));
        }
        Ok(found.is_none())
    });
    match (searched, found) {
        (Ok(_), Some(found)) => found,
        _ => format!("session key {skey}"),
    }
}

fn hex(key: &[u8]) -> String {
    key.iter().fold(String::from("key "), |text, byte| format!("{text}{byte:02x}"))
}

/// A row that is what was written: its check sum fits.
pub(super) fn is_whole(table: Table, key: &[u8], stored: &[u8]) -> bool {
    crate::codec::unseal(table, key, stored).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Key;

    #[test]
    fn a_key_that_says_nothing_is_shown_as_it_is() {
        assert_eq!(hex(Key::new().u32(0x01ff).as_bytes()), "key 000001ff");
    }
}
