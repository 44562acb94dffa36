//! Command lines that say nothing, or too much.

use super::{
    AMBIGUOUS, BAD_FILE, BUSY, CONFLICT, DAMAGED, FORMAT, INCOMPLETE, NOT_FOUND, READ_ONLY, UNSAFE_ROOT,
    USAGE, all_is_as_it_was, home,
};
use crate::kit::Home;

#[test]
fn a_wrong_command_line_is_refused_with_the_usage() {
    let home = home();
    for args in [
        &["bogus"][..],
        &["sessions"],
        &["sessions", "show"],
        &["sessions", "show", "a", "--last"],
        &["sessions", "list", "--limit", "0"],
        &["chat", "--last", "--session", "a"],
        &["chat", "--delay", "-1"],
        &["import"],
        &["--wait", "soon", "sessions", "list"],
    ] {
        let ran = home.run(args);
        assert_eq!(ran.code, i32::from(USAGE), "{args:?}");
        assert!(ran.err.contains("Usage: ") || ran.err.contains("--help"), "{args:?}: {}", ran.err);
    }
    let ran = home.run(&["--json", "sessions", "show"]);
    let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((ran.code, &error["error"]["exit"]), (2, &2.into()), "{error}");
    for args in [&["sessions", "new", "--title", " "][..], &["chat", "--title", "", "--say", "x"]] {
        home.run(args).refused(USAGE, "the title is empty");
    }
    all_is_as_it_was(&home);
}

#[test]
fn every_exit_code_that_is_tested_here_is_in_the_docs() {
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md")).unwrap();
    for code in [
        USAGE,
        NOT_FOUND,
        AMBIGUOUS,
        CONFLICT,
        BUSY,
        READ_ONLY,
        DAMAGED,
        FORMAT,
        UNSAFE_ROOT,
        BAD_FILE,
        INCOMPLETE,
    ] {
        assert!(docs.contains(&format!("\n| {code} | ")), "{code}");
    }
    let home = Home::new();
    let help = home.ok(&["--help"]);
    assert!(help.contains(" 10  the stored data is damaged"), "{help}");
}
