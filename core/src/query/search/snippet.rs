//! The text around a hit.

use std::ops::Range;

/// Characters before the first hit, and in all.
const BEFORE: usize = 40;
const CHARS: usize = 160;

/// About 160 characters around the first place, on one line, and the places within them.
pub(super) fn around(text: &str, places: &[Range<usize>]) -> (String, Vec<Range<usize>>) {
    let hit = places.first().map_or(0, |place| place.start);
    let before = text.get(..hit).unwrap_or_default();
    let start = before.char_indices().rev().take(BEFORE).last().map_or(hit, |(at, _)| at);
    // Not in the middle of a word, if one begins before the hit.
    let start = match text.get(start..hit).and_then(|lead| lead.find(char::is_whitespace)) {
        Some(space) if start > 0 => start + space,
        _ => start,
    };
    let rest = text.get(start..).unwrap_or_default();
    let end = rest.char_indices().nth(CHARS).map_or(text.len(), |(at, _)| start + at);
    let mut line = String::with_capacity(end - start + 8);
    let mut marks: Vec<Range<usize>> = Vec::new();
    let mut open = None;
    let mut places = places.iter().filter(|place| place.end <= end).peekable();
    if start > 0 {
        line.push('…');
    }
    let mut blank = true;
    for (at, c) in text.get(start..end).unwrap_or_default().char_indices() {
        let at = start + at;
        if let (Some(from), Some(place)) = (open, places.peek())
            && at >= place.end
        {
            marks.push(from..line.trim_end().len());
            open = None;
            places.next();
        }
        let is_blank = c.is_whitespace() || c.is_control();
        if open.is_none() && places.peek().is_some_and(|place| at >= place.start) {
            open = Some(line.len());
        }
        if !is_blank {
            line.push(c);
        } else if !blank {
            line.push(' ');
        }
        blank = is_blank;
    }
    line.truncate(line.trim_end().len());
    if let Some(from) = open {
        marks.push(from..line.len());
    }
    if end < text.len() {
        line.push('…');
    }
    (line, marks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::search::Needle;

    fn snippet(needle: &str, text: &str) -> (String, Vec<String>) {
        let found = Needle::new(needle).unwrap().look(text).unwrap();
        let (line, marks) = found.snippet(text);
        let marked = marks.iter().map(|mark| line[mark.clone()].to_owned()).collect();
        (line, marked)
    }

    #[test]
    fn a_snippet_is_one_line_around_the_hit_with_its_places() {
        assert_eq!(snippet("two", "one\n\ttwo  three"), ("one two three".into(), vec!["two".into()]));
        assert_eq!(snippet("b a", "a\nb a"), ("a b a".into(), vec!["b".into(), "a".into()]));
        let (line, marks) =
            snippet("needle", &format!("{} a needle {}", "hay ".repeat(100), "stack ".repeat(100)));
        assert!(line.starts_with('…') && line.ends_with('…') && line.chars().count() <= CHARS + 2, "{line}");
        assert_eq!(marks, ["needle"]);
        assert!(line.starts_with("… hay") || line.starts_with("…hay"), "{line}");
    }

    #[test]
    fn a_snippet_cuts_no_character_in_two() {
        for words in ["ä", "検索", "🦀"] {
            let text = format!("{} x needle x {}", words.repeat(200), words.repeat(200));
            let (line, marks) = snippet("needle", &text);
            assert!(line.contains("needle"), "{line}");
            assert_eq!(marks, ["needle"]);
        }
    }
}
