//! Text that others wrote, made safe to show.
//!
//! A terminal obeys control characters, so text from a store could move the cursor, set the window's title or paint
//! over what stands there. Marks that reorder or hide text could make an id look like another. Both become visible.

use std::fmt::Write as _;

/// Whether a character must not reach a terminal as it is.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Marks that set the direction of text.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line breaks that not every program takes for one.
            | '\u{2028}' | '\u{2029}'
            // Marks that nobody sees.
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn push_safe(out: &mut String, c: char) {
    if is_unsafe(c) {
        out.extend(c.escape_unicode());
    } else {
        out.push(c);
    }
}

/// The text as one line: white space becomes one blank, control characters become visible (`\u{1b}`).
pub(crate) fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.trim().chars() {
        if c.is_whitespace() {
            if !out.ends_with(' ') {
                out.push(' ');
            }
        } else {
            push_safe(&mut out, c);
        }
    }
    out
}

/// The text with its line breaks: tabs become four blanks, other control characters become visible.
pub(crate) fn block(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => out.push('\n'),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\t' => out.push_str("    "),
            c => push_safe(&mut out, c),
        }
    }
    out
}

/// At most `most` characters, with an ellipsis where it was cut.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => {
            let end = text.char_indices().nth(most.saturating_sub(1)).map_or(0, |(at, _)| at);
            let kept = text.get(..end).unwrap_or(text);
            format!("{}…", kept.trim_end())
        }
    }
}

/// JSON with the same value in which every unsafe character is escaped. JSON escapes those below U+0020 itself, and
/// has none of the others outside its strings.
pub(crate) fn json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        if c >= '\u{7f}' && is_unsafe(c) {
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_become_visible() {
        assert_eq!(line("a\u{1b}[31mred\u{7}"), "a\\u{1b}[31mred\\u{7}");
        assert_eq!(block("a\u{9b}31m\u{7f}"), "a\\u{9b}31m\\u{7f}");
        assert_eq!(line("abc\u{202e}cba"), "abc\\u{202e}cba");
    }

    #[test]
    fn lines_are_joined_in_a_line_and_kept_in_a_block() {
        assert_eq!(line("  one\r\n\ttwo  three\n"), "one two three");
        assert_eq!(block("one\r\n\ttwo\rthree"), "one\n    two\\u{d}three");
    }

    #[test]
    fn a_cut_counts_characters_and_shows_itself() {
        assert_eq!(cut("größer", 6), "größer");
        assert_eq!(cut("größer", 5), "größ…");
        assert_eq!(cut("ab cd", 4), "ab…");
        assert_eq!(cut("ab", 0), "…");
    }

    #[test]
    fn json_keeps_its_value() {
        let text = "\u{9b}\u{7f}\u{202e}\u{e0041}é\u{1b}\n";
        let plain = serde_json::to_string(text).unwrap();
        let safe = json(&plain);
        assert!(safe.chars().all(|c| !is_unsafe(c)), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
    }
}
