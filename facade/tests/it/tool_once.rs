//! The worked example of tool claims: killed in the middle, it never pays twice by itself.
#![cfg(all(feature = "sqlite", unix))]

use std::path::Path;
use std::process::Command;

#[allow(dead_code, unreachable_pub, reason = "a program of its own")]
#[path = "../../examples/tool_once.rs"]
mod program;

/// What the program says in a process of its own; `None` when it died.
fn run(place: &Path, word: &str) -> Option<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tool_once::child_runs_the_program", "--ignored", "--nocapture"])
        .env("TOOL_PLACE", place)
        .env("TOOL_WORD", word)
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let said = out.lines().find_map(|line| line.split_once("it says: ").map(|(_, said)| said.to_owned()));
    assert_eq!(said.is_some(), output.status.success(), "{out}");
    said
}

#[tokio::test]
#[ignore = "run in child processes by the other tests of this module"]
async fn child_runs_the_program() {
    let (Some(place), Ok(word)) = (std::env::var_os("TOOL_PLACE"), std::env::var("TOOL_WORD")) else {
        return;
    };
    let word = Some(word.as_str()).filter(|word| !word.is_empty());
    println!("it says: {}", program::perform(Path::new(&place), word).await.unwrap());
}

fn paid(place: &Path) -> usize {
    std::fs::read_to_string(place.join("ledger")).unwrap_or_default().lines().count()
}

#[test]
fn a_tool_that_was_killed_in_the_middle_is_not_executed_twice_by_accident() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    assert_eq!(run(place, "crash"), None);
    assert_eq!(paid(place), 1, "it died after the money went");
    for _ in 0..2 {
        assert!(run(place, "").unwrap().starts_with("may have been paid"));
        assert_eq!(paid(place), 1);
    }
    // A person decides, and only then it happens again.
    assert_eq!(run(place, "retry"), Some("paid".into()));
    assert_eq!(paid(place), 2);
    assert!(run(place, "").unwrap().contains(r#"was paid before, with {"receipt":4711}"#));
    assert_eq!(paid(place), 2);
}

#[test]
fn a_tool_that_was_given_up_is_never_executed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    assert_eq!(run(place, "crash"), None);
    assert_eq!(run(place, "give-up").unwrap(), "is abandoned; not paid");
    assert_eq!(run(place, "").unwrap(), "is abandoned; not paid");
    assert_eq!(paid(place), 1);
}

#[test]
fn many_processes_that_want_a_tool_executed_execute_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let said: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| try_until_free(place))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(said.iter().filter(|said| *said == "paid").count(), 1, "{said:?}");
    assert_eq!(paid(place), 1);
}

/// One session takes one run at a time; the others come again.
fn try_until_free(place: &Path) -> String {
    for _ in 0..200 {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tool_once::child_comes_again", "--ignored", "--nocapture"])
            .env("TOOL_PLACE", place)
            .output()
            .unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        if let Some((_, said)) = out.lines().find_map(|line| line.split_once("it says: ")) {
            return said.to_owned();
        }
        assert!(out.contains("in use"), "{out}");
    }
    panic!("the session was never free");
}

#[tokio::test]
#[ignore = "run in child processes by the other tests of this module"]
async fn child_comes_again() {
    let Some(place) = std::env::var_os("TOOL_PLACE") else { return };
    match program::perform(Path::new(&place), None).await {
        Ok(said) => println!("it says: {said}"),
        Err(error) => {
            assert!(
                matches!(
                    error.kind(),
                    turnkeep::ErrorKind::LeaseHeld
                        | turnkeep::ErrorKind::ActiveRun
                        | turnkeep::ErrorKind::StaleLeaf
                ),
                "{error}"
            );
            println!("in use");
        }
    }
}
