//! Making, changing and removing sessions.

use std::collections::BTreeMap;

use turnkeep_core::ErrorKind;

use super::{Built, Check, Made, Session, Work};
use crate::tape::ops::{Hold, Life};

impl Work {
    pub(super) fn create(
        &mut self,
        life: &Life,
        restoring: bool,
        title: Option<&String>,
    ) -> Check<Made<u64>> {
        if self.model.sessions.contains_key(life.id()) {
            return Err(ErrorKind::AlreadyExists);
        }
        let row = Session {
            life: life.clone(),
            restoring,
            revision: 1,
            activity: self.model.activity,
            created_at: self.model.now,
            updated_at: self.model.now,
            title: title.cloned(),
            pinned: false,
            archived: false,
            entries: Vec::new(),
            leaf: None,
            runs: Vec::new(),
            run_head: 0,
            tokens: 0,
            streams: BTreeMap::new(),
            lease: None,
            built: Built::Nothing,
            built_rows: 0,
        };
        self.model.sessions.insert(life.id().to_owned(), row);
        self.made.insert(life.clone());
        self.moved.insert(life.clone());
        Ok(Made::Plain)
    }

    pub(super) fn patch(
        &mut self,
        life: &Life,
        title: Option<&String>,
        pinned: Option<bool>,
        archived: Option<bool>,
    ) -> Check<Made<u64>> {
        self.active(life)?;
        let row = self.change(life)?;
        if let Some(title) = title {
            row.title = Some(title.clone());
        }
        row.pinned = pinned.unwrap_or(row.pinned);
        row.archived = archived.unwrap_or(row.archived);
        Ok(Made::Plain)
    }

    pub(super) fn delete(&mut self, life: &Life, force: bool) -> Check<Made<u64>> {
        let restoring = self.any(life)?.restoring;
        if self.made.contains(life) || self.copied_from.contains(life) {
            return Err(ErrorKind::Invalid);
        }
        if !force {
            if restoring {
                self.builder(life)?;
            } else {
                self.exclusive(life)?;
            }
            let fenced = self.held.contains(&Hold::Session(life.clone()));
            if !fenced && self.any(life)?.active_run().is_some() {
                return Err(ErrorKind::ActiveRun);
            }
        }
        let model = &mut self.model;
        model.sessions.remove(life.id());
        model.records.retain(|_, doc| doc.owner.as_ref() != Some(life));
        model.ordinals.retain(|(_, owner), _| owner.as_ref() != Some(life));
        model.requests.retain(|(within, _), _| within.as_ref() != Some(life));
        self.held.remove(&Hold::Session(life.clone()));
        Ok(Made::Plain)
    }
}
