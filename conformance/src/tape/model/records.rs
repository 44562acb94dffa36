//! Records.

use turnkeep_core::ErrorKind;

use super::{Check, Doc, Made, Model, Work};
use crate::tape::ops::{Expected, Life};

/// The collections of a tape whose owned records need the lease of their session.
fn is_exclusive(collection: &str) -> bool {
    matches!(collection, "tool-claims" | "intents")
}

/// What a put says.
pub(super) struct NewDoc<'a> {
    pub(super) owner: &'a Option<Life>,
    pub(super) status: &'a Option<String>,
    pub(super) expect: Expected,
    pub(super) value: u32,
}

impl Model {
    /// A record as readers see it. Those of deleted sessions are removed with them.
    pub(crate) fn doc(&self, collection: &str, key: &str) -> Option<&Doc> {
        self.records.get(&(collection.to_owned(), key.to_owned()))
    }
}

impl Work {
    pub(super) fn put(&mut self, collection: &str, key: &str, new: &NewDoc<'_>) -> Check<Made<u64>> {
        if let Some(owner) = new.owner {
            self.active(owner)?;
            if is_exclusive(collection) {
                self.exclusive(owner)?;
            }
        }
        if !self.as_expected(collection, key, new.expect) {
            return Err(ErrorKind::VersionConflict);
        }
        let before = self.model.doc(collection, key).cloned();
        if is_exclusive(collection) && before.as_ref().is_some_and(|before| before.owner != *new.owner) {
            return Err(ErrorKind::Invalid);
        }
        let ordinal = match &before {
            Some(before) if before.owner == *new.owner => before.ordinal,
            _ => {
                let list = (collection.to_owned(), new.owner.clone());
                let last = self.model.ordinals.entry(list).or_default();
                *last += 1;
                *last
            }
        };
        for owner in before.iter().filter_map(|before| before.owner.as_ref()).chain(new.owner) {
            self.change(owner)?;
        }
        let now = self.model.now;
        self.model.versions += 1;
        let version = self.model.versions;
        let doc = Doc {
            owner: new.owner.clone(),
            status: new.status.clone(),
            ordinal,
            version,
            value: new.value,
            created_at: before.as_ref().map_or(now, |before| before.created_at),
            updated_at: before.as_ref().map_or(now, |before| before.updated_at.max(now)),
        };
        self.model.records.insert((collection.to_owned(), key.to_owned()), doc);
        Ok(Made::Record { version, ordinal })
    }

    pub(super) fn remove(
        &mut self,
        collection: &str,
        key: &str,
        owner: Option<&Life>,
        expect: Expected,
    ) -> Check<Made<u64>> {
        if !self.as_expected(collection, key, expect) {
            return Err(ErrorKind::VersionConflict);
        }
        let Some(before) = self.model.doc(collection, key).cloned() else { return Ok(Made::Plain) };
        if let Some(of) = &before.owner {
            if is_exclusive(collection) {
                if owner != Some(of) {
                    return Err(ErrorKind::VersionConflict);
                }
                self.exclusive(of)?;
            }
            self.change(of)?;
        }
        self.model.records.remove(&(collection.to_owned(), key.to_owned()));
        Ok(Made::Plain)
    }
}
