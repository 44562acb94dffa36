//! Every test and every break that `docs/parity.md` names exists, every row names a test, every capability a break, and a
//! test for a case carries the case's name.

use std::collections::BTreeSet;

use super::Report;
use crate::project::Project;

const MAP: &str = "docs/parity.md";
/// A row of a table that maps something to tests: its first cell is an id in bold.
const ROW: &str = "| **";
/// How the ids of cases begin; every other row is a capability.
const CASE: &str = "case-";

pub(super) fn check(project: &Project) -> Report {
    let mut report = Report::default();
    let Some(map) = report.take(project.read(MAP)) else { return report };
    let (mut names, mut quoted) = (BTreeSet::new(), BTreeSet::new());
    for file in project.rust_files() {
        if let Some(source) = report.take(project.read(file)) {
            names.extend(words(&source).map(str::to_owned));
            quoted.extend(source.split('"').filter(|text| text.contains('/')).map(str::to_owned));
        }
    }
    for Row { id, tests, breaks } in map.lines().filter_map(row) {
        if tests.is_empty() {
            report.fail(format!(
                "{MAP}: {id} names no test; write its test's name in backticks, or take the row out"
            ));
        }
        if breaks.is_empty() && !id.starts_with(CASE) {
            report.fail(format!(
                "{MAP}: {id} names no break; write down a fault of the code that makes a test of the row fail"
            ));
        }
        for name in breaks {
            if !quoted.contains(name) {
                report.fail(format!("{MAP}: {id} names the break `{name}`, which the code does not ask for"));
            }
        }
        for test in tests {
            if !names.contains(test) {
                report.fail(format!(
                    "{MAP}: {id} names `{test}`, which is no test; correct the name or write the test"
                ));
            }
            if let Some(case) = id.strip_prefix(CASE)
                && !test.contains(&format!("case_{case}"))
            {
                report.fail(format!("{MAP}: `{test}` must have case_{case} in its name"));
            }
        }
    }
    report
}

/// A row of the map: what is proved, by which tests, and which breaks of the code they notice.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    id: &'a str,
    tests: Vec<&'a str>,
    breaks: Vec<&'a str>,
}

/// Names in backticks are tests; one with a slash is a break.
fn row(line: &str) -> Option<Row<'_>> {
    let (id, rest) = line.strip_prefix(ROW)?.split_once("**")?;
    // What the row is about stands in the cells before, in words.
    let cells = rest.trim_start().trim_start_matches('|');
    let cells = cells.split_once('|').filter(|(_, rest)| rest.contains('|')).map_or(cells, |(_, rest)| rest);
    let (breaks, tests) = cells.split('`').skip(1).step_by(2).partition(|name| name.contains('/'));
    Some(Row { id, tests, breaks })
}

/// Everything in a source text that could be the name of a function.
fn words(source: &str) -> impl Iterator<Item = &str> {
    source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.contains('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_its_id_its_tests_and_its_breaks() {
        let found = row("| **A1** | `not this` | `one_test`, `two_tests` | `area/what` |").unwrap();
        assert_eq!(found, Row { id: "A1", tests: vec!["one_test", "two_tests"], breaks: vec!["area/what"] });
        let found = row("| **A2** | nothing | |").unwrap();
        assert_eq!(found, Row { id: "A2", tests: vec![], breaks: vec![] });
        let found = row("| **case-01** | `a_test` |").unwrap();
        assert_eq!(found, Row { id: "case-01", tests: vec!["a_test"], breaks: vec![] });
        assert_eq!(row("| id | what | tests |"), None);
    }

    #[test]
    fn names_are_whole_words() {
        let names: Vec<&str> = words("fn a_test() { b_test(); c } \"RUN-1\" run_1_holds_case_02 {").collect();
        assert_eq!(names, ["a_test", "b_test", "run_1_holds_case_02"]);
    }
}
