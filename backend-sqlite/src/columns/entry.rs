//! Entries.

use turnkeep_core::id::{EntryKind, Role, TurnId};
use turnkeep_core::model::{Entry, Visibility};
use turnkeep_core::{EntryNo, Result, RunId};

use crate::columns::{Fields, Intern, number_of};

/// The columns of an entry, as [`EntryReader`] reads them.
pub(crate) const ENTRY_COLUMNS: &str =
    "rid, on_path, visibility, parent, kind, role, run, turn, key, at, refs, text, payload";

pub(crate) const fn visibility_name(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Conversation => "conversation",
        Visibility::Internal => "internal",
        Visibility::Partial => "partial",
    }
}

pub(crate) fn visibility_of(name: &str) -> Option<Visibility> {
    match name {
        "conversation" => Some(Visibility::Conversation),
        "internal" => Some(Visibility::Internal),
        "partial" => Some(Visibility::Partial),
        _ => None,
    }
}

/// Reads entries. Kinds, roles, runs and turns repeat from entry to entry; each is kept once.
pub(crate) struct EntryReader {
    kinds: Intern<EntryKind>,
    roles: Intern<Role>,
    runs: Intern<RunId>,
    turns: Intern<TurnId>,
}

impl EntryReader {
    pub(crate) fn new() -> Self {
        Self { kinds: Intern::new(), roles: Intern::new(), runs: Intern::new(), turns: Intern::new() }
    }

    pub(crate) fn read(&mut self, fields: &mut Fields<'_>) -> Result<Entry> {
        self.read_if(fields, |_, _| true)?.ok_or_else(|| fields.damaged())
    }

    /// Reads an entry, unless it lies off the path or is not to be seen. Its content is only copied if it fits.
    pub(crate) fn read_if(
        &mut self,
        fields: &mut Fields<'_>,
        fits: impl FnOnce(bool, Visibility) -> bool,
    ) -> Result<Option<Entry>> {
        let number = EntryNo::new(number_of(fields.int()?)).ok_or_else(|| fields.damaged())?;
        let on_path = fields.flag()?;
        let visibility = fields.named(visibility_of)?;
        if !fits(on_path, visibility) {
            return Ok(None);
        }
        Ok(Some(Entry {
            number,
            on_path,
            visibility,
            parent: fields.maybe_number()?,
            kind: fields.named(|text| self.kinds.get(text))?,
            role: fields.maybe_named(|text| self.roles.get(text))?,
            run: fields.maybe_named(|text| self.runs.get(text))?,
            turn: fields.maybe_named(|text| self.turns.get(text))?,
            key: fields.maybe_id()?,
            at: fields.time()?,
            refs: match fields.maybe_text()? {
                None => Vec::new(),
                Some(json) => serde_json::from_str(json).map_err(|_| fields.damaged())?,
            },
            text: fields.maybe_string()?,
            payload: fields.payload()?,
        }))
    }
}
