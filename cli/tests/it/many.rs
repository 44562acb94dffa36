//! Many processes on one store.

use std::collections::BTreeSet;

use crate::kit::{Home, Ran, Running, said, states, text};

fn all_end(running: Vec<Running>) -> Vec<Ran> {
    running.into_iter().map(Running::end).collect()
}

/// Eight processes, a hundred turns each: a turn appends a question and an answer, so two hundred appends each.
#[test]
fn case_28_eight_processes_append_200_messages_each_without_an_error() {
    const PROCESSES: usize = 8;
    const TURNS: usize = 100;
    let home = Home::new();
    home.ok(&["sessions", "list"]);
    let input: String = (0..TURNS).map(|turn| format!("message {turn}\n")).collect();
    let mut running: Vec<Running> = (0..PROCESSES).map(|_| home.start_fed(&["chat"])).collect();
    for process in &mut running {
        process.say(input.as_bytes());
        process.hang_up();
    }
    for ran in all_end(running) {
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    }
    let list = home.json(&["sessions", "list"]);
    let sessions = list["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), PROCESSES);
    let rows: u64 = sessions.iter().map(|session| session["messages"].as_u64().unwrap()).sum();
    assert_eq!(rows, 1_600);
    for session in sessions {
        let shown = home.json(&["sessions", "show", &text(&session["id"])]);
        let users: Vec<String> = said(&shown).into_iter().filter(|line| line.starts_with("user")).collect();
        let expected: Vec<String> = (0..TURNS).map(|turn| format!("user: message {turn}")).collect();
        assert_eq!(users, expected, "in the order in which they were said");
        assert!(states(&shown).iter().all(|state| state == "completed"));
    }
}

#[test]
fn case_29_sixteen_processes_open_one_fresh_file_at_once() {
    const ROUNDS: usize = 50;
    let home = Home::new();
    home.ok(&["workspace", "show"]);
    for round in 0..ROUNDS {
        let url = format!("sqlite:{}", home.path(&format!("fresh-{round}.db")).display());
        let running = (0..16).map(|_| home.start(&["--store", &url, "sessions", "list"])).collect();
        for ran in all_end(running) {
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "round {round}");
        }
    }
}

#[test]
fn case_35_ten_processes_start_in_a_workspace_that_was_never_opened() {
    let home = Home::new();
    let running = (0..10).map(|n| home.start(&["chat", "--say", &format!("hello from {n}")])).collect();
    for ran in all_end(running) {
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    }
    let list = home.json(&["sessions", "list"]);
    let said: BTreeSet<String> =
        list["sessions"].as_array().unwrap().iter().map(|session| text(&session["preview"])).collect();
    assert_eq!(said, (0..10).map(|n| format!("hello from {n}")).collect());
}

#[test]
fn case_63_ids_drawn_by_eight_processes_at_once_are_all_different() {
    const PROCESSES: usize = 8;
    const SESSIONS: usize = 50;
    let home = Home::new();
    home.ok(&["sessions", "list"]);
    let input = "hello\n/new\n".repeat(SESSIONS);
    let mut running: Vec<Running> = (0..PROCESSES).map(|_| home.start_fed(&["chat"])).collect();
    for process in &mut running {
        process.say(input.as_bytes());
        process.hang_up();
    }
    for ran in all_end(running) {
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    }
    let ids = home.ids();
    assert_eq!(ids.len(), PROCESSES * SESSIONS);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

#[test]
fn case_63_creating_under_a_used_id_never_replaces() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--id", "mine", "--title", "the first"]);
    let running = (0..4)
        .map(|n| home.start(&["sessions", "new", "--id", "mine", "--title", &format!("no {n}")]))
        .collect();
    for ran in all_end(running) {
        ran.refused(5, "TK-ALREADY-EXISTS");
    }
    assert_eq!(home.json(&["sessions", "show", "mine"])["session"]["title"], "the first");
}
