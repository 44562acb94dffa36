//! Every deliberate fault of our code is noticed by the clause that promises its absence, and by nothing when it is not
//! committed.

mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

use turnkeep_conformance::{Kind, Level, registry};
use turnkeep_harnesses::mutants::{self, BY_OTHER_MEANS, Mutant, On};

use process::{Ended, clause_on};

/// How often a clause that depends on timing may look.
const CHANCES: usize = 4;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Does something for each item, a few at a time, and collects what was wrong.
fn each<T: Sync>(items: &[T], check: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let (next, wrong) = (Mutex::new(items.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, |threads| threads.get().min(8)) {
            scope.spawn(|| {
                loop {
                    let Some(item) = next.lock().unwrap().next() else { return };
                    if let Some(found) = check(item) {
                        wrong.lock().unwrap().push(found);
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

#[test]
fn every_mutant_dies_by_its_clauses_with_the_words_expected() {
    let deaths: Vec<(&Mutant, &str, &str)> = mutants::all()
        .flat_map(|mutant| mutant.dies_by.iter().map(move |(clause, says)| (mutant, *clause, *says)))
        .collect();
    let wrong = each(&deaths, |(mutant, clause, says)| {
        let mut ended = clause_on(clause, mutant.on, Some(mutant.name));
        // What depends on timing may meet a fault elsewhere, and so say something else, or miss it once.
        let by_chance = registry::by_id(clause).is_some_and(|clause| clause.kind == Kind::Stochastic);
        for _ in 1..if by_chance { CHANCES } else { 1 } {
            if !matches!(ended, Ended::Failed(_)) {
                ended = clause_on(clause, mutant.on, Some(mutant.name));
            }
        }
        let as_expected = matches!(&ended, Ended::Failed(said) if by_chance || said.contains(says));
        (!as_expected)
            .then(|| format!("{} by {clause} on {:?}, saying {says:?}: {ended}", mutant.name, mutant.on))
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn without_a_fault_the_same_clauses_pass() {
    let asked: BTreeSet<(&str, &str)> = mutants::all()
        .flat_map(|mutant| mutant.dies_by.iter().map(|(clause, _)| (*clause, mutant.on.as_str())))
        .collect();
    let on =
        |name| [On::Memory, On::NamedMemory, On::Sqlite, On::Redb].into_iter().find(|on| on.as_str() == name);
    let asked: Vec<_> = asked.into_iter().map(|(clause, name)| (clause, on(name).unwrap())).collect();
    let wrong = each(&asked, |(clause, on)| match clause_on(clause, *on, None) {
        Ended::Well => None,
        ended => Some(format!("{clause} on {on:?} without a fault: {ended}")),
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A fault that the registry does not know is never run, and one that the code does not have would break nothing.
#[test]
fn the_registry_holds_exactly_the_faults_of_the_code() {
    let registered: BTreeSet<String> = mutants::all().map(|mutant| mutant.name.to_owned()).collect();
    assert_eq!(registered.len(), mutants::all().count(), "a name is there twice");
    let coded: BTreeSet<String> = mutants::in_sources(root()).unwrap().into_keys().collect();
    let breaks = breaks();
    let unknown: Vec<_> = coded
        .difference(&registered)
        .filter(|name| !breaks.iter().any(|list| list.contains(&format!("\"{name}\""))))
        .collect();
    assert!(
        unknown.is_empty(),
        "in the code, in harnesses/src/mutants not, and in no breaks.rs: {unknown:?}"
    );
    let missing: Vec<_> = registered.difference(&coded).collect();
    assert!(missing.is_empty(), "in harnesses/src/mutants and not in the code: {missing:?}");
}

/// The lists of faults that a test of a crate notices, and no clause: what the row of a capability hangs on.
fn breaks() -> Vec<String> {
    let lists =
        std::fs::read_dir(root()).unwrap().map(|folder| folder.unwrap().path().join("tests/it/breaks.rs"));
    lists.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

#[test]
fn every_must_clause_kills_a_mutant() {
    let mut kills: BTreeMap<&str, usize> = BTreeMap::new();
    for (clause, _) in mutants::all().flat_map(|mutant| mutant.dies_by) {
        *kills.entry(clause).or_default() += 1;
    }
    let unknown: Vec<_> = kills.keys().filter(|id| registry::by_id(id).is_none()).collect();
    assert!(unknown.is_empty(), "no such clauses: {unknown:?}");
    let other: BTreeSet<&str> = BY_OTHER_MEANS.iter().map(|(id, _)| *id).collect();
    let idle: Vec<_> = registry::all()
        .filter(|clause| clause.level == Level::Must)
        .map(|clause| clause.id)
        .filter(|id| !kills.contains_key(id) && !other.contains(id))
        .collect();
    assert!(idle.is_empty(), "MUST clauses that kill no mutant: {idle:?}");
    let needless: Vec<_> = other.iter().filter(|id| kills.contains_key(*id)).collect();
    assert!(needless.is_empty(), "listed as out of reach, but they kill: {needless:?}");
}

#[test]
fn the_kill_table_in_the_documentation_is_that_of_the_registry() {
    let written = std::fs::read_to_string(root().join("docs/mutants.md")).unwrap();
    for (mark, table) in mutants::tables(root()).unwrap() {
        assert!(
            written.contains(&table),
            "the table {mark:?} of docs/mutants.md is old; write it anew: cargo run -q -p turnkeep-harnesses \
             --features mutants --example mutants"
        );
    }
}
