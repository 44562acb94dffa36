//! Bad input of every kind: a typed error, an exit code from the table, nothing half done, and all else still there.

mod command_line;
mod files;
mod ids;
mod store;
mod user;
mod workspace;

use crate::kit::{Home, said};

pub(super) const USAGE: u8 = 2;
pub(super) const NOT_FOUND: u8 = 3;
pub(super) const AMBIGUOUS: u8 = 4;
pub(super) const CONFLICT: u8 = 5;
pub(super) const BUSY: u8 = 7;
pub(super) const READ_ONLY: u8 = 8;
pub(super) const DAMAGED: u8 = 10;
pub(super) const FORMAT: u8 = 11;
pub(super) const UNSAFE_ROOT: u8 = 12;
pub(super) const BAD_FILE: u8 = 15;
pub(super) const INCOMPLETE: u8 = 16;

/// A home with two sessions, `kept-1` and `kept-2`.
pub(super) fn home() -> Home {
    let home = Home::new();
    for id in ["kept-1", "kept-2"] {
        home.ok(&["sessions", "new", "--id", id]);
        home.ok(&["chat", "--session", id, "--say", "kept words"]);
    }
    home
}

/// Everything that was there is still there, and nothing else is.
pub(super) fn all_is_as_it_was(home: &Home) {
    assert_eq!(home.ids(), ["kept-2", "kept-1"]);
    for id in ["kept-1", "kept-2"] {
        assert_eq!(
            said(&home.json(&["sessions", "show", id])),
            ["user: kept words", "assistant: You said: kept words"]
        );
    }
}

/// A session of the pi coding agent, made for these tests.
pub(super) const PI: &str = concat!(
    r#"{"type":"session","id":"pi-session","timestamp":"2025-11-20T10:00:00.000Z","cwd":"/home/user/project","provider":"p","modelId":"m","thinkingLevel":"off"}"#,
    "\n",
    r#"{"type":"message","timestamp":"2025-11-20T10:00:01.000Z","message":{"role":"user","content":[{"type":"text","text":"first"}],"timestamp":1763632801000}}"#,
    "\n",
    r#"{"type":"message","timestamp":"2025-11-20T10:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"second"}],"stopReason":"stop","timestamp":1763632802000}}"#,
    "\n",
    r#"{"type":"message","timestamp":"2025-11-20T10:00:03.000Z","message":{"role":"user","content":[{"type":"text","text":"third"}],"timestamp":1763632803000}}"#,
    "\n",
);
