//! Going two ways from one place.

use crate::kit::{Home, said, text};

fn talk(home: &Home) {
    home.ok(&["sessions", "new", "--id", "talk", "--title", "a talk"]);
    home.ok(&["chat", "--session", "talk", "--say", "one", "--say", "two"]);
}

#[test]
fn a_fork_begins_with_what_its_source_holds_and_goes_its_own_way() {
    let home = Home::new();
    talk(&home);
    let out = home.ok(&["sessions", "fork", "talk", "--as", "child"]);
    assert_eq!(out, "child is a fork of talk: 8 entries, up to #8\n");
    home.ok(&["chat", "--session", "child", "--say", "three"]);
    let (source, child) =
        (home.json(&["sessions", "show", "talk"]), home.json(&["sessions", "show", "child"]));
    assert_eq!(said(&source).len(), 4);
    assert_eq!(said(&child)[..4], said(&source)[..]);
    assert_eq!(said(&child)[4], "user: three");
    let session = &child["session"];
    assert_eq!((text(&session["parent"]), text(&session["title"])), ("talk".into(), "a talk (fork)".into()));
    assert_eq!(session["fork"]["boundary"], 8);
    assert!(home.ok(&["sessions", "show", "child"]).contains("forked   at #8"));
}

#[test]
fn a_fork_at_the_last_words_of_a_turn_takes_that_turn_and_none_after() {
    let home = Home::new();
    talk(&home);
    let forked = home.json(&["sessions", "fork", "talk", "--at", "3", "--title", "the other way"]);
    assert_eq!(forked["session"]["fork"]["boundary"], 4);
    assert_eq!(forked["session"]["title"], "the other way");
    let shown = home.json(&["sessions", "show", &text(&forked["session"]["id"])]);
    assert_eq!(said(&shown), ["user: one", "assistant: You said: one"]);
    home.run(&["sessions", "fork", "talk", "--at", "2"]).refused(5, "TK-FORK-REFUSED");
    home.run(&["sessions", "fork", "talk", "--at", "99"]).refused(5, "TK-FORK-REFUSED");
    assert_eq!(home.ids().len(), 2, "a refusal makes nothing");
}

#[test]
fn a_repeated_request_gives_the_same_fork() {
    let home = Home::new();
    talk(&home);
    let first = home.json(&["sessions", "fork", "talk", "--request", "job 7"]);
    home.ok(&["chat", "--session", "talk", "--say", "more"]);
    let again = home.json(&["sessions", "fork", "talk", "--request", "job 7"]);
    assert_eq!(first["session"]["id"], again["session"]["id"]);
    home.run(&["sessions", "fork", "talk", "--request", "job 7", "--at", "4"])
        .refused(5, "TK-REQUEST-CONFLICT");
    let other = home.json(&["sessions", "fork", "talk"]);
    assert_ne!(first["session"]["id"], other["session"]["id"]);
}

#[test]
fn a_list_tells_a_fork_from_its_source_that_has_no_title() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let id = home.last_id();
    home.ok(&["sessions", "fork", &id, "--as", "child"]);
    let out = home.ok(&["sessions", "list"]);
    let line = |id: &str| out.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
    assert!(line("child").ends_with("  hello (fork)"), "{out}");
    assert!(line(&id[..8]).ends_with("  hello"), "{out}");
    let found = home.ok(&["sessions", "search", "hello"]);
    assert!(found.contains("child  hello (fork)\n"), "{found}");
}
