//! Talking: turns, continuing, Ctrl-C, two chats at once.

use rustix::process::Signal;

use crate::kit::{Home, said, states, text, wait_for_session_at_work};

/// Words for an answer that takes long enough to be interrupted in its middle.
const LONG: &str = "one two three four five six seven eight nine ten";

#[test]
fn a_first_message_is_answered_and_the_session_is_named() {
    let home = Home::new();
    let out = home.ok(&["chat", "--say", "hello"]);
    let id = home.last_id();
    assert_eq!(
        out,
        format!(
            "session {id} (new)\nanswers come from echo: offline, it repeats what you say\n\n> hello\nYou said: hello\n"
        )
    );
}

#[test]
fn another_process_continues_the_last_session() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let out = home.ok(&["chat", "--last", "--say", "go on"]);
    assert!(out.contains("(2 messages so far: hello)"), "{out}");
    assert!(out.ends_with("> go on\nYou said: go on\nBefore that: hello\n"), "{out}");
    let shown = home.json(&["sessions", "show", "--last"]);
    assert_eq!(
        said(&shown),
        [
            "user: hello",
            "assistant: You said: hello",
            "user: go on",
            "assistant: You said: go on\nBefore that: hello"
        ]
    );
    assert_eq!(states(&shown), ["completed", "completed"]);
    assert_eq!(home.ids().len(), 1);
}

#[test]
fn several_things_are_said_in_turn_and_answered_as_json() {
    let home = Home::new();
    let answer = home.json(&["chat", "--say", "one", "--say", "two"]);
    let turns = answer["turns"].as_array().unwrap();
    let answers: Vec<String> = turns.iter().map(|turn| text(&turn["answer"])).collect();
    assert_eq!(answers, ["You said: one", "You said: two\nBefore that: one"]);
    assert_eq!(answer["session"]["messages"], 4);
    assert_eq!(answer["provider"]["name"], "echo");
}

#[test]
fn a_session_is_continued_by_the_beginning_of_its_id() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let id = home.last_id();
    home.ok(&["chat", "--say", "another"]);
    home.ok(&["sessions", "resume", &id[..8], "--say", "back again"]);
    assert_eq!(home.last_id(), id);
    assert_eq!(home.json(&["sessions", "show", &id[..8]])["session"]["messages"], 4);
}

#[test]
fn lines_of_a_script_are_said_and_obeyed() {
    let home = Home::new();
    let ran = home.feed(
        &["chat", "--title", "first"],
        b"hello\n\n/new second one\n//etc is a folder\n/sessions\n/help\n/quit\nnever said\n",
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("> /etc is a folder\nYou said: /etc is a folder\n"), "{}", ran.out);
    assert!(ran.out.contains("/resume ID"), "{}", ran.out);
    assert!(!ran.out.contains("never said"), "{}", ran.out);
    let list = home.json(&["sessions", "list"]);
    let titles: Vec<String> =
        list["sessions"].as_array().unwrap().iter().map(|session| text(&session["title"])).collect();
    assert_eq!(titles, ["second one", "first"]);
}

#[test]
fn a_script_resumes_a_session_and_sees_its_newest_messages() {
    let home = Home::new();
    home.ok(&["chat", "--say", "kept word"]);
    let id = home.last_id();
    let ran = home.feed(&["chat"], format!("/resume {}\nmore\n", &id[..10]).as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("kept word"), "{}", ran.out);
    assert!(ran.out.contains("Before that: kept word"), "{}", ran.out);
    assert_eq!(home.ids(), [id]);
}

#[test]
fn a_wrong_line_of_a_script_does_not_stop_it_but_shows_in_the_exit_code() {
    let home = Home::new();
    let ran = home.feed(&["chat"], b"hello\n/bogus\n/resume nope\n\xff\xfe\nlast\n");
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("/bogus is no command"), "{}", ran.err);
    assert!(ran.err.contains("TK-NOT-FOUND"), "{}", ran.err);
    assert!(ran.err.contains("not UTF-8"), "{}", ran.err);
    assert_eq!(home.json(&["sessions", "show", "--last"])["session"]["messages"], 4);
}

#[test]
fn a_chat_in_which_nobody_said_a_word_leaves_no_session() {
    let home = Home::new();
    let ran = home.feed(&["chat"], b"\n/new\n/quit\n");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(home.ids().is_empty());
}

#[test]
fn ctrl_c_cancels_what_was_said_on_the_command_line_and_records_it() {
    let home = Home::new();
    let running = home.start(&["chat", "--say", LONG, "--delay", "120000"]);
    running.wait_for("> one two");
    wait_for_session_at_work(&home);
    running.signal(Signal::INT);
    let ran = running.end();
    assert_eq!(ran.code, 130, "{}", ran.err);
    assert!(ran.err.contains("note: the turn was cancelled"), "{}", ran.err);
    let shown = home.json(&["sessions", "show", "--last"]);
    assert_eq!(states(&shown), ["cancelled"]);
    assert_eq!(said(&shown)[0], format!("user: {LONG}"));
    let out = home.ok(&["chat", "--last", "--say", "short"]);
    assert!(out.ends_with("You said: short\n"), "a cancelled message is not replayed: {out}");
}

#[test]
fn ctrl_c_in_a_conversation_cancels_the_turn_and_the_program_goes_on() {
    let home = Home::new();
    let mut running = home.start_fed(&["chat", "--delay", "60000"]);
    running.say(format!("{LONG}\n").as_bytes());
    running.wait_for("> one two");
    wait_for_session_at_work(&home);
    running.signal(Signal::INT);
    running.say(b"/sessions\n");
    running.wait_for("MESSAGES");
    running.hang_up();
    let ran = running.end();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("note: cancelled"), "{}", ran.err);
    let shown = home.json(&["sessions", "show", "--last"]);
    assert_eq!(states(&shown), ["cancelled"]);
}

#[test]
fn text_that_was_streamed_before_a_cancel_is_shown_as_unfinished() {
    let home = Home::new();
    let running = home.start(&["chat", "--say", LONG, "--delay", "9000"]);
    running.wait_for("You said: one ");
    running.signal(Signal::INT);
    assert_eq!(running.end().code, 130);
    let shown = home.json(&["sessions", "show", "--last"]);
    let messages = shown["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2, "{shown}");
    assert_eq!(messages[1]["partial"], true);
    assert!(text(&messages[1]["text"]).starts_with("You said: "), "{shown}");
    assert!(home.ok(&["sessions", "show", "--last"]).contains("  unfinished\n"));
    assert_eq!(shown["session"]["messages"], 1, "unfinished text is no message");
}

#[test]
fn case_33_a_second_chat_on_a_session_is_told_that_it_is_in_use() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let id = home.last_id();
    let first = home.start(&["chat", "--session", &id, "--say", LONG, "--delay", "120000"]);
    wait_for_session_at_work(&home);
    home.run(&["chat", "--session", &id, "--say", "me too"]).refused(6, "TK-");
    home.run(&["sessions", "delete", &id]).refused(6, "TK-");
    let still = home.json(&["sessions", "show", &id]);
    assert!(still["session"]["active_run"].is_string(), "the first one goes on: {still}");
    first.signal(Signal::INT);
    assert_eq!(first.end().code, 130);
    home.ok(&["chat", "--session", &id, "--say", "now me"]);
    let shown = home.json(&["sessions", "show", &id]);
    assert_eq!(states(&shown), ["completed", "cancelled", "completed"]);
    assert!(!said(&shown).iter().any(|line| line.contains("me too")), "{shown}");
}

#[test]
fn case_33_a_chat_that_was_overtaken_shows_what_came_and_says_nothing() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let id = home.last_id();
    let mut slow = home.start_fed(&["chat", "--session", &id]);
    slow.wait_for("You said: hello");
    home.ok(&["chat", "--session", &id, "--say", "I was first"]);
    slow.say(b"too late\n");
    slow.wait_for("I was first");
    slow.say(b"after reading\n");
    slow.hang_up();
    let ran = slow.end();
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert!(ran.err.contains("TK-STALE-LEAF"), "{}", ran.err);
    let shown = home.json(&["sessions", "show", &id]);
    let users: Vec<String> = said(&shown).into_iter().filter(|line| line.starts_with("user")).collect();
    assert_eq!(users, ["user: hello", "user: I was first", "user: after reading"]);
    assert_eq!(states(&shown), ["completed"; 3]);
}

#[test]
fn a_rename_reaches_a_session_on_which_somebody_is_at_work() {
    let home = Home::new();
    let running = home.start(&["chat", "--say", LONG, "--delay", "120000"]);
    wait_for_session_at_work(&home);
    home.ok(&["sessions", "rename", "--last", "busy"]);
    running.signal(Signal::INT);
    assert_eq!(running.end().code, 130);
    assert_eq!(home.json(&["sessions", "show", "--last"])["session"]["title"], "busy");
}

#[test]
fn a_session_deleted_by_force_ends_the_turn_of_the_other_program() {
    let home = Home::new();
    let running = home.start(&["chat", "--say", LONG, "--delay", "20000"]);
    wait_for_session_at_work(&home);
    let id = home.last_id();
    home.ok(&["sessions", "delete", &id, "--force"]);
    let ran = running.end();
    assert!([3, 6].contains(&ran.code), "{}: {}", ran.code, ran.err);
    assert!(home.ids().is_empty(), "nothing old comes back");
}

#[test]
fn a_reader_that_goes_away_does_not_cost_the_answer() {
    let home = Home::new();
    let mut command = home.command(&["chat", "--say", "hello", "--delay", "300"]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer);
    let running = crate::kit::Running::start(command);
    drop(reader);
    let ran = running.end();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let shown = home.json(&["sessions", "show", "--last"]);
    assert_eq!(states(&shown), ["completed"]);
    assert_eq!(said(&shown), ["user: hello", "assistant: You said: hello"]);
}
