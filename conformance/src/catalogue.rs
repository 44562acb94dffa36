//! A clause as a report holds it, and the digest of all of them.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use turnkeep_core::Durability;
use turnkeep_core::digest::FieldDigest;

use crate::clause::{Clause, Kind, Level, Need};
use crate::registry;

/// What a clause says of itself, so that a report can be read without the suite that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// `GROUP-NNN`.
    pub id: String,
    /// The promise in one sentence.
    pub title: String,
    /// How binding it is.
    pub level: Level,
    /// Whether one run decides.
    pub kind: Kind,
    /// What it needs.
    pub needs: Vec<Need>,
    /// The least durability class it applies to.
    pub durability: Durability,
    /// The version of the specification it came with.
    pub since: String,
    /// Why it matters.
    pub why: String,
    /// Public reports of this going wrong elsewhere, as `owner/repository#number`.
    pub links: Vec<String>,
    /// The broken backend that it catches.
    pub catches: String,
    /// The reported cases that it covers.
    pub cases: Vec<String>,
}

impl Promise {
    /// The group: the part of the id before the number.
    #[must_use]
    pub fn group(&self) -> &str {
        self.id.split('-').next().unwrap_or(&self.id)
    }
}

impl From<&Clause> for Promise {
    fn from(clause: &Clause) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            id: clause.id.to_owned(),
            title: clause.title.to_owned(),
            level: clause.level,
            kind: clause.kind,
            needs: clause.needs.to_vec(),
            durability: clause.durability,
            since: clause.since.to_owned(),
            why: clause.why.to_owned(),
            links: owned(clause.links),
            catches: clause.catches.to_owned(),
            cases: owned(clause.cases),
        }
    }
}

/// The digest of a list of promises: ids, sentences, levels, kinds, needs and durability classes, in order. Two reports
/// with the same digest were asked the same questions.
#[must_use]
pub fn catalogue<'a>(promises: impl IntoIterator<Item = &'a Promise>) -> String {
    let mut digest = FieldDigest::new("turnkeep-catalogue/1");
    for promise in promises {
        digest = digest
            .text(&promise.id)
            .text(&promise.title)
            .text(promise.level.as_str())
            .text(promise.kind.as_str())
            .number(promise.needs.len() as u64);
        for need in &promise.needs {
            digest = digest.text(need.as_str());
        }
        digest = digest.text(&format!("{:?}", promise.durability));
    }
    hex(&digest.finish())
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The promises of this suite.
pub(crate) fn current() -> Vec<Promise> {
    registry::all().map(Promise::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_moves_with_every_part_that_binds() {
        let all = current();
        let whole = catalogue(&all);
        assert_eq!(whole.len(), 64);
        let changed: [fn(&mut Promise); 6] = [
            |promise| promise.id.push('0'),
            |promise| promise.title.push('!'),
            |promise| promise.level = Level::Should,
            |promise| promise.kind = Kind::Stochastic,
            |promise| promise.needs.push(Need::Search),
            |promise| promise.durability = Durability::D3,
        ];
        for change in changed {
            let mut other = all.clone();
            change(&mut other[0]);
            assert_ne!(catalogue(&other), whole);
        }
        assert_ne!(catalogue(&all[1..]), whole);
        let mut other = all.clone();
        other.swap(0, 1);
        assert_ne!(catalogue(&other), whole);
    }

    #[test]
    fn the_digest_leaves_explanations_alone() {
        let all = current();
        let mut other = all.clone();
        other[0].why.push_str(" Better said.");
        assert_eq!(catalogue(&other), catalogue(&all));
    }
}
