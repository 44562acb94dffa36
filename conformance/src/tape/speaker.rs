//! One who says the words of a tape to a store, and remembers what came back.

use std::collections::BTreeMap;

use turnkeep_core::model::Version;
use turnkeep_core::{Commit, OwnerId};

use super::mind::{Answer, Handle, Mind};
use super::observe::Names;
use super::script::Change;
use super::translate::{Built, Translator};

/// What it takes to speak for a client, or for all of them when they know the same.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    pub(crate) names: Names,
    pub(crate) mind: Mind<Version>,
    owners: BTreeMap<Handle, OwnerId>,
    built: Built,
}

impl Speaker {
    pub(crate) fn new(names: Names) -> Self {
        Self { names, mind: Mind::default(), owners: BTreeMap::new(), built: Built::new() }
    }

    /// A handle was opened.
    pub(crate) fn knows(&mut self, handle: Handle, owner: OwnerId) {
        self.owners.insert(handle, owner);
        self.names.handles.insert(owner, handle);
    }

    /// What a client says, as a commit, and what its sender has sent once it landed.
    pub(crate) fn translate(&self, handle: Handle, change: &Change) -> (Commit, Built) {
        let mut translator = Translator {
            workspace: &crate::kit::name("w"),
            handle,
            mind: &self.mind,
            owners: &self.owners,
            built: self.built.clone(),
            clock: self.names.clock,
        };
        let commit = translator.commit(change);
        (commit, translator.built)
    }

    /// A commit landed; its sender knows, if there was an answer.
    pub(crate) fn landed(
        &mut self,
        handle: Handle,
        change: &Change,
        built: Built,
        answer: Option<&Answer<Version>>,
    ) {
        if answer.is_none_or(|answer| !answer.replayed) {
            self.built = built;
        }
        if let Some(answer) = answer {
            self.mind.learn(handle, change, answer);
        }
    }
}
