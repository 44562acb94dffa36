//! Every package can be used under permissive licences alone.

use super::Report;
use crate::project::{Project, array, cargo_metadata, text};

/// What we accept: one SPDX licence, or one licence with its exception.
const PERMISSIVE: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(super) fn check(_: &Project) -> Report {
    let mut report = Report::default();
    let Some(metadata) = report.take(cargo_metadata(&["--locked"])) else { return report };
    for package in array(&metadata["packages"]) {
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let Some(expression) = package["license"].as_str() else {
            report.fail(format!(
                "{name} {version}: declares no licence; use another crate, or set `license` when it is ours"
            ));
            continue;
        };
        match is_permissive(expression) {
            Ok(true) => {}
            Ok(false) => report.fail(format!(
                "{name} {version}: `{expression}` cannot be met by permissive licences; use another crate, or \
                 add the licence to PERMISSIVE in xtask/src/check/licences.rs when it is permissive"
            )),
            Err(problem) => report.fail(format!(
                "{name} {version}: cannot read the licence `{expression}`: {problem}; teach \
                 xtask/src/check/licences.rs to read it"
            )),
        }
    }
    report
}

/// Whether an SPDX expression can be met by permissive licences. `/`, the old spelling, means `OR`.
fn is_permissive(expression: &str) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut tokens = Tokens { words: spaced.split_whitespace().collect(), next: 0 };
    let met = tokens.any_of()?;
    match tokens.peek() {
        None => Ok(met),
        Some(word) => Err(format!("unexpected `{word}`")),
    }
}

/// A reader of expressions. `WITH` binds first, then `AND`, then `OR`.
struct Tokens<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.next += usize::from(found);
        found
    }

    fn any_of(&mut self) -> Result<bool, String> {
        let mut met = self.all_of()?;
        while self.eat("OR") {
            // Both sides are read: the second may be malformed.
            met |= self.all_of()?;
        }
        Ok(met)
    }

    fn all_of(&mut self) -> Result<bool, String> {
        let mut met = self.one()?;
        while self.eat("AND") {
            met &= self.one()?;
        }
        Ok(met)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.eat("(") {
            let met = self.any_of()?;
            return if self.eat(")") { Ok(met) } else { Err("a `(` is not closed".to_owned()) };
        }
        let licence = self.name()?;
        if self.eat("WITH") {
            let exception = self.name()?;
            return Ok(PERMISSIVE.contains(&format!("{licence} WITH {exception}").as_str()));
        }
        Ok(PERMISSIVE.contains(&licence))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        let word = self.peek().ok_or("it ends where a licence is expected")?;
        if matches!(word, "(" | ")" | "OR" | "AND" | "WITH") {
            return Err(format!("`{word}` where a licence is expected"));
        }
        self.next += 1;
        Ok(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_met(expression: &str, expected: bool) {
        assert_eq!(is_permissive(expression), Ok(expected), "{expression}");
    }

    #[test]
    fn one_side_of_or_suffices() {
        assert_met("MIT", true);
        assert_met("MIT OR GPL-3.0-only", true);
        assert_met("GPL-3.0-only OR MIT", true);
        assert_met("GPL-3.0-only OR AGPL-3.0-only", false);
        assert_met("MIT/Apache-2.0", true);
        assert_met("GPL-2.0/LGPL-2.1", false);
    }

    #[test]
    fn and_needs_every_side() {
        assert_met("MIT AND BSD-3-Clause", true);
        assert_met("MIT AND GPL-3.0-only", false);
        assert_met("(MIT OR Apache-2.0) AND Unicode-3.0", true);
        assert_met("(MIT OR Apache-2.0) AND GPL-3.0-only", false);
    }

    #[test]
    fn and_binds_before_or() {
        assert_met("MIT OR Apache-2.0 AND GPL-3.0-only", true);
        assert_met("MIT AND GPL-3.0-only OR ISC", true);
        assert_met("(MIT OR ISC) AND (GPL-3.0-only OR Zlib)", true);
    }

    #[test]
    fn an_exception_belongs_to_its_licence() {
        assert_met("Apache-2.0 WITH LLVM-exception", true);
        assert_met("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true);
        assert_met("GPL-2.0-only WITH Classpath-exception-2.0", false);
        assert_met("Apache-2.0 WITH Other-exception", false);
    }

    #[test]
    fn a_malformed_expression_is_an_error() {
        for expression in ["", "MIT OR", "(MIT", "MIT)", "AND MIT", "MIT Apache-2.0", "MIT WITH"] {
            assert!(is_permissive(expression).is_err(), "{expression}");
        }
    }
}
