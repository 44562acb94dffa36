//! Every test that `docs/parity.md` names exists, every row names one, and a test for a case carries the case's name.

use std::collections::BTreeSet;

use super::Report;
use crate::project::Project;

const MAP: &str = "docs/parity.md";
/// A row of a table that maps something to tests: its first cell is an id in bold.
const ROW: &str = "| **";

pub(super) fn check(project: &Project) -> Report {
    let mut report = Report::default();
    let Some(map) = report.take(project.read(MAP)) else { return report };
    let mut names = BTreeSet::new();
    for file in project.rust_files() {
        if let Some(source) = report.take(project.read(file)) {
            names.extend(words(&source).map(str::to_owned));
        }
    }
    for (id, tests) in map.lines().filter_map(row) {
        if tests.is_empty() {
            report.fail(format!(
                "{MAP}: {id} names no test; write its test's name in backticks, or take the row out"
            ));
        }
        for test in tests {
            if !names.contains(test) {
                report.fail(format!(
                    "{MAP}: {id} names `{test}`, which is no test; correct the name or write the test"
                ));
            }
            if let Some(case) = id.strip_prefix("case-")
                && !test.contains(&format!("case_{case}"))
            {
                report.fail(format!("{MAP}: `{test}` must have case_{case} in its name"));
            }
        }
    }
    report
}

/// The id of a row and the names in backticks in its last cell.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let (id, rest) = line.strip_prefix(ROW)?.split_once("**")?;
    let last = rest.trim_end().trim_end_matches('|').rsplit('|').next()?;
    Some((id, last.split('`').skip(1).step_by(2).collect()))
}

/// Everything in a source text that could be the name of a function.
fn words(source: &str) -> impl Iterator<Item = &str> {
    source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.contains('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_its_id_and_the_names_of_its_last_cell() {
        assert_eq!(
            row("| **A1** | `not this` | `one_test`, `two_tests` |"),
            Some(("A1", vec!["one_test", "two_tests"]))
        );
        assert_eq!(row("| **A2** | nothing | |"), Some(("A2", vec![])));
        assert_eq!(row("| id | what | tests |"), None);
    }

    #[test]
    fn names_are_whole_words() {
        let names: Vec<&str> = words("fn a_test() { b_test(); c } \"RUN-1\" run_1_holds_case_02 {").collect();
        assert_eq!(names, ["a_test", "b_test", "run_1_holds_case_02"]);
    }
}
