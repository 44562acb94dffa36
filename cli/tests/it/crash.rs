//! Programs that are killed.

use crate::kit::{Home, said, states, text, wait_for_active_run, wait_for_session_at_work};

const LONG: &str = "one two three four five six seven eight nine ten";

#[test]
fn case_17_a_killed_turn_is_interrupted_at_once_and_the_next_turn_works() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let id = home.last_id();
    // Long enough that only a kill can end it within the patience of this test.
    let running = home.start(&["chat", "--last", "--say", LONG, "--delay", "600000"]);
    wait_for_active_run(&home, &id);
    assert_eq!(running.kill().code, 128 + 9);

    let ran = home.run(&["sessions", "show", "--last"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains(&format!("run 2 interrupted\n  {LONG}\n")), "{}", ran.out);
    assert!(ran.err.contains(&format!("note: a turn of session {id} was left unfinished")), "{}", ran.err);
    let shown = home.json(&["sessions", "show", "--last"]);
    assert_eq!(states(&shown), ["completed", "interrupted"]);
    assert_eq!(said(&shown).last().unwrap(), &format!("user: {LONG}"));
    assert!(shown["session"]["active_run"].is_null());

    // Nothing has to time out first, and the question nobody answered is not replayed.
    let out = home.ok(&["chat", "--last", "--say", "still there?"]);
    assert!(out.ends_with("You said: still there?\nBefore that: hello\n"), "{out}");
    assert_eq!(states(&home.json(&["sessions", "show", &id])), ["completed", "interrupted", "completed"]);
}

#[test]
fn case_17_the_next_turn_itself_recovers_what_a_killed_program_left() {
    let home = Home::new();
    let running = home.start(&["chat", "--say", LONG, "--delay", "600000"]);
    let id = wait_for_session_at_work(&home);
    running.kill();
    let ran = home.run(&["chat", "--session", &id, "--say", "next"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(states(&home.json(&["sessions", "show", &id])), ["interrupted", "completed"]);
}

#[test]
fn text_that_was_streamed_before_a_kill_is_shown_and_never_replayed() {
    let home = Home::new();
    let running = home.start(&["chat", "--say", LONG, "--delay", "9000"]);
    running.wait_for("You said: one two ");
    running.kill();
    let shown = home.json(&["sessions", "show", "--last"]);
    let unfinished = &shown["messages"][1];
    assert_eq!(unfinished["partial"], true, "{shown}");
    assert!(text(&unfinished["text"]).starts_with("You said: one "), "{shown}");
    let out = home.run(&["chat", "--last", "--say", "short"]).out;
    assert!(out.ends_with("You said: short\n"), "{out}");
}

#[test]
fn case_61_counts_agree_with_the_messages_after_a_kill() {
    let home = Home::new();
    home.ok(&["chat", "--say", "a title of its own"]);
    let id = home.last_id();
    for round in 1..=3 {
        let running = home.start(&["chat", "--session", &id, "--say", LONG, "--delay", "600000"]);
        wait_for_active_run(&home, &id);
        running.kill();
        let list = home.json(&["sessions", "list"]);
        let listed = &list["sessions"][0];
        let shown = home.json(&["sessions", "show", &id]);
        let messages = shown["messages"].as_array().unwrap().len();
        assert_eq!(listed["messages"].as_u64().unwrap() as usize, messages);
        assert_eq!(messages, 2 + round);
        assert_eq!(listed["runs"].as_u64().unwrap() as usize, states(&shown).len());
        assert_eq!(listed["preview"], "a title of its own");
    }
}

/// A writer is killed again and again, at points that differ. What it said it had done is there; nothing is torn.
#[test]
fn case_08_what_was_answered_before_a_kill_is_there_and_the_next_append_works() {
    const ROUNDS: usize = 200;
    let home = Home::new();
    home.ok(&["chat", "--say", "begin"]);
    let id = home.last_id();
    let lines: Vec<String> = (0..40).map(|line| format!("line {line} {}\n", "x".repeat(line * 37))).collect();
    let mut answered = 0;
    for round in 0..ROUNDS {
        let mut running = home.start_fed(&["chat", "--session", &id]);
        // It may die while we still write.
        let input: String = lines.iter().map(|line| format!("round {round} {line}")).collect();
        running.say(input.as_bytes());
        running.wait_for(&format!("You said: round {round} line {}", round % 3));
        std::thread::sleep(std::time::Duration::from_micros((round as u64 * 7919) % 15_000));
        let ran = running.kill();
        answered += answers(&ran.out, round);
    }
    let shown = home.json(&["sessions", "show", &id]);
    let lines = said(&shown);
    let completed = states(&shown).iter().filter(|state| *state == "completed").count();
    let kept = lines.iter().filter(|line| line.starts_with("assistant: You said: round ")).count();
    assert!(kept >= answered, "{answered} were answered on screen, {kept} are kept");
    assert_eq!(completed, kept + 1, "an answer without a completed run, or the other way round");
    for (at, line) in lines.iter().enumerate() {
        let Some(words) = line.strip_prefix("assistant: You said: ") else { continue };
        let first = words.lines().next().unwrap();
        assert_eq!(lines[at - 1], format!("user: {first}"), "an answer follows its question");
    }
    assert_eq!(home.run(&["chat", "--session", &id, "--say", "the end"]).code, 0);
}

/// Answers that were shown whole: the line after them was begun.
fn answers(out: &str, round: usize) -> usize {
    let shown = out.matches(&format!("\nYou said: round {round} ")).count();
    let next = out.matches(&format!("> round {round} ")).count();
    assert!(next >= shown);
    // An answer is acknowledged by whatever follows it on the screen.
    if next > shown { shown } else { shown.saturating_sub(1) }
}
