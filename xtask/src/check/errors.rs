//! Every error code has its page, and every page its code.

use std::collections::BTreeSet;

use super::Report;
use crate::project::Project;

/// Files and folders that begin so hold the codes.
const SOURCES: &str = "core/src/error";
const PAGES: &str = "docs/errors/";
const PREFIX: &str = "TK-";

pub(super) fn check(project: &Project) -> Report {
    let mut report = Report::default();
    let mut codes = BTreeSet::new();
    for file in project.rust_files().filter(|file| file.starts_with(SOURCES)) {
        if let Some(source) = report.take(project.read(file)) {
            codes.extend(codes_in(&source));
        }
    }
    let pages: BTreeSet<String> = project.files.iter().filter_map(|file| code_of_page(file)).collect();
    for code in codes.difference(&pages) {
        report.fail(format!(
            "{code}: has no page; write {PAGES}{code}.md: what it means, what causes it, and what to do"
        ));
    }
    for page in pages.difference(&codes) {
        report.fail(format!("{PAGES}{page}.md: no such code in {SOURCES}; remove the page, or rename it"));
    }
    report
}

fn code_of_page(file: &str) -> Option<String> {
    let code = file.strip_prefix(PAGES)?.strip_suffix(".md")?;
    code.starts_with(PREFIX).then(|| code.to_owned())
}

/// The string literals of a source text that are codes: the prefix, then capitals, digits and dashes.
fn codes_in(source: &str) -> BTreeSet<String> {
    source
        .split(&format!("\"{PREFIX}"))
        .skip(1)
        .filter_map(|rest| rest.split_once('"'))
        .filter(|(name, _)| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-')
        })
        .map(|(name, _)| format!("{PREFIX}{name}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_whole_string_literals() {
        let source = r#"A = "TK-ONE"; "TK-" "TK-{x}" TK-BARE "see TK-INSIDE" ["TK-ONE","TK-TWO-2"]"#;
        let codes: Vec<String> = codes_in(source).into_iter().collect();
        assert_eq!(codes, ["TK-ONE", "TK-TWO-2"]);
    }

    #[test]
    fn only_pages_named_after_codes_count() {
        assert_eq!(code_of_page("docs/errors/TK-BUSY.md").as_deref(), Some("TK-BUSY"));
        assert_eq!(code_of_page("docs/errors/README.md"), None);
    }
}
