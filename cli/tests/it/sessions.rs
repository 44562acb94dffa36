//! Making, showing, renaming and deleting sessions; what people see of them.

use crate::kit::{Home, text};

#[test]
fn a_new_session_has_the_id_title_and_folder_that_were_given() {
    let home = Home::new();
    assert_eq!(home.ok(&["sessions", "new", "--id", "parser", "--title", "fix the parser"]), "parser\n");
    let shown = home.json(&["sessions", "show", "parser"]);
    assert_eq!(shown["session"]["title"], "fix the parser");
    assert_eq!(text(&shown["session"]["cwd"]), home.project().canonicalize().unwrap().display().to_string());
    assert_eq!(shown["messages"].as_array().unwrap().len(), 0);
}

#[test]
fn a_renamed_session_keeps_its_title_through_a_talk() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let id = home.last_id();
    let out = home.ok(&["sessions", "rename", &id[..6], "a first talk"]);
    assert_eq!(out, format!("{id} is now: a first talk\n"));
    home.ok(&["chat", "--last", "--say", "more"]);
    assert_eq!(home.json(&["sessions", "show", &id])["session"]["title"], "a first talk");
    home.ok(&["sessions", "rename", "--last", "another"]);
    assert_eq!(home.json(&["sessions", "show", &id])["session"]["title"], "another");
}

#[test]
fn a_rename_without_a_title_is_refused() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--id", "a"]);
    home.run(&["sessions", "rename", "a"]).refused(2, "new title");
    home.run(&["sessions", "rename", "a", "  "]).refused(2, "empty");
    home.run(&["sessions", "rename", "--last", "a", "b"]).refused(2, "--last");
}

#[test]
fn a_deleted_session_is_gone_and_its_id_begins_anew() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--id", "again", "--title", "old"]);
    home.ok(&["chat", "--session", "again", "--say", "a secret"]);
    assert_eq!(home.ok(&["sessions", "delete", "again"]), "deleted again (2 messages): old\n");
    home.run(&["sessions", "show", "again"]).refused(3, "TK-NOT-FOUND");
    home.ok(&["sessions", "new", "--id", "again"]);
    let shown = home.json(&["sessions", "show", "again"]);
    assert_eq!(shown["session"]["messages"], 0);
    assert!(shown["session"]["title"].is_null());
    assert!(!home.ok(&["sessions", "show", "again"]).contains("secret"));
}

#[test]
fn a_shown_session_reads_as_a_conversation() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--id", "talk", "--title", "a talk"]);
    home.ok(&["chat", "--session", "talk", "--say", "hello\n\nsecond paragraph"]);
    let out = home.ok(&["sessions", "show", "talk"]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "session  talk");
    assert_eq!(lines[1], "title    a talk");
    assert!(lines[4].starts_with("folder   "), "{out}");
    assert_eq!(lines[5], "holds    2 messages, 1 run");
    assert_eq!(lines[6], "");
    assert!(lines[7].starts_with("user  #2  "), "{out}");
    assert_eq!(lines[8..11], ["  hello", "", "  second paragraph"]);
    assert!(lines[12].starts_with("assistant  #3  "), "{out}");
    assert!(!out.contains("RUN"), "a list of runs that all completed tells nothing");
}

#[test]
fn long_messages_are_cut_unless_full_ones_are_asked_for() {
    let home = Home::new();
    let long: String = (1..=100).map(|n| format!("line {n}\n")).collect();
    home.ok(&["chat", "--say", &long]);
    let out = home.ok(&["sessions", "show", "--last"]);
    assert!(out.contains("  line 20\n  … 80 more lines; --full shows them\n"), "{out}");
    let out = home.ok(&["sessions", "show", "--last", "--full"]);
    assert!(out.contains("  line 100\n") && !out.contains("--full"), "{out}");
}

#[test]
fn the_latest_messages_are_shown_in_their_order() {
    let home = Home::new();
    home.ok(&["chat", "--say", "one", "--say", "two", "--say", "three"]);
    let shown = home.json(&["sessions", "show", "--last", "--latest", "2"]);
    assert_eq!(crate::kit::said(&shown), ["user: three", "assistant: You said: three\nBefore that: two"]);
}

#[test]
fn without_a_session_last_says_what_to_do() {
    let home = Home::new();
    home.run(&["sessions", "show", "--last"]).refused(3, "turnkeep chat");
    home.run(&["chat", "--last", "--say", "x"]).refused(3, "turnkeep chat");
    assert_eq!(home.ok(&["sessions", "list"]), "no sessions yet; begin one with `turnkeep chat`\n");
}

#[test]
fn sessions_of_one_workspace_are_not_seen_in_another() {
    let home = Home::new();
    home.ok(&["chat", "--say", "private"]);
    let id = home.last_id();
    let other = home.path("other");
    std::fs::create_dir(&other).unwrap();
    let other = other.to_str().unwrap();
    assert_eq!(
        home.json(&["--workspace", other, "sessions", "list"])["sessions"].as_array().unwrap().len(),
        0
    );
    home.run(&["--workspace", other, "sessions", "show", &id]).refused(3, "TK-NOT-FOUND");
    home.run(&["--workspace", other, "sessions", "delete", &id]).refused(3, "TK-NOT-FOUND");
    let store = format!("sqlite:{}", home.database().display());
    let ran = home.run(&["--workspace", other, "--store", &store, "sessions", "show", &id]);
    ran.refused(3, "TK-NOT-FOUND");
}

#[test]
fn case_56_a_moved_folder_keeps_its_sessions() {
    let home = Home::new();
    let project = home.project().canonicalize().unwrap();
    home.ok(&["chat", "--say", "before the move"]);
    let id = home.last_id();
    let moved = home.path("moved");
    std::fs::rename(&project, &moved).unwrap();
    std::fs::create_dir(&project).unwrap();
    let ran =
        home.run(&["--workspace", moved.to_str().unwrap(), "chat", "--session", &id, "--say", "after it"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("its sessions came along"), "{}", ran.err);
    assert!(ran.out.contains("Before that: before the move"), "{}", ran.out);
    let link = home.path("link");
    std::os::unix::fs::symlink(&moved, &link).unwrap();
    let out = home.ok(&["--workspace", link.to_str().unwrap(), "sessions", "show", &id]);
    assert!(out.contains("after it"), "{out}");
}

#[test]
fn a_store_in_memory_is_gone_at_the_end_and_leaves_nothing_behind() {
    let home = Home::new();
    let out = home.ok(&["--store", "memory:", "chat", "--say", "hello"]);
    assert!(out.ends_with("You said: hello\n"), "{out}");
    assert_eq!(
        home.json(&["--store", "memory:", "sessions", "list"])["sessions"].as_array().unwrap().len(),
        0
    );
    assert!(!home.path("state").exists());
    assert!(!home.project().join(".turnkeep").exists());
    let info = home.json(&["--store", "memory:", "store", "info"]);
    assert_eq!(info["store"]["backend"], "memory");
    assert_eq!(info["store"]["durability"], "D0");
}

#[test]
fn another_store_has_sessions_of_its_own() {
    let home = Home::new();
    home.ok(&["chat", "--say", "in the workspace"]);
    let url = format!("sqlite:{}", home.path("other.db").display());
    home.ok(&["--store", &url, "chat", "--say", "in the other file"]);
    let list = home.json(&["--store", &url, "sessions", "list"]);
    assert_eq!(list["sessions"][0]["preview"], "in the other file");
    assert_eq!(home.json(&["sessions", "list"])["sessions"][0]["preview"], "in the workspace");
}

#[test]
fn the_workspace_and_the_store_say_where_things_are() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let workspace = home.json(&["workspace", "show"]);
    let marker = std::fs::read_to_string(text(&workspace["workspace"]["marker"])).unwrap();
    assert_eq!(marker.trim(), text(&workspace["workspace"]["id"]));
    assert_eq!(workspace["workspace"]["sessions"], 1);
    let info = home.json(&["store", "info"]);
    assert_eq!(info["store"]["backend"], "sqlite");
    assert_eq!(info["store"]["durability"], "D3");
    assert_eq!(info["store"]["location"], workspace["workspace"]["store"]);
    assert_eq!(info["store"]["size"]["sessions"], 1);
    let out = home.ok(&["store", "info"]);
    assert!(out.contains("durability  D3: an acknowledged commit survives power loss\n"), "{out}");
    assert!(home.ok(&["workspace", "show"]).contains("sessions   1\n"));
}
