//! Every external crate has its reason in `docs/dependencies.md`.

use std::collections::BTreeSet;

use super::Report;
use crate::project::{Project, array, text};

const MANIFEST: &str = "Cargo.toml";
const PAGE: &str = "docs/dependencies.md";

pub(super) fn check(project: &Project) -> Report {
    let mut report = Report::default();
    let Some(manifest) = report.take(project.read(MANIFEST)) else { return report };
    let Some(page) = report.take(project.read(PAGE)) else { return report };
    let declared = externals(&manifest);
    compare(&declared, &rows(&page), &mut report);

    for member in &project.members {
        for dependency in array(&member["dependencies"]) {
            let name = dependency["rename"].as_str().unwrap_or_else(|| text(&dependency["name"]));
            if dependency["path"].is_null() && !declared.contains(name) {
                report.fail(format!(
                    "{}: depends on {name} with a version of its own; declare {name} in \
                     [workspace.dependencies] of {MANIFEST} and write `{name}.workspace = true`",
                    text(&member["name"])
                ));
            }
        }
    }
    report
}

fn compare(declared: &BTreeSet<String>, rows: &[String], report: &mut Report) {
    for name in declared {
        match rows.iter().filter(|row| *row == name).count() {
            0 => {
                report.fail(format!("{name}: add a row to {PAGE} that says why we need it, and its licence"))
            }
            1 => {}
            _ => report.fail(format!("{name}: {PAGE} has several rows; keep one")),
        }
    }
    for row in rows.iter().filter(|row| !declared.contains(*row)) {
        report.fail(format!("{row}: not in [workspace.dependencies]; remove its row from {PAGE}"));
    }
}

/// The crates of `[workspace.dependencies]` that come from outside.
fn externals(manifest: &str) -> BTreeSet<String> {
    const SECTION: &str = "workspace.dependencies";
    let mut names = BTreeSet::new();
    let mut header = String::new();
    let mut depth = 0_usize;
    for line in manifest.lines() {
        let line = line.trim();
        if depth == 0 && line.starts_with('[') {
            header = line.split('#').next().unwrap_or(line).trim().trim_matches(['[', ']']).to_owned();
            if let Some(name) = header.strip_prefix(SECTION).and_then(|rest| rest.strip_prefix('.')) {
                names.insert(name.to_owned());
            }
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        if depth == 0
            && let Some((key, value)) = line.split_once('=')
        {
            let (key, value) = (key.trim(), value.trim());
            if header == SECTION && !sets_path(value) {
                names.insert(key.split('.').next().unwrap_or(key).trim_matches('"').to_owned());
            } else if key == "path"
                && let Some(name) = header.strip_prefix(SECTION).and_then(|rest| rest.strip_prefix('.'))
            {
                names.remove(name);
            }
        }
        depth = (depth + line.matches(['[', '{']).count()).saturating_sub(line.matches([']', '}']).count());
    }
    names
}

/// Whether an inline table has the key `path`.
fn sets_path(value: &str) -> bool {
    value.strip_prefix('{').is_some_and(|table| {
        table
            .split(',')
            .any(|pair| pair.trim_start().starts_with("path ") || pair.trim_start().starts_with("path="))
    })
}

/// The crates that the table of the page names, one for each row.
fn rows(page: &str) -> Vec<String> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once("` |"))
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn externals_are_read_in_every_spelling() {
        let manifest = r#"
            [workspace]
            members = ["core"]
            [workspace.dependencies]
            ours = { path = "ours", version = "1" }
            # commented = "1"
            plain = "1.0"
            table = { version = "1", features = [
                "path = no",
                "second",
            ] }
            [workspace.dependencies.long]
            version = "1"
            [workspace.dependencies.near]
            path = "near"
            [workspace.lints.rust]
            unsafe_code = "forbid"
        "#;
        assert_eq!(externals(manifest), set(&["long", "plain", "table"]));
    }

    #[test]
    fn a_missing_a_double_and_a_stale_row_fail() {
        let page = "| crate | why |\n|---|---|\n| `a` | x |\n| `a` | y |\n| `gone` | z |\n";
        let mut report = Report::default();
        compare(&set(&["a", "b"]), &rows(page), &mut report);
        assert_eq!(report.failures.len(), 3, "{:?}", report.failures);
    }
}
