//! An offline provider: it repeats what you say, and what you said before, so that you see what was kept.

use std::time::Duration;

use turnkeep::Replay;
use turnkeep::model::role;

/// Characters of the earlier message that an answer repeats.
const EARLIER: usize = 80;

/// The echo.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Echo {
    delay: Duration,
}

impl Echo {
    /// An echo that takes so long for an answer.
    pub(crate) fn new(delay_ms: u64) -> Self {
        Self { delay: Duration::from_millis(delay_ms) }
    }

    pub(crate) const fn name(self) -> &'static str {
        "echo"
    }

    /// What a person must know about it.
    pub(crate) const fn about(self) -> &'static str {
        "answers come from echo: offline, it repeats what you say"
    }

    /// The answer in pieces, and the pause before each.
    pub(crate) fn answer(self, replay: &Replay) -> (Vec<String>, Duration) {
        let pieces = pieces(&words(replay));
        let pause = self.delay / u32::try_from(pieces.len().max(1)).unwrap_or(u32::MAX);
        (pieces, pause)
    }
}

fn words(replay: &Replay) -> String {
    let mut said = replay.messages.iter().rev().filter_map(|replayed| {
        let message = &replayed.message;
        message.is_from(role::USER).then(|| message.text())
    });
    let now = said.next().unwrap_or_default();
    match said.next() {
        Some(earlier) => {
            let earlier = crate::output::text::cut(earlier.trim(), EARLIER);
            format!("You said: {now}\nBefore that: {earlier}")
        }
        None => format!("You said: {now}"),
    }
}

/// Words, each with the white space behind it, so that all together are the text.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut ended = true;
    for c in text.chars() {
        if ended && !c.is_whitespace() {
            pieces.push(String::new());
        }
        ended = c.is_whitespace();
        match pieces.last_mut() {
            Some(piece) => piece.push(c),
            None => pieces.push(c.to_string()),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn pieces_put_together_are_the_text() {
        for text in ["", " ", "one", "  one  two\nthree ", "größe ist\tgut"] {
            assert_eq!(pieces(text).concat(), text);
        }
        assert_eq!(pieces("one  two\nthree"), ["one  ", "two\n", "three"]);
    }
}
