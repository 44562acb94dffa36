//! Words that do not belong in the project.

use super::Report;
use crate::project::Project;

/// Where a word is forbidden.
#[derive(Clone, Copy)]
enum Place {
    /// In Rust source, but not in the file named here.
    RustExcept(&'static str),
    /// In every file but `Cargo.lock`.
    Everywhere,
}

/// A forbidden word, in two halves so that this file does not hold it.
struct Word {
    halves: (&'static str, &'static str),
    place: Place,
    advice: &'static str,
}

const IN_RUST: Place = Place::RustExcept("");

const WORDS: [Word; 7] = [
    Word { halves: ("todo", "!"), place: IN_RUST, advice: "write the code, or return a typed error" },
    Word {
        halves: ("unimplemented", "!"),
        place: IN_RUST,
        advice: "write the code, or return a typed error",
    },
    Word { halves: ("dbg", "!"), place: IN_RUST, advice: "remove the debugging output" },
    Word {
        halves: ("SystemTime", "::now"),
        place: Place::RustExcept("core/src/time.rs"),
        advice: "take the time from a Clock of turnkeep-core, so that tests can set it",
    },
    Word { halves: ("/work", "/"), place: Place::Everywhere, advice: "name no path of one machine" },
    Word { halves: ("crates", ".io"), place: Place::Everywhere, advice: "name no registry host" },
    Word { halves: (".libr", "ary"), place: Place::Everywhere, advice: "name no folder outside the project" },
];

pub(super) fn check(project: &Project) -> Report {
    let mut report = Report::default();
    for file in project.files.iter().filter(|file| *file != "Cargo.lock") {
        let Some(text) = report.take(project.read(file)) else { continue };
        for word in WORDS.iter().filter(|word| applies(word.place, file)) {
            let needle = format!("{}{}", word.halves.0, word.halves.1);
            if let Some(line) = first_line_with(&text, &needle, word.place) {
                report.fail(format!("{file}:{line}: `{needle}`: {}", word.advice));
            }
        }
    }
    report
}

fn applies(place: Place, file: &str) -> bool {
    match place {
        Place::RustExcept(exempt) => file.ends_with(".rs") && file != exempt,
        Place::Everywhere => true,
    }
}

/// The number of the first line that holds the word. In Rust, the end of a longer name does not count.
fn first_line_with(text: &str, needle: &str, place: Place) -> Option<usize> {
    let whole = matches!(place, Place::RustExcept(_));
    text.lines()
        .position(|line| {
            line.match_indices(needle).any(|(at, _)| {
                !whole || !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
            })
        })
        .map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_by_line_but_not_inside_a_longer_name() {
        let needle = ["dbg", "!"].concat();
        assert_eq!(first_line_with(&format!("a\n{needle}(x)"), &needle, IN_RUST), Some(2));
        assert_eq!(first_line_with(&format!("my_{needle}(x)"), &needle, IN_RUST), None);
        assert_eq!(first_line_with(&format!("my_{needle}"), &needle, Place::Everywhere), Some(1));
    }

    #[test]
    fn rust_words_are_looked_for_in_rust_only() {
        assert!(applies(IN_RUST, "core/src/time.rs"));
        assert!(!applies(IN_RUST, "clippy.toml"));
        assert!(!applies(Place::RustExcept("core/src/time.rs"), "core/src/time.rs"));
        assert!(applies(Place::Everywhere, "README.md"));
    }
}
