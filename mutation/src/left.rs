//! The breaks that may be left, as `docs/mutants.md` lists them, each below its reason.

use std::collections::BTreeMap;
use std::path::Path;

use crate::listed::{Genre, Listed};

const FILE: &str = "docs/mutants.md";
const BEGIN: &str = "<!-- begin left -->";
const END: &str = "<!-- end left -->";

/// A break without its line and column, which move.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Break {
    pub(crate) file: String,
    pub(crate) change: String,
}

impl Break {
    pub(crate) fn of(listed: &Listed) -> Self {
        let (place, change) = listed.name.split_once(": ").unwrap_or(("", &listed.name));
        let change = match listed.genre {
            Genre::SqlCheck => change.split_once(" in: ").map_or(change, |(change, _)| change),
            _ => change,
        };
        let file = place.split(':').next().unwrap_or(place);
        Self { file: file.to_owned(), change: change.to_owned() }
    }

    /// Only breaks of SQL say what becomes of what.
    fn is_sql(&self) -> bool {
        self.change.contains(" => ")
    }
}

/// How often each break may be left.
pub(crate) type Left = BTreeMap<Break, usize>;

/// Reads the list.
pub(crate) fn read(root: &Path) -> Result<Left, String> {
    let text = std::fs::read_to_string(root.join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    parse(&text).map_err(|error| format!("{FILE}: {error}"))
}

fn parse(text: &str) -> Result<Left, String> {
    let list = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    let (list, _) = list.ok_or_else(|| format!("the list between {BEGIN:?} and {END:?} is missing"))?;
    let mut left = Left::new();
    for line in list.lines().filter_map(|line| line.strip_prefix("- ")) {
        // Every second part stands in backticks: the file, then its breaks.
        let mut quoted = line.split('`').skip(1).step_by(2);
        let file = quoted.next().ok_or_else(|| format!("no file is named: {line}"))?;
        for change in quoted {
            *left.entry(Break { file: file.to_owned(), change: change.to_owned() }).or_default() += 1;
        }
    }
    Ok(left)
}

/// Tells what survived and is not listed, and what is listed and did not survive, of the breaks of a run.
pub(crate) fn compare<'b>(
    mut left: Left,
    run: &[&Listed],
    survived: impl Iterator<Item = &'b Listed>,
) -> Vec<String> {
    let asked: Vec<Break> = run.iter().map(|one| Break::of(one)).collect();
    left.retain(|one, _| asked.iter().any(|other| other.file == one.file && other.is_sql() == one.is_sql()));
    let mut news = Vec::new();
    for one in survived.map(Break::of) {
        match left.get_mut(&one) {
            Some(more @ 1..) => *more -= 1,
            _ => news.push(format!("not in {FILE}: - `{}`: `{}`", one.file, one.change)),
        }
    }
    let gone = left.iter().filter(|(_, more)| **more > 0);
    news.extend(
        gone.map(|(one, _)| format!("noticed, so strike it from {FILE}: {}: {}", one.file, one.change)),
    );
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str, genre: &str) -> Listed {
        let json = serde_json::json!({
            "name": name, "file": "", "genre": genre, "replacement": "",
            "span": { "start": { "line": 1, "column": 1 } },
        });
        serde_json::from_value(json).unwrap()
    }

    const TEXT: &str = "before `x`\n<!-- begin left -->\n### Why.\n- `a.rs`: `replace < with > in f`, \
        `replace < with > in f`\n- `a.rs`: `k = ?1 => (k = ?1 OR 1)`\n- `b.rs`: `delete !`\n<!-- end left -->";

    #[test]
    fn what_is_left_and_not_listed_is_told_and_what_is_listed_and_not_left_too() {
        let rust =
            [1, 2, 3].map(|line| listed(&format!("a.rs:{line}:7: replace < with > in f"), "BinaryOperator"));
        let all: Vec<&Listed> = rust.iter().collect();
        let told = |survived: usize| compare(parse(TEXT).unwrap(), &all, rust.iter().take(survived));
        assert_eq!(told(2), [""; 0]);
        assert_eq!(told(1), ["noticed, so strike it from docs/mutants.md: a.rs: replace < with > in f"]);
        assert_eq!(told(3), ["not in docs/mutants.md: - `a.rs`: `replace < with > in f`"]);
    }

    #[test]
    fn checks_of_sql_are_told_apart_from_breaks_of_the_same_file() {
        let check = listed("a.rs:9:1: k = ?1 => (k = ?1 OR 1) in: SELECT 1 FROM t WHERE k = ?1", "SqlCheck");
        assert_eq!(compare(parse(TEXT).unwrap(), &[&check], [&check].into_iter()), [""; 0]);
        assert_eq!(compare(parse(TEXT).unwrap(), &[&check], [].into_iter()).len(), 1);
    }

    #[test]
    fn the_list_names_files_that_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let left = read(root).unwrap();
        assert!(!left.is_empty());
        for one in left.keys() {
            assert!(root.join(&one.file).is_file(), "{one:?}");
        }
    }
}
