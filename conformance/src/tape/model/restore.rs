//! Sessions in the making: copied from another one, or restored entry by entry.

use turnkeep_core::ErrorKind;
use turnkeep_core::error::ForkReason;
use turnkeep_core::model::RunState;

use super::{Built, Check, Made, Run, Work, entries};
use crate::tape::ops::{Follows, Life, Line};

impl Work {
    /// Work that looks at entries and runs cannot share a commit with a copy from or into the session.
    pub(super) fn untouched_by_copies(&self, life: &Life) -> Check {
        if self.copied_from.contains(life) {
            return Err(ErrorKind::Invalid);
        }
        self.settled(life)
    }

    pub(super) fn settled(&self, life: &Life) -> Check {
        if self.copied_to.contains(life) { Err(ErrorKind::Invalid) } else { Ok(()) }
    }

    pub(super) fn copy(
        &mut self,
        from: &Life,
        to: &Life,
        after: Option<u32>,
        through: u32,
    ) -> Check<Made<u64>> {
        self.builder(to)?;
        let refused = |reason| Err(ErrorKind::ForkRefused(reason));
        let Some(source) = self.model.in_use(from).cloned() else {
            return refused(ForkReason::SourceNotFound);
        };
        if source.active_run().is_some() && after.is_none() {
            return refused(ForkReason::SourceActive);
        }
        if source.head().is_none_or(|head| through > head) {
            return refused(ForkReason::Unavailable);
        }
        let child = self.any(to)?;
        if child.head() != after {
            return Err(ErrorKind::StaleLeaf);
        }
        let fits = match (&child.built, after) {
            (Built::Nothing, None) => true,
            (Built::Copied(source, end), Some(after)) => source == from && *end == after,
            _ => false,
        };
        // A session that grows in this commit would be copied as it was before.
        if !fits || self.grown.contains(from) {
            return Err(ErrorKind::Invalid);
        }
        let first = after.unwrap_or(0);
        let slice = &source.entries[first as usize..through as usize];
        let child = self.change(to)?;
        child.entries.extend_from_slice(slice);
        child.run_head = child.run_head.max(source.run_head);
        for run in &source.runs {
            let named = slice.iter().any(|entry| entry.line.run.as_ref() == Some(&run.id));
            if named && child.runs.iter().all(|known| known.id != run.id) {
                child.runs.push(arriving(run));
            }
        }
        child.runs.sort_by_key(|run| run.number);
        child.built = Built::Copied(from.clone(), through);
        child.built_rows += u64::from(through - first);
        self.grown.insert(to.clone());
        self.copied_from.insert(from.clone());
        self.copied_to.insert(to.clone());
        Ok(Made::Plain)
    }

    pub(super) fn restore(&mut self, life: &Life, first: u32, lines: &[Line]) -> Check<Made<u64>> {
        self.builder(life)?;
        for (line, number) in lines.iter().zip(first..) {
            self.settled(life)?;
            let row = self.change(life)?;
            if row.head().unwrap_or(0) + 1 != number {
                return Err(ErrorKind::Invalid);
            }
            if line.key.as_ref().is_some_and(|key| row.keyed(key).is_some()) {
                return Err(ErrorKind::AlreadyExists);
            }
            let parent = match &line.follows {
                Follows::Entry(spot) => Some(entries::number(spot)),
                _ => None,
            };
            row.add(line, parent, line.refs.iter().map(entries::number).collect())?;
        }
        self.grown.insert(life.clone());
        let row = self.change(life)?;
        row.built = Built::Other;
        row.built_rows += lines.len() as u64;
        Ok(Made::Plain)
    }

    pub(super) fn seal(&mut self, life: &Life, leaf: Option<u32>, wrong: bool) -> Check<Made<u64>> {
        self.builder(life)?;
        if wrong {
            return Err(ErrorKind::Corrupt);
        }
        if let Some(leaf) = leaf {
            self.any(life)?.followable(leaf)?;
        }
        let row = self.change(life)?;
        row.leaf = leaf;
        row.restoring = false;
        Ok(Made::Plain)
    }
}

/// Whoever was at work on a run is not at work on its copy.
fn arriving(run: &Run) -> Run {
    let mut run = run.clone();
    if !run.state.is_terminal() {
        run.state = RunState::Interrupted;
        run.finished_at = Some(run.updated_at);
    }
    run
}
