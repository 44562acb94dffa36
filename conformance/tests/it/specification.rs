//! `docs/spec.md` and the registry say the same.

use turnkeep_conformance::registry;

const HEADING: &str = "\n## Clauses\n";

#[test]
fn the_specification_and_the_registry_hold_the_same_clauses() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/spec.md");
    let spec = std::fs::read_to_string(path).unwrap();
    let (_, after) = spec.split_once(HEADING).expect("docs/spec.md has no section `## Clauses`");
    let section = after.split("\n## ").next().unwrap();
    let written: Vec<&str> = section.lines().filter(|line| line.starts_with("- **")).collect();
    let registered = registry::specification();
    let registered: Vec<&str> = registered.lines().collect();
    for line in &registered {
        assert!(
            written.contains(line),
            "docs/spec.md lacks this line (`cargo run -p turnkeep-conformance --example clauses` prints all):\n{line}"
        );
    }
    for line in &written {
        assert!(registered.contains(line), "no clause says this line of docs/spec.md:\n{line}");
    }
    assert_eq!(written, registered, "docs/spec.md lists the clauses in another order");
}
