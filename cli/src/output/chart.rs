//! Bars in a terminal.

/// Characters of the longest bar.
const WIDTH: u64 = 16;
/// A part of a character, in eighths.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A bar as long as `part` is of `most`. Whatever is more than nothing is seen.
pub(crate) fn bar(part: u64, most: u64) -> String {
    if part == 0 || most == 0 {
        return String::new();
    }
    let eighths = u128::from(part) * u128::from(WIDTH * 8) / u128::from(most);
    let eighths = usize::try_from(eighths).unwrap_or(usize::MAX).clamp(1, WIDTH as usize * 8);
    let mut bar = "█".repeat(eighths / 8);
    if let Some(rest) = EIGHTHS.get(eighths % 8).filter(|rest| **rest != ' ') {
        bar.push(*rest);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_part() {
        assert_eq!(bar(0, 100), "");
        assert_eq!(bar(100, 100), "█".repeat(16));
        assert_eq!(bar(50, 100), "█".repeat(8));
        assert_eq!(bar(1, 1_000_000), "▏", "more than nothing is seen");
        assert_eq!(bar(u64::MAX, u64::MAX).chars().count(), 16);
        assert_eq!(bar(3, 0), "");
    }
}
