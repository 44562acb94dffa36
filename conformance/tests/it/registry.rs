//! What holds of every clause.

use std::collections::HashSet;

use turnkeep_conformance::registry;

#[test]
fn ids_are_unique_well_formed_and_lead_the_test_names() {
    let (mut ids, mut names) = (HashSet::new(), HashSet::new());
    for clause in registry::all() {
        let (group, number) = clause.id.split_once('-').unwrap();
        assert!(
            (2..=3).contains(&group.len()) && group.bytes().all(|b| b.is_ascii_uppercase()),
            "{}",
            clause.id
        );
        assert!(number.len() == 3 && number.bytes().all(|b| b.is_ascii_digit()), "{}", clause.id);
        assert!(ids.insert(clause.id), "{} is there twice", clause.id);
        assert!(names.insert(clause.name), "{} is there twice", clause.name);
        let prefix = format!("{}_", clause.id.to_lowercase().replace('-', "_"));
        assert!(clause.name.starts_with(&prefix), "{} does not begin with {prefix}", clause.name);
        assert_eq!(registry::by_id(clause.id).unwrap().name, clause.name);
        assert_eq!(registry::by_name(clause.name).unwrap().id, clause.id);
    }
    assert!(registry::by_id("ORD-999").is_none());
}

#[test]
fn every_group_has_a_name() {
    for clause in registry::all() {
        assert!(
            registry::group_name(clause.group()).is_some(),
            "{}: name its group in registry::NAMES",
            clause.id
        );
    }
}

#[test]
fn every_clause_says_what_it_promises_why_and_what_it_catches() {
    for clause in registry::all() {
        assert!(
            clause.title.ends_with('.') && !clause.title.contains('\n'),
            "{}: {:?}",
            clause.id,
            clause.title
        );
        assert!(clause.why.ends_with(['.', '?']), "{}: {:?}", clause.id, clause.why);
        assert!(
            clause.catches.starts_with("a ") && !clause.catches.ends_with('.'),
            "{}: {:?}",
            clause.id,
            clause.catches
        );
        assert!(!clause.since.is_empty() && !clause.timeout.is_zero(), "{}", clause.id);
        for link in clause.links {
            assert!(link.contains('#'), "{}: {link} names no number", clause.id);
        }
    }
}

#[test]
fn cases_are_named_by_the_tests_that_cover_them() {
    for clause in registry::all() {
        let (claim, named) = match clause.name.split_once("_case_") {
            Some((claim, named)) => (claim, named.split("_case_").map(|n| format!("case-{n}")).collect()),
            None => (clause.name, Vec::new()),
        };
        assert_eq!(named, clause.cases, "{}: the test name and the list of cases differ", clause.id);
        assert!(!claim.contains("case_"), "{}", clause.name);
    }
    let covered: HashSet<_> = registry::all().flat_map(|clause| clause.cases).copied().collect();
    for case in ["01", "02", "04", "06", "16", "24", "25", "27", "28", "33", "43", "52", "63", "71"] {
        assert!(covered.contains(format!("case-{case}").as_str()), "no clause covers case-{case}");
    }
}

/// The first catalogue; what is left out needs power cuts, faults or a second backend.
#[test]
fn the_catalogue_is_complete() {
    const CATALOGUE: &[(&str, &[u32])] = &[
        ("ID", &[1, 2, 3, 4, 5, 6]),
        ("ORD", &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("RUN", &[1, 2, 3, 4, 5, 7, 8, 9, 10]),
        ("PAR", &[1, 2, 3, 4, 5, 6, 7]),
        ("REC", &[1, 2, 3, 4, 5, 6, 7]),
        ("ISO", &[1, 2, 3, 4, 5, 6]),
        ("CON", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ("IDM", &[1, 2, 3, 4, 5, 6]),
        ("PAG", &[1, 2, 3, 4, 5, 6]),
        ("FRK", &[1, 2, 3, 4, 5, 6, 7]),
        ("LIM", &[1, 2, 3, 4, 5, 6, 7]),
        ("DUR", &[1, 8]),
        ("MIG", &[1, 2, 3, 4, 5]),
        ("DEL", &[1, 2, 3, 4, 5]),
        ("RES", &[1, 2, 3, 4, 5, 6]),
        ("STA", &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("REK", &[1, 2, 3, 4]),
        ("LEA", &[1, 2, 3, 4, 5, 6]),
        ("BRA", &[1, 2, 3, 4]),
        ("RST", &[1, 2, 3, 4]),
        ("GRP", &[1]),
    ];
    for (group, numbers) in CATALOGUE {
        for number in *numbers {
            let id = format!("{group}-{number:03}");
            assert!(registry::by_id(&id).is_some(), "{id} is missing");
        }
    }
}
