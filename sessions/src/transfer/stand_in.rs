//! What stands in for rows that are lost, so that all others keep their numbers.

use turnkeep_core::id::{EntryKind, EntryNo, EventKind, StreamName};
use turnkeep_core::model::{Entry, Event, StreamRow, Visibility};
use turnkeep_core::payload::Payload;
use turnkeep_core::time::Timestamp;

/// Their kind.
const LOST: &str = "lost";

/// An entry after `head`. It lies on the path, so that entries which follow the lost one still lead to the root.
pub(super) fn entry(head: u32, tip: Option<EntryNo>, at: Timestamp) -> Option<Entry> {
    Some(Entry {
        number: EntryNo::new(head.checked_add(1)?)?,
        parent: tip,
        on_path: true,
        kind: EntryKind::new(LOST).ok()?,
        role: None,
        run: None,
        turn: None,
        key: None,
        visibility: Visibility::Internal,
        at,
        refs: Vec::new(),
        text: None,
        payload: Payload::empty(),
    })
}

/// An event.
pub(super) fn event(number: u64, at: Timestamp) -> Option<Event> {
    Some(Event { number, kind: EventKind::new(LOST).ok()?, run: None, at, payload: Payload::empty() })
}

/// A stream whose own row is lost: what is left of it begins after `floor`.
pub(super) fn stream(name: StreamName, floor: u64) -> StreamRow {
    StreamRow { name, head: floor, floor, closed: false, batch_first: 0, batch_digest: [0; 32] }
}
