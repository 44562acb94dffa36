//! Text as it streams in: kept so far, shown if it is never finished, never replayed.

use serde::{Deserialize, Serialize};
use turnkeep_core::Payload;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{SessionRef, StreamName, TurnId};
use turnkeep_core::model::{Event, stream};
use turnkeep_core::query::EventQuery;

use crate::base::Base;

/// The kind of the events that hold a piece of text.
pub(crate) const PIECE: &str = "text";

/// How much of an unfinished text is kept for display, in bytes, if the store takes so much.
const SHOWN_BYTES: usize = 1024 * 1024;
/// Bytes of JSON that one byte of text may need, with room for the rest of a message.
const ESCAPED: usize = 8;

#[derive(Serialize, Deserialize)]
struct Piece {
    text: String,
}

/// The stream of a turn.
pub(crate) fn stream_of(turn: &TurnId) -> Result<StreamName> {
    StreamName::new(format!("{}{turn}", stream::PARTIAL_PREFIX))
}

pub(crate) fn piece(text: &str) -> Result<Payload> {
    Payload::from_value(&Piece { text: text.to_owned() })
}

/// How much of an unfinished text is kept for display in this store.
fn most(base: &Base) -> usize {
    SHOWN_BYTES.min(base.store().info().limits.payload_bytes / ESCAPED)
}

/// The text so far; `None` if nothing was streamed.
pub(crate) async fn read(base: &Base, session: &SessionRef, turn: &TurnId) -> Result<Option<String>> {
    let most = most(base);
    let Ok(name) = stream_of(turn) else { return Ok(None) };
    let mut query = EventQuery::new(base.workspace().clone(), session.clone(), name);
    query.limit = 1000;
    let mut text: Option<String> = None;
    loop {
        let page = base.store().events(&query).await?;
        for event in &page.items {
            let so_far = text.get_or_insert_default();
            if let Some(text) = text_of(event) {
                so_far.push_str(beginning(&text, most.saturating_sub(so_far.len())));
            }
        }
        match page.next {
            Some(next) if text.as_ref().is_none_or(|text| text.len() < most) => {
                query.cursor = Some(next);
            }
            _ => return Ok(text),
        }
    }
}

/// A text with the end that was held back from the store.
pub(crate) fn with_tail(base: &Base, text: Option<String>, tail: Option<String>) -> Option<String> {
    let Some(tail) = tail else { return text };
    let mut text = text.unwrap_or_default();
    text.push_str(beginning(&tail, most(base).saturating_sub(text.len())));
    Some(text)
}

/// The text of a piece. A host may keep other events in the stream; they are no text to show.
pub(crate) fn text_of(event: &Event) -> Option<String> {
    if event.kind.as_str() != PIECE {
        return None;
    }
    event.payload.parse::<Piece>().ok().map(|piece| piece.text)
}

/// At most `bytes` of a text, whole characters only.
pub(crate) fn beginning(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// A piece that cannot be told apart from none.
pub(crate) fn refuse_empty(text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "an empty piece of text cannot be streamed"));
    }
    Ok(())
}
