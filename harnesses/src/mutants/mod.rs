//! The deliberate faults of our own code, and the clause that notices each: the suite, tested.
//!
//! A fault is a question in the code, `mutant::is("area/what-goes-wrong")`, answered `no` at compile time unless the
//! feature `mutants` is on: see `turnkeep_core::mutant`. This is the registry of them all. `tests/it/mutants.rs` runs
//! each clause on a store with its fault and looks that it fails with the words that are written here; `docs/mutants.md`
//! holds [`tables`].

mod commit;
mod committer;
mod content;
mod holding;
mod life;
mod memory;
mod redb;
mod sources;
mod sqlite;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use turnkeep_conformance::{Level, registry};

pub use sources::in_sources;

/// The store on which the clause meets the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// [`MemoryHarness`](crate::MemoryHarness): the quickest, for faults of the rules.
    Memory,
    /// [`NamedMemoryHarness`](crate::NamedMemoryHarness): where the store must be there again when it is reopened.
    NamedMemory,
    /// [`SqliteHarness`](crate::SqliteHarness).
    Sqlite,
    /// [`RedbHarness`](crate::RedbHarness).
    Redb,
}

impl On {
    /// As a person writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::NamedMemory => "memory, named",
            Self::Sqlite => "sqlite",
            Self::Redb => "redb",
        }
    }
}

/// One fault.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// `area/what-goes-wrong`, as the code asks for it.
    pub name: &'static str,
    /// What the program does wrong.
    pub does: &'static str,
    /// The store on which it is run.
    pub on: On,
    /// The clauses that must fail, each with a part of what it says.
    pub dies_by: &'static [(&'static str, &'static str)],
}

const fn mutant(
    name: &'static str,
    does: &'static str,
    on: On,
    dies_by: &'static [(&'static str, &'static str)],
) -> Mutant {
    Mutant { name, does, on, dies_by }
}

/// The areas, each with its faults.
pub const AREAS: &[(&str, &[Mutant])] = &[
    ("The rules: requests, fences, guards, what a commit may be", commit::MUTANTS),
    ("The rules: entries, paths, events", content::MUTANTS),
    ("The rules: leases, exclusive work, records", holding::MUTANTS),
    ("The rules: sessions, runs, forks, restoring, deleting", life::MUTANTS),
    ("The committer, locks and pages: `core/src/local`, `core/src/query`", committer::MUTANTS),
    ("Memory's own reads and writes", memory::MUTANTS),
    ("SQLite's own reads and writes", sqlite::MUTANTS),
    ("redb's own reads and writes", redb::MUTANTS),
];

/// MUST clauses that have no fault of the code, and why.
pub const BY_OTHER_MEANS: &[(&str, &str)] = &[];

/// Every fault.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    AREAS.iter().flat_map(|(_, mutants)| *mutants)
}

/// The tables of `docs/mutants.md`, each with the mark between which it stands there.
///
/// # Errors
/// When the sources below `root`, which tell where each fault is, cannot be read.
pub fn tables(root: &Path) -> io::Result<[(&'static str, String); 2]> {
    let places = in_sources(root)?;
    let kills = kill_table(|name| places.get(name).map_or("", String::as_str));
    Ok([("kill table", kills), ("clauses", by_clause())])
}

fn kill_table<'p>(place: impl Fn(&str) -> &'p str) -> String {
    let mut text = String::new();
    for (area, mutants) in AREAS {
        let _ = write!(
            text,
            "### {area}\n\n| mutant | in | what goes wrong | dies by | which says |\n|---|---|---|---|---|\n"
        );
        for Mutant { name, does, on, dies_by } in *mutants {
            for (at, (clause, says)) in dies_by.iter().enumerate() {
                if at == 0 {
                    let _ = write!(text, "| `{name}` | `{}` | {does} ", place(name));
                } else {
                    text.push_str("| | | ");
                }
                let _ = writeln!(text, "| {clause} on {} | {} |", on.as_str(), says.replace('|', "\\|"));
            }
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// Each clause with the faults that it notices.
fn by_clause() -> String {
    let mut killed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for mutant in all() {
        for (clause, _) in mutant.dies_by {
            killed.entry(clause).or_default().push(mutant.name);
        }
    }
    let mut text = String::from("| clause | level | kills |\n|---|---|---|\n");
    for clause in registry::all() {
        let names =
            killed.get(clause.id).map_or_else(String::new, |names| format!("`{}`", names.join("`, `")));
        let other = BY_OTHER_MEANS.iter().find(|(id, _)| *id == clause.id).map_or("", |(_, why)| *why);
        let gap = if names.is_empty() || other.is_empty() { "" } else { "; " };
        let level = if clause.level == Level::Must { "MUST" } else { "SHOULD" };
        let _ = writeln!(text, "| {} | {level} | {names}{gap}{other} |", clause.id);
    }
    text
}
