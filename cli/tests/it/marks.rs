//! Pins, archives, titles instead of ids.

use serde_json::Value;

use crate::kit::{Home, text};

fn listed(home: &Home, arguments: &[&str]) -> Vec<String> {
    let all = [&["sessions", "list"], arguments].concat();
    home.json(&all)["sessions"].as_array().unwrap().iter().map(|session| text(&session["id"])).collect()
}

#[test]
fn a_pinned_session_is_listed_first_until_it_is_unpinned() {
    let home = Home::new();
    for id in ["a", "b", "c", "d"] {
        home.ok(&["sessions", "new", "--id", id, "--title", &format!("title {id}")]);
    }
    home.ok(&["sessions", "pin", "b"]);
    home.ok(&["chat", "--session", "a", "--say", "hello"]);
    assert_eq!(listed(&home, &[]), ["b", "a", "d", "c"]);
    assert_eq!(listed(&home, &["--limit", "2"]), ["b", "a"]);
    assert_eq!(listed(&home, &["--pinned"]), ["b"]);
    let shown = home.ok(&["sessions", "list"]);
    assert!(shown.lines().nth(1).unwrap().contains("pinned"), "{shown}");
    let marked = home.json(&["sessions", "unpin", "b"]);
    assert_eq!(marked["session"]["pinned"], Value::Bool(false));
    assert_eq!(listed(&home, &["--pinned"]), Vec::<String>::new());
    assert!(!home.ok(&["sessions", "list"]).contains("pinned"));
}

#[test]
fn an_archived_session_leaves_the_list_and_comes_back_whole() {
    let home = Home::new();
    for id in ["a", "b"] {
        home.ok(&["chat", "--title", id, "--say", "hello"]);
    }
    let ids = listed(&home, &[]);
    home.ok(&["sessions", "archive", &ids[0]]);
    assert_eq!(listed(&home, &[]), ids[1..]);
    assert_eq!(listed(&home, &["--archived"]), ids[..1]);
    let shown = home.json(&["sessions", "show", &ids[0]]);
    assert_eq!(shown["messages"].as_array().unwrap().len(), 2, "archiving deletes nothing");
    home.ok(&["sessions", "unarchive", &ids[0]]);
    assert_eq!(listed(&home, &[]).len(), 2);
    let told = home.ok(&["sessions", "archive", "--last"]);
    assert!(told.contains("archived"), "{told}");
}

#[test]
fn a_session_is_picked_by_its_title_and_an_ambiguous_title_lists_candidates() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--id", "x1", "--title", "my parser"]);
    home.ok(&["sessions", "new", "--id", "x2", "--title", "another"]);
    home.ok(&["chat", "--session", "my parser", "--say", "hello"]);
    assert_eq!(home.json(&["sessions", "show", "my parser"])["session"]["id"], "x1");
    home.ok(&["sessions", "new", "--id", "x3", "--title", "my parser"]);
    let refused = home.run(&["sessions", "show", "my parser"]);
    refused.refused(4, "several sessions have this title");
    assert!(refused.err.contains("x1") && refused.err.contains("x3"), "{}", refused.err);
    home.run(&["sessions", "show", "no such title"]).refused(3, "no session has this id or title");
}
