//! Text that a terminal may show.

/// Text without what could move a cursor or paint over a screen: control characters become visible.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            // Marks that change the direction of text, or that nobody sees.
            '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}' => {
                out.extend(c.escape_unicode());
            }
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// The first line, not longer than a person reads.
pub(super) fn first_line(text: &str) -> String {
    const MOST: usize = 160;
    let line = plain(text.lines().next().unwrap_or_default());
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(&line)),
        None => line,
    }
}

/// Each line after so many blanks.
pub(super) fn indented(text: &str, by: usize) -> String {
    let blanks = " ".repeat(by);
    let lines: Vec<String> = plain(text).lines().map(|line| format!("{blanks}{line}\n")).collect();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(plain("a\u{1b}[2Jb\u{202e}c\r\n"), "a\\u{1b}[2Jb\\u{202e}c\\u{d}\n");
        assert_eq!(first_line("one\ntwo"), "one");
        assert_eq!(first_line(&"x".repeat(300)).chars().count(), 161);
        assert_eq!(indented("a\nb", 2), "  a\n  b\n");
    }
}
