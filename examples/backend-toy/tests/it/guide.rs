//! The guide cannot rot: what it shows of the code is in the code.

use std::fs;
use std::path::Path;

const FROM: &str = "<!-- from ";

/// Lines without the blanks that all of them begin with.
fn dedented(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let least = lines.iter().filter(|line| !line.is_empty()).map(indent).min().unwrap_or(0);
    lines.iter().map(|line| line.get(least..).unwrap_or("").to_owned()).collect()
}

#[test]
fn every_piece_of_code_in_the_guide_is_in_the_file_that_it_names() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_to_string(root.join("docs/backend-guide.md")).unwrap();
    let mut shown = 0;
    for piece in guide.split(FROM).skip(1) {
        let (path, rest) = piece.split_once(" -->").unwrap();
        let code = rest.split("```rust,ignore\n").nth(1).and_then(|rest| rest.split("```").next());
        let code = dedented(code.unwrap_or_else(|| panic!("no code follows `{path}`")));
        let source = fs::read_to_string(root.join(path)).unwrap();
        let lines: Vec<&str> = source.lines().collect();
        let found = lines.windows(code.len()).any(|lines| dedented(&lines.join("\n")) == code);
        assert!(found, "{path} has no such lines:\n{}", code.join("\n"));
        shown += 1;
    }
    assert_eq!(shown, guide.matches("```rust").count(), "each piece of code is marked with its file");
    assert!(shown >= 6, "the guide shows {shown} pieces of code");
}

#[test]
fn every_file_that_the_guide_links_is_there() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let guide = fs::read_to_string(docs.join("backend-guide.md")).unwrap();
    for link in guide.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let path = link.split('#').next().unwrap();
        assert!(link.starts_with("http") || docs.join(path).exists(), "{link} leads nowhere");
    }
}
