//! Watching a session from another program.

use rustix::process::Signal;

use crate::kit::{Home, PATIENCE, Running, text, wait_for_active_run};

fn talk(home: &Home, words: &[&str]) {
    for say in words {
        home.ok(&["chat", "--session", "talk", "--say", say]);
    }
}

#[test]
fn a_tail_shows_the_newest_words() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--id", "talk"]);
    assert_eq!(home.ok(&["sessions", "tail", "talk"]), "");
    talk(&home, &["one", "two"]);
    let out = home.ok(&["sessions", "tail", "talk", "-n", "2"]);
    assert!(out.contains("  two\n") && out.contains("You said: two") && !out.contains("  one\n"), "{out}");
    let lines = home.ok(&["--json", "sessions", "tail", "--last", "-n", "3"]);
    let said: Vec<String> = lines
        .lines()
        .map(|line| text(&serde_json::from_str::<serde_json::Value>(line).unwrap()["message"]["text"]))
        .collect();
    assert_eq!(said, ["You said: one", "two", "You said: two\nBefore that: one"]);
    home.run(&["sessions", "tail", "nobody"]).refused(3, "TK-NOT-FOUND");
}

#[test]
fn a_followed_session_shows_what_other_programs_add_until_ctrl_c() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--id", "talk"]);
    talk(&home, &["before"]);
    let tail = home.start(&["sessions", "tail", "talk", "-f"]);
    tail.wait_for("You said: before");
    talk(&home, &["and now"]);
    tail.wait_for("You said: and now");
    // A turn that is cancelled in the middle.
    let chat = home.start(&["chat", "--session", "talk", "--say", "too long", "--delay", "60000"]);
    wait_for_active_run(&home, "talk");
    tail.wait_for("  too long");
    chat.signal(Signal::INT);
    assert_eq!(chat.end().code, 130);
    tail.wait_for("-- the turn was cancelled");
    tail.signal(Signal::INT);
    let ran = tail.end();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(ran.out.matches("  and now\n").count(), 1, "each once: {}", ran.out);
}

#[test]
fn a_followed_session_is_data_line_by_line_for_scripts() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--id", "talk"]);
    let tail = home.start(&["--json", "sessions", "tail", "talk", "-f"]);
    // It follows from its beginning on, and nobody knows when that is: so it is talked to until it hears.
    let begun = std::time::Instant::now();
    while !tail.out().contains("run_completed") {
        assert!(begun.elapsed() < PATIENCE, "nothing came");
        talk(&home, &["hello"]);
    }
    tail.signal(Signal::INT);
    let ran = tail.end();
    let lines: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for what in ["message", "event"] {
        assert!(lines.iter().any(|line| line[what].is_object()), "no {what}: {}", ran.out);
    }
}

#[test]
fn following_a_session_that_is_deleted_ends() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--id", "talk"]);
    talk(&home, &["hello"]);
    let tail = home.start(&["sessions", "tail", "talk", "-f"]);
    tail.wait_for("You said: hello");
    home.ok(&["sessions", "delete", "talk", "--yes"]);
    tail.end().refused(3, "deleted");
}

#[test]
fn the_runs_of_a_session_say_how_each_ended() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--id", "talk"]);
    assert_eq!(home.ok(&["sessions", "runs", "talk"]), "it has no runs\n");
    talk(&home, &["one"]);
    let chat = home.start(&["chat", "--session", "talk", "--say", "two", "--delay", "60000"]);
    wait_for_active_run(&home, "talk");
    let active = home.json(&["sessions", "runs", "talk", "--active"]);
    assert_eq!(active["runs"].as_array().unwrap().len(), 1);
    chat.signal(Signal::INT);
    chat.end();
    let out = home.ok(&["sessions", "runs", "talk"]);
    assert!(out.contains("completed") && out.contains("cancelled"), "{out}");
    assert_eq!(out.lines().count(), 3, "{out}");
    assert_eq!(home.ok(&["sessions", "runs", "talk", "--active"]), "nobody is at work on it\n");
}

#[test]
fn a_tail_that_nobody_reads_any_more_ends_though_nothing_comes() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--id", "talk"]);
    let mut command = home.command(&["sessions", "tail", "talk", "-f"]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer);
    let running = Running::start(command);
    drop(reader);
    let ran = running.end();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}
