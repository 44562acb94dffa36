//! What reaches a screen or a script.

use crate::kit::{Home, Running, text};

/// Text that would paint over the screen, set the window's title and hide what follows.
const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;owned\u{7}b\u{9b}31mc\u{202e}d\rz";

fn is_plain(out: &str) -> bool {
    out.chars().all(|c| c == '\n' || !(c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)))
}

#[test]
fn control_characters_of_stored_text_become_visible() {
    let home = Home::new();
    let out = home.ok(&["chat", "--title", HOSTILE, "--say", HOSTILE]);
    assert!(is_plain(&out), "{out:?}");
    for command in [
        &["sessions", "list"][..],
        &["sessions", "show", "--last"],
        &["sessions", "show", "--last", "--full"],
        &["chat", "--last", "--say", "x"],
        &["sessions", "rename", "--last", HOSTILE],
    ] {
        let out = home.ok(command);
        assert!(is_plain(&out), "{command:?}: {out:?}");
        assert!(out.contains("\\u{1b}[2J") || command[0] == "chat", "{out}");
    }
    let json = home.run(&["--json", "sessions", "show", "--last"]).out;
    assert!(is_plain(&json), "{json:?}");
    let shown: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(text(&shown["messages"][0]["text"]), HOSTILE, "the value stays what it was");
}

#[test]
fn errors_do_not_carry_control_characters_to_the_terminal() {
    let home = Home::new();
    let file = home.path("\u{1b}[31mred");
    let ran = home.run(&["import", file.to_str().unwrap()]);
    ran.refused(3, "\\u{1b}[31mred");
}

#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let home = Home::new();
    let long: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    assert_eq!(home.feed(&["chat"], long.replace('\n', " ").as_bytes()).code, 0);
    for command in [
        &["sessions", "show", "--last", "--full"][..],
        &["--json", "sessions", "show", "--last"],
        &["sessions", "list"],
        &["export", "--last"],
        &["store", "info"],
        &["--help"],
    ] {
        let mut command = home.command(command);
        let (reader, writer) = std::io::pipe().unwrap();
        command.stdout(writer);
        let running = Running::start(command);
        drop(reader);
        let ran = running.end();
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    }
}

/// Only Linux has a file that is always full.
#[cfg(target_os = "linux")]
#[test]
fn an_output_that_is_full_is_an_error() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for command in [&["sessions", "list"][..], &["export", "--last"]] {
        let mut command = home.command(command);
        command.stdout(full.try_clone().unwrap());
        Running::start(command).end().refused(9, "No space left");
    }
}

#[test]
fn nothing_is_coloured_that_no_terminal_shows() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    for command in
        [&["sessions", "list"][..], &["sessions", "show", "--last"], &["store", "info"], &["--help"]]
    {
        assert!(!home.ok(command).contains('\u{1b}'), "{command:?}");
    }
}

#[test]
fn everything_that_prints_data_prints_it_as_json() {
    let home = Home::new();
    let file = home.path("x.jsonl");
    let file = file.to_str().unwrap();
    let url = format!("sqlite:{}", home.path("other.db").display());
    let cases: &[(&[&str], &[&str])] = &[
        (&["sessions", "new", "--id", "a", "--title", "t"], &["session"]),
        (&["chat", "--last", "--say", "hello"], &["session", "provider", "turns"]),
        (&["sessions", "resume", "a", "--say", "more"], &["session", "provider", "turns"]),
        (&["sessions", "list"], &["sessions"]),
        (&["sessions", "show", "a"], &["session", "messages", "runs"]),
        (&["sessions", "rename", "a", "t2"], &["session"]),
        (&["export", "a", "--output", file], &["file", "export"]),
        (&["--store", &url, "import", file], &["import"]),
        (&["sessions", "delete", "a"], &["deleted"]),
        (&["workspace", "show"], &["workspace"]),
        (&["store", "info"], &["store"]),
    ];
    for (command, keys) in cases {
        let answer = home.json(command);
        let mut found: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = keys.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{command:?}");
    }
    let ran = home.run(&["--json", "chat"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--say"), "{}", ran.err);
}

#[test]
fn help_and_version_are_there_for_every_command() {
    let home = Home::new();
    assert_eq!(home.ok(&["--version"]), format!("turnkeep {}\n", env!("CARGO_PKG_VERSION")));
    for command in [
        &[][..],
        &["chat"],
        &["sessions"],
        &["sessions", "list"],
        &["sessions", "new"],
        &["sessions", "show"],
        &["sessions", "resume"],
        &["sessions", "rename"],
        &["sessions", "delete"],
        &["import"],
        &["export"],
        &["workspace", "show"],
        &["store", "info"],
    ] {
        let out = home.ok(&[command, &["--help"]].concat());
        assert!(out.contains("Usage: turnkeep"), "{command:?}: {out}");
        for line in out.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md")).unwrap();
        assert!(
            docs.contains(&["turnkeep", &command.join(" ")].join(" ")),
            "{command:?} is not in docs/cli.md"
        );
    }
}
