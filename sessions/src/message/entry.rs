//! Messages as entries, and back.

use turnkeep_core::commit::NewEntry;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::EntryKind;
use turnkeep_core::model::{Entry, entry_kind, role};
use turnkeep_core::mutant;
use turnkeep_core::payload::Payload;
use turnkeep_core::time::Timestamp;

use super::json::{self, Object};
use super::{Block, Message, known};

impl Message {
    /// The entry that keeps it: kind `message`, of the conversation, continuing the leaf.
    ///
    /// # Errors
    /// `TooLarge` when the message is over the limits of a payload. Nothing was written then.
    pub fn to_new_entry(&self, at: Timestamp) -> Result<NewEntry> {
        let payload = if self.checked { self.payload.clone() } else { Payload::new(self.payload.as_str())? };
        let text = self.text();
        let mut entry = NewEntry::new(EntryKind::new(entry_kind::MESSAGE)?, at, payload);
        entry.role = Some(self.role.clone());
        entry.text = (!text.is_empty()).then_some(text);
        Ok(entry)
    }

    /// The message that an entry holds.
    ///
    /// Messages are read as they are. A `custom_message` is a message of the host (`user`, if it names no role). A
    /// compaction or a branch summary becomes a `user` message of its summary.
    ///
    /// # Errors
    /// `Invalid` when the entry is of another kind, or its payload is no message.
    pub fn from_entry(entry: &Entry) -> Result<Self> {
        let read = match entry.kind.as_str() {
            entry_kind::MESSAGE => Self::read(entry.payload.clone(), entry.role.clone()),
            entry_kind::CUSTOM_MESSAGE => Self::read_custom(entry),
            entry_kind::COMPACTION | entry_kind::BRANCH_SUMMARY => Self::read_summary(entry),
            _ => Err(Error::new(ErrorKind::Invalid, "the entry is not a message").with("kind", &entry.kind)),
        };
        read.map_err(|error| error.with("entry", entry.number))
    }

    fn read_custom(entry: &Entry) -> Result<Self> {
        if let Some(text) = json::string(entry.payload.as_str()) {
            let role = entry.role.clone().unwrap_or_else(|| known(role::USER));
            return Ok(Self::new(role, vec![Block::text(text)]));
        }
        let fallback = entry.role.clone().unwrap_or_else(|| known(role::USER));
        Self::read(entry.payload.clone(), Some(fallback))
    }

    /// The `summary` of the payload, else the text of the entry.
    fn read_summary(entry: &Entry) -> Result<Self> {
        let summary = Object::parse(entry.payload.as_str()).and_then(|object| object.string("summary"));
        match summary.or_else(|| entry.text.clone()) {
            Some(summary) if mutant::is("messages/summaries-of-the-model") => Ok(Self::assistant(summary)),
            Some(summary) => Ok(Self::user(summary)),
            None => Err(Error::new(ErrorKind::Invalid, "the summary entry has no `summary`")),
        }
    }
}
