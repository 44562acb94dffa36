//! What a word is, for indexes and for looking at a text.

use std::ops::Range;

/// Characters of a word that an index keeps. What is longer is found by its beginning and then looked at.
pub(super) const WORD_CHARS: usize = 64;

/// Whether a character makes one word with its neighbours of the same kind.
pub(super) fn joins(c: char) -> bool {
    c.is_alphanumeric() && !stands_alone(c)
}

/// Whether a character is a word by itself: signs beyond ASCII, and writing that puts no spaces between words.
pub(super) fn stands_alone(c: char) -> bool {
    if c.is_ascii() || c.is_whitespace() || c.is_control() {
        return false;
    }
    let unspaced = matches!(u32::from(c),
        0x0E00..=0x0EFF // Thai, Lao
        | 0x1000..=0x109F // Burmese
        | 0x1780..=0x17FF // Khmer
        | 0x3040..=0x30FF // Hiragana, Katakana
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x2_0000..=0x3_FFFF // Han
    );
    unspaced || !c.is_alphanumeric()
}

/// A text in lower case, and the way back to it.
#[derive(Debug)]
pub(super) struct Folded {
    pub(super) text: String,
    /// Where each character of `text` begins, and where in the original; empty when the places are the same.
    places: Vec<(usize, usize)>,
}

impl Folded {
    pub(super) fn new(original: &str) -> Self {
        if original.is_ascii() {
            return Self { text: original.to_ascii_lowercase(), places: Vec::new() };
        }
        let mut text = String::with_capacity(original.len());
        let (mut places, mut moved) = (Vec::new(), false);
        for (at, c) in original.char_indices() {
            for lower in c.to_lowercase() {
                moved |= text.len() != at;
                places.push((text.len(), at));
                text.push(lower);
            }
        }
        if moved || text.len() != original.len() {
            places.push((text.len(), original.len()));
        } else {
            places = Vec::new();
        }
        Self { text, places }
    }

    /// The place in the original of the character that begins here, or of the end.
    pub(super) fn original(&self, at: usize) -> usize {
        if self.places.is_empty() {
            return at;
        }
        let found = self.places.partition_point(|(place, _)| *place < at);
        self.places.get(found).map_or(at, |(_, original)| *original)
    }
}

/// The words of a text in lower case.
pub(super) fn words(folded: &str) -> impl Iterator<Item = Range<usize>> {
    let mut chars = folded.char_indices().peekable();
    std::iter::from_fn(move || {
        loop {
            let (start, c) = chars.next()?;
            let mut end = start + c.len_utf8();
            if stands_alone(c) {
                return Some(start..end);
            }
            if !joins(c) {
                continue;
            }
            while let Some((at, next)) = chars.next_if(|(_, next)| joins(*next)) {
                end = at + next.len_utf8();
            }
            return Some(start..end);
        }
    })
}

/// A word as an index keeps it, and whether it was cut.
pub(super) fn cut(word: &str) -> (&str, bool) {
    match word.char_indices().nth(WORD_CHARS) {
        Some((at, _)) => (word.get(..at).unwrap_or(word), true),
        None => (word, false),
    }
}

/// The words of a text for an index, in lower case and in order, with a space between each two. Whatever else the
/// text has is left out: an index finds candidates, and [`Needle::look`](super::Needle::look) decides.
#[must_use]
pub fn words_of(text: &str) -> String {
    let folded = Folded::new(text);
    let mut all = String::with_capacity(folded.text.len());
    for word in words(&folded.text) {
        if !all.is_empty() {
            all.push(' ');
        }
        all.push_str(cut(folded.text.get(word).unwrap_or_default()).0);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters_and_digits_in_lower_case() {
        for (text, words) in [
            ("", ""),
            ("C++ and Rust's `commit_is_undoable`!", "c and rust s commit is undoable"),
            ("Straße ÄÖ 42nd", "straße äö 42nd"),
            ("全文検索 works", "全 文 検 索 works"),
            ("no🦀signs→lost", "no 🦀 signs → lost"),
            (" \t\u{a0}\n", ""),
        ] {
            assert_eq!(words_of(text), words, "{text:?}");
        }
        assert_eq!(words_of(&"x".repeat(1000)), "x".repeat(WORD_CHARS));
    }

    #[test]
    fn places_lead_back_to_the_original() {
        for text in ["plain ASCII", "grüße", "\u{130}stanbul \u{212a}elvin ẞ"] {
            let folded = Folded::new(text);
            assert_eq!(folded.original(folded.text.len()), text.len(), "{text}");
            for (at, _) in folded.text.char_indices() {
                assert!(text.is_char_boundary(folded.original(at)), "{text} at {at}");
            }
        }
        let folded = Folded::new("\u{212a}elvin x");
        assert_eq!(&"\u{212a}elvin x"[folded.original(folded.text.find('x').unwrap())..], "x");
    }
}
