//! What a search looks for, and how well a text fits.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::limits::COLUMN_BYTES;
use crate::mutant;
use crate::query::search::snippet;
use crate::query::search::words::{Folded, cut, joins, words};

/// A word that is shorter is looked for as a whole word only: beginnings of one or two letters are everywhere.
const OPEN_CHARS: usize = 3;
/// Places of terms that are looked for in one text; a snippet shows a few.
const PLACES: usize = 64;

/// How well a text fits; the greater the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fit {
    /// Every term is there; one at least is only the beginning of a word.
    Beginnings,
    /// Every term is there as whole words.
    Words,
    /// Every term is there, and all their words stand one after another.
    Phrase,
}

impl Fit {
    /// From the best to the least.
    pub const BEST_FIRST: [Self; 3] = [Self::Phrase, Self::Words, Self::Beginnings];

    /// As a number: [`SearchHit::score`](super::SearchHit::score).
    #[must_use]
    pub fn score(self) -> f64 {
        f64::from(self as u8 + 1)
    }
}

/// One term of a search: what stands between white space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// In lower case.
    text: String,
    words: Vec<String>,
    open: bool,
    plain: bool,
}

impl Term {
    fn new(folded: &str) -> Self {
        let ranges: Vec<Range<usize>> = words(folded).collect();
        let all = |range: &Range<usize>| folded.get(range.clone()).unwrap_or_default();
        let was_cut = ranges.iter().any(|range| {
            let (word, was_cut) = cut(all(range));
            was_cut || word.chars().count() == super::words::WORD_CHARS
        });
        let open = ranges
            .last()
            .is_some_and(|last| last.end == folded.len() && all(last).chars().count() >= OPEN_CHARS);
        let plain = !was_cut && matches!(ranges.as_slice(), [only] if only.len() == folded.len());
        let words = ranges.iter().map(|range| cut(all(range)).0.to_owned()).collect();
        Self { text: folded.to_owned(), words, open, plain }
    }

    /// Its words, as [`words_of`](super::words_of) gives them.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Whether its last word may be the beginning of a longer one.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }
}

/// What a search looks for.
#[derive(Clone, Debug)]
pub struct Needle {
    terms: Vec<Term>,
}

/// Where a text has what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// How well it fits.
    pub fit: Fit,
    /// The places of the terms, as ranges of bytes, ascending.
    pub places: Vec<Range<usize>>,
}

impl Found {
    /// The text around the first place, on one line, and the places within it.
    #[must_use]
    pub fn snippet(&self, text: &str) -> (String, Vec<Range<usize>>) {
        snippet::around(text, &self.places)
    }
}

impl Needle {
    /// Reads what a query looks for.
    ///
    /// # Errors
    /// `TooLarge` when the text is longer than [`COLUMN_BYTES`].
    pub fn new(text: &str) -> Result<Self> {
        if text.len() > COLUMN_BYTES {
            return Err(Error::new(
                ErrorKind::TooLarge,
                "the text to search for is too long; give fewer words",
            )
            .with("bytes", text.len())
            .with("limit", COLUMN_BYTES));
        }
        let mut terms: Vec<Term> = Vec::new();
        for term in text.split_whitespace() {
            let term = Term::new(&Folded::new(term).text);
            if !terms.contains(&term) {
                terms.push(term);
            }
        }
        Ok(Self { terms })
    }

    /// Whether there is nothing to look for; then nothing is found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms, each once, in order.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Whether the words alone decide: each term is one word that an index keeps whole.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.terms.iter().all(|term| term.plain)
    }

    /// Looks at a text; `None` when it does not fit.
    #[must_use]
    pub fn look(&self, text: &str) -> Option<Found> {
        if self.is_empty() {
            return None;
        }
        let folded = Folded::new(text);
        let mut whole = true;
        for term in &self.terms {
            whole &= best_place(&folded.text, term)?;
        }
        let phrase = if whole { self.phrase(&folded.text) } else { None };
        let fit = match (whole, &phrase) {
            (_, Some(_)) => Fit::Phrase,
            (true, None) => Fit::Words,
            (false, None) => Fit::Beginnings,
        };
        let places = self.places(&folded, fit, phrase);
        Some(Found { fit, places })
    }

    /// Where all the words stand one after another; an empty range where there is no word to look for.
    fn phrase(&self, folded: &str) -> Option<Range<usize>> {
        let wanted: Vec<&str> = self
            .terms
            .iter()
            .flat_map(|term| words(&term.text).map(|word| term.text.get(word).unwrap_or_default()))
            .collect();
        if wanted.is_empty() {
            return Some(0..0);
        }
        if mutant::is("search/phrases-not-preferred") && wanted.len() > 1 {
            return None;
        }
        let have: Vec<Range<usize>> = words(folded).collect();
        let found = have.windows(wanted.len()).find(|window| {
            window.iter().zip(&wanted).all(|(word, wanted)| folded.get(word.clone()) == Some(wanted))
        })?;
        Some(found.first()?.start..found.last()?.end)
    }

    fn places(&self, folded: &Folded, fit: Fit, phrase: Option<Range<usize>>) -> Vec<Range<usize>> {
        let from = phrase.map_or(0, |phrase| phrase.start);
        let mut places = Vec::new();
        for term in &self.terms {
            let all = occurrences(&folded.text, term, from)
                .filter(|(_, whole)| *whole || fit == Fit::Beginnings)
                .take(PLACES);
            places.extend(all.map(|(place, _)| folded.original(place.start)..folded.original(place.end)));
        }
        places.sort_by_key(|place| (place.start, place.end));
        // Terms may lie within one another.
        places.dedup_by(|later, earlier| {
            let touches = later.start < earlier.end;
            if touches {
                earlier.end = earlier.end.max(later.end);
            }
            touches
        });
        places
    }
}

/// Whether a text has a term as whole words (`true`) or only as the beginning of one; `None` if not at all.
fn best_place(folded: &str, term: &Term) -> Option<bool> {
    let mut found = None;
    for (_, whole) in occurrences(folded, term, 0) {
        found = Some(whole);
        if whole {
            break;
        }
    }
    found
}

/// The places of a term, each with whether it ends with a word.
fn occurrences<'t>(
    folded: &'t str,
    term: &'t Term,
    from: usize,
) -> impl Iterator<Item = (Range<usize>, bool)> + 't {
    let first = term.text.chars().next().is_some_and(joins);
    let last = term.text.chars().next_back().is_some_and(joins);
    let mut at = from;
    std::iter::from_fn(move || {
        loop {
            let start = at + folded.get(at..)?.find(&term.text)?;
            let end = start + term.text.len();
            at = start + folded.get(start..)?.chars().next().map_or(1, char::len_utf8);
            let before = folded.get(..start)?.chars().next_back().is_some_and(joins);
            let after = folded.get(end..)?.chars().next().is_some_and(joins);
            let begins = !(first && before) || mutant::is("search/words-begin-anywhere");
            let whole = !(last && after);
            if begins && (whole || term.open) {
                return Some((start..end, whole));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(needle: &str, text: &str) -> Option<Fit> {
        Needle::new(needle).unwrap().look(text).map(|found| found.fit)
    }

    #[test]
    fn a_text_fits_by_its_words_and_by_nothing_else() {
        for (needle, text, fits) in [
            ("needle", "a Needle in the hay", Some(Fit::Phrase)),
            ("need", "a needle", Some(Fit::Beginnings)),
            ("edle", "a needle", None),
            ("ne", "a needle", None),
            ("group commit", "one group commit", Some(Fit::Phrase)),
            ("group commit", "one group, commit", Some(Fit::Phrase)),
            ("group commit", "commit the group", Some(Fit::Words)),
            ("group commit", "a group of committers", Some(Fit::Beginnings)),
            ("group commit", "a group", None),
            ("C++", "I write c++.", Some(Fit::Phrase)),
            ("C++", "I write C and C+", None),
            ("c", "C++ is one", Some(Fit::Phrase)),
            ("\"quoted\"", "a \"quoted\" word", Some(Fit::Phrase)),
            ("\"quoted\"", "a quoted word", None),
            ("one AND two", "one two", None),
            ("one AND two", "ONE and TWO", Some(Fit::Phrase)),
            ("NEAR(a b)", "near(a c b)", Some(Fit::Words)),
            ("pars*", "parser", None),
            ("pars*", "pars*", Some(Fit::Phrase)),
            ("++", "i++", Some(Fit::Phrase)),
            (".rs", "in main.rs now", Some(Fit::Phrase)),
            ("検索", "全文検索の例", Some(Fit::Phrase)),
            ("検文", "全文検索の例", None),
            ("🦀", "rust🦀!", Some(Fit::Phrase)),
            ("GRÜSSE", "viele grüsse", Some(Fit::Phrase)),
            ("foo-bar", "foo bar", None),
            ("foo-bar", "a foo-bar b", Some(Fit::Phrase)),
            ("", "anything", None),
            (" \t", "anything", None),
        ] {
            assert_eq!(fit(needle, text), fits, "{needle:?} in {text:?}");
        }
        let long = "x".repeat(100);
        assert_eq!(fit(&long[..70], &long), Some(Fit::Beginnings));
        assert_eq!(fit(&long, &long), Some(Fit::Phrase));
        assert_eq!(Needle::new(&"a ".repeat(3000)).unwrap_err().kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn only_what_an_index_keeps_whole_is_plain() {
        for (text, plain) in [
            ("one two", true),
            ("検", true),
            ("c++", false),
            ("foo-bar", false),
            ("検索", false),
            ("++", false),
        ] {
            assert_eq!(Needle::new(text).unwrap().is_plain(), plain, "{text}");
        }
        assert!(!Needle::new(&"x".repeat(64)).unwrap().is_plain(), "a longer word has the same beginning");
        assert!(Needle::new(&"x".repeat(63)).unwrap().is_plain());
    }

    #[test]
    fn places_are_those_of_the_original_text() {
        let text = "\u{130}: GRÜN und grün";
        let found = Needle::new("grün").unwrap().look(text).unwrap();
        let places: Vec<&str> = found.places.iter().map(|place| &text[place.clone()]).collect();
        assert_eq!(places, ["GRÜN", "grün"]);
    }
}
