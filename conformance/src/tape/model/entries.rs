//! Entries and the leaf.

use turnkeep_core::ErrorKind;

use super::{Check, Entry, Made, Session, Work};
use crate::tape::mind::NOWHERE;
use crate::tape::ops::{Follows, Life, Line, Spot};

impl Work {
    pub(super) fn append(&mut self, life: &Life, lines: &[Line]) -> Check<Made<u64>> {
        self.exclusive(life)?;
        self.untouched_by_copies(life)?;
        let mut numbers: Vec<u32> = Vec::new();
        for line in lines {
            let row = self.active(life)?;
            let taken = line.key.as_ref().and_then(|key| row.keyed(key));
            if let Some(taken) = taken {
                if !line.skip {
                    return Err(ErrorKind::AlreadyExists);
                }
                numbers.push(taken);
                continue;
            }
            let parent = match &line.follows {
                Follows::Leaf => row.leaf,
                Follows::Root => None,
                Follows::Entry(spot) => Some(number(spot)),
                Follows::Place(place) => Some(numbers[*place]),
            };
            let refs = line.refs.iter().map(number).collect();
            let row = self.change(life)?;
            let new = row.add(line, parent, refs)?;
            if line.sort.on_path() {
                row.leaf = Some(new);
            }
            numbers.push(new);
            self.grown.insert(life.clone());
        }
        Ok(Made::Entries(numbers))
    }

    pub(super) fn move_leaf(&mut self, life: &Life, to: Option<&Spot>) -> Check<Made<u64>> {
        self.exclusive(life)?;
        self.untouched_by_copies(life)?;
        let to = to.map(number);
        if let Some(to) = to {
            self.active(life)?.followable(to)?;
        }
        self.change(life)?.leaf = to;
        Ok(Made::Plain)
    }
}

impl Session {
    /// Adds an entry at the end and gives its number.
    pub(super) fn add(&mut self, line: &Line, parent: Option<u32>, refs: Vec<u32>) -> Check<u32> {
        if refs.iter().any(|target| self.entry(*target).is_none()) {
            return Err(ErrorKind::NotFound);
        }
        if let Some(parent) = parent {
            self.followable(parent)?;
        }
        self.entries.push(Entry { line: line.clone(), parent, refs });
        Ok(self.head().unwrap_or(NOWHERE))
    }

    /// Only an entry of the conversation can be followed or be the leaf.
    pub(super) fn followable(&self, number: u32) -> Check {
        match self.entry(number) {
            None => Err(ErrorKind::NotFound),
            Some(entry) if entry.line.sort.on_path() => Ok(()),
            Some(_) => Err(ErrorKind::Invalid),
        }
    }
}

/// The number of a resolved spot.
pub(super) fn number(spot: &Spot) -> u32 {
    match spot {
        Spot::No(number) => *number,
        Spot::Of(_) => NOWHERE,
    }
}
