//! Runs each example and reads what it prints.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like the tests themselves")]

use std::process::Command;

/// What a program printed and its exit code.
fn run(program: &str, args: &[&str]) -> (String, i32) {
    let output = Command::new(program).args(args).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!err.contains("panicked"), "{err}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code().unwrap())
}

#[test]
fn a_host_crashes_in_the_middle_of_a_turn_and_tries_again() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let program = env!("CARGO_BIN_EXE_host-author");
    let (out, code) = run(program, &[place, "crash"]);
    assert_eq!((out.as_str(), code), ("crashing; everything so far is on disk\n", 3));
    let (out, code) = run(program, &[place]);
    let question = "user: How many loaves? My password=[redacted:password] opens the till.\n";
    let first = format!("{question}assistant: I count them.\ntool: seven\n");
    let found = "an earlier run was interrupted: Running when its process died\n";
    assert_eq!(out, format!("{found}{first}{first}assistant: There are seven loaves.\n"));
    assert_eq!(code, 0);
}

#[test]
fn a_test_is_the_same_every_time() {
    let program = env!("CARGO_BIN_EXE_test-author");
    let (out, code) = run(program, &[]);
    assert_eq!(code, 0, "{out}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("the session is "), "{out}");
    let rest = [
        "kept after 2 tries, 1 time(s)",
        "a minute later: 60000 ms",
        "recovered 1 run(s)",
        "the model is shown 2 messages of it",
    ];
    assert_eq!(lines[1..], rest);
    assert_eq!(run(program, &[]).0, out);
}

#[test]
fn a_backend_author_learns_which_promise_broke() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().to_str().unwrap();
    let program = env!("CARGO_BIN_EXE_backend-author");
    let (out, code) = run(program, &["--only", "IDM-001", "--report", report]);
    assert_eq!(code, 17, "{out}");
    assert!(out.contains("broken  IDM-001") && !out.contains("manifest"), "{out}");
    let (out, code) = run(program, &["--only", "ORD-001", "--report", report]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("kept"), "{out}");
    let (out, code) = run(program, &["explain", "IDM-001"]);
    assert_eq!(code, 0);
    assert!(out.contains("IDM-001"), "{out}");
}
