//! The end of a text that streams in, held back until nothing that follows can make a secret of it.

use super::Redaction;

/// What of a stream is not stored yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail(String);

impl Tail {
    /// What can be stored once `piece` has come, and the tail that is left then. Without a redactor everything.
    pub(crate) fn add(&self, redaction: Option<&Redaction>, piece: &str) -> (String, Self) {
        let Some(redaction) = redaction else { return (piece.to_owned(), Self::default()) };
        let mut text = format!("{}{piece}", self.0);
        let settled = redaction.redactor().settled(&text);
        let end = (0..=settled.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let rest = text.split_off(end);
        redaction.text(&mut text);
        (text, Self(rest))
    }

    /// All of it, when nothing follows any more.
    pub(crate) fn end(&self, redaction: Option<&Redaction>) -> Option<String> {
        let mut text = self.0.clone();
        if let Some(redaction) = redaction {
            redaction.text(&mut text);
        }
        Some(text).filter(|text| !text.is_empty())
    }
}
