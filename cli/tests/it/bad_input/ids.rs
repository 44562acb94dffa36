//! Ids that are unknown, ambiguous, hostile or none; and what is said.

use std::path::PathBuf;

use super::{AMBIGUOUS, NOT_FOUND, USAGE, all_is_as_it_was, home};
use crate::kit::{Home, said};

/// Gives an id to every command that takes one.
fn every_command(home: &Home, id: &str, code: u8, word: &str) {
    let out = home.path("never.jsonl");
    let commands: &[&[&str]] = &[
        &["sessions", "show", id],
        &["sessions", "resume", id, "--say", "x"],
        &["sessions", "rename", id, "a title"],
        &["sessions", "delete", id],
        &["chat", "--session", id, "--say", "x"],
        &["export", id],
        &["export", id, "--output", out.to_str().unwrap()],
    ];
    for command in commands {
        let ran = home.run(command);
        ran.refused(code, word);
        assert_eq!(ran.out, "", "{command:?}");
        let ran = home.run(&[&["--json"], *command].concat());
        let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!(error["error"]["exit"], code, "{command:?}");
        assert_eq!(error["error"]["code"], word, "{command:?}");
    }
    assert!(!out.exists());
    all_is_as_it_was(home);
}

#[test]
fn an_unknown_id_is_refused() {
    every_command(&home(), "nobody", NOT_FOUND, "TK-NOT-FOUND");
}

#[test]
fn an_ambiguous_id_is_refused_and_the_candidates_are_named() {
    let home = home();
    every_command(&home, "kept", AMBIGUOUS, "TK-AMBIGUOUS");
    let ran = home.run(&["sessions", "show", "kept"]);
    assert!(ran.err.contains("kept-1") && ran.err.contains("kept-2"), "{}", ran.err);
}

#[test]
fn an_empty_id_is_refused() {
    every_command(&home(), "", USAGE, "TK-INVALID");
}

#[test]
fn an_overlong_id_is_refused_and_not_repeated_on_the_screen() {
    let home = home();
    let long = "x".repeat(10 * 1024);
    every_command(&home, &long, USAGE, "TK-TOO-LARGE");
    assert!(home.run(&["sessions", "show", &long]).err.len() < 1024);
    home.run(&["sessions", "new", "--id", &long]).refused(USAGE, "TK-TOO-LARGE");
    all_is_as_it_was(&home);
}

#[test]
fn an_id_that_looks_like_a_path_is_only_an_id() {
    let home = home();
    let before = home.state_files();
    every_command(&home, "../../x", NOT_FOUND, "TK-NOT-FOUND");
    assert_eq!(names(&home.state_files()), names(&before));
    // It may even be one: an id never becomes a path.
    home.ok(&["sessions", "new", "--id", "../../x", "--title", "odd"]);
    assert_eq!(home.json(&["sessions", "show", "../.."])["session"]["title"], "odd");
    home.ok(&["sessions", "delete", "../../x"]);
    all_is_as_it_was(&home);
}

/// Names that do not come and go with each process.
fn names(files: &[PathBuf]) -> Vec<String> {
    let mut names: Vec<String> = files
        .iter()
        .map(|path| path.display().to_string())
        .filter(|name| !name.contains(".owners/") && !name.ends_with("-wal") && !name.ends_with("-shm"))
        .collect();
    names.sort();
    names
}

#[test]
fn an_id_with_control_characters_is_refused_and_not_sent_to_the_terminal() {
    let home = home();
    every_command(&home, "kept-1\u{1b}[31m", USAGE, "TK-INVALID");
    every_command(&home, "kept-1\n", USAGE, "TK-INVALID");
    home.run(&["sessions", "new", "--id", "a\u{7}"]).refused(USAGE, "TK-INVALID");
    all_is_as_it_was(&home);
}

#[test]
fn an_id_with_a_nul_is_refused() {
    let home = home();
    let ran = home.feed(&["chat"], b"/resume kept-1\0\n");
    ran.refused(USAGE, "TK-INVALID");
    all_is_as_it_was(&home);
}

#[test]
fn an_id_with_sql_in_it_is_only_an_id() {
    every_command(&home(), "x') OR 1=1 --", NOT_FOUND, "TK-NOT-FOUND");
    every_command(&home(), "kept%", NOT_FOUND, "TK-NOT-FOUND");
    every_command(&home(), "kept__", NOT_FOUND, "TK-NOT-FOUND");
}

#[test]
fn case_71_a_search_text_with_sql_or_wildcards_is_literal() {
    let home = home();
    for text in ["x') OR 1=1 --", "%", "_", "kept*", "\\"] {
        assert_eq!(home.ok(&["sessions", "list", "--search", text]), "no session fits\n", "{text}");
    }
    let found = home.json(&["sessions", "list", "--search", "KEPT words"]);
    assert_eq!(found["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn case_25_a_message_over_the_limit_is_refused_and_the_session_stays_usable() {
    let home = home();
    let mut input = vec![b'x'; 17 * 1024 * 1024];
    input.extend_from_slice(b"\nafter it\n");
    let mut running = home.start_fed(&["chat", "--session", "kept-1"]);
    running.say(&input);
    running.hang_up();
    let ran = running.end();
    assert_eq!(ran.code, i32::from(USAGE), "{}", ran.err);
    assert!(ran.err.contains("TK-TOO-LARGE"), "{}", ran.err);
    let said = said(&home.json(&["sessions", "show", "kept-1"]));
    assert_eq!(said[2..], ["user: after it", "assistant: You said: after it\nBefore that: kept words"]);
}

#[test]
fn nothing_to_say_is_refused() {
    let home = home();
    home.run(&["chat", "--say", " \n"]).refused(USAGE, "nothing to say");
    home.run(&["--json", "chat", "--session", "kept-1"]);
    all_is_as_it_was(&home);
}
