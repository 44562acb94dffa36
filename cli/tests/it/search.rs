//! Searching what was said, and bringing an older store up to date.

use std::path::Path;

use crate::kit::{Home, text};

fn talk() -> Home {
    let home = Home::new();
    home.ok(&["sessions", "new", "--id", "one", "--title", "the parser"]);
    home.ok(&["sessions", "new", "--id", "two"]);
    home.ok(&["chat", "--session", "one", "--say", "why does a group commit in C++ fail?"]);
    home.ok(&["chat", "--session", "two", "--say", "commit the group"]);
    home
}

#[test]
fn a_search_shows_session_number_time_and_snippet() {
    let home = talk();
    let out = home.ok(&["sessions", "search", "group", "commit"]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "one  the parser");
    assert!(lines[1].starts_with("  #3  ") && lines[1].ends_with("  assistant"), "{out}");
    assert!(lines[2].starts_with("    ") && lines[2].contains("group commit in C++"), "{out}");
    assert!(lines[3].starts_with("  #2  ") && lines[3].ends_with("  user"), "{out}");
    assert_eq!(lines[4], "    why does a group commit in C++ fail?");
    assert_eq!(lines[5..7], ["", "two  commit the group"], "the phrase comes first: {out}");
    assert!(!out.contains('\u{1b}'), "no colours where no terminal is: {out}");
}

#[test]
fn a_search_as_json_names_the_places() {
    let home = talk();
    let found = home.json(&["sessions", "search", "c++"]);
    let hits = found["hits"].as_array().unwrap();
    assert_eq!((hits.len(), found["more"].as_bool()), (2, Some(false)), "{found}");
    let hit = &hits[1];
    assert_eq!((text(&hit["session"]).as_str(), hit["number"].as_u64()), ("one", Some(2)));
    assert_eq!(text(&hit["role"]), "user");
    let snippet = text(&hit["snippet"]);
    let mark = hit["marks"][0].as_array().unwrap();
    let (from, to) = (mark[0].as_u64().unwrap() as usize, mark[1].as_u64().unwrap() as usize);
    assert_eq!(&snippet[from..to], "C++");
    let found = home.json(&["sessions", "search", "commit", "--limit", "1"]);
    assert_eq!((found["hits"].as_array().unwrap().len(), found["more"].as_bool()), (1, Some(true)));
    let found = home.json(&["sessions", "search", "commit", "--session", "tw"]);
    assert!(found["hits"].as_array().unwrap().iter().all(|hit| hit["session"] == "two"), "{found}");
}

#[test]
fn a_search_takes_every_sign_literally_and_says_when_nothing_is_found() {
    let home = talk();
    for words in
        [&["\"group"][..], &["commit*"], &["group", "AND", "commit"], &["NEAR(group)"], &["--", "-x"], &["'"]]
    {
        assert_eq!(home.ok(&[&["sessions", "search"], words].concat()), "nothing found\n", "{words:?}");
    }
    home.run(&["sessions", "search", "  "]).refused(2, "nothing to search for");
    assert_eq!(home.run(&["sessions", "search"]).code, 2);
    home.run(&["sessions", "search", "x", "--session", "nobody"]).refused(3, "TK-NOT-FOUND");
    home.run(&["sessions", "search", &"x".repeat(5_000)]).refused(2, "TK-TOO-LARGE");
}

#[test]
fn a_search_works_in_every_store() {
    let home = Home::new();
    let redb = format!("redb:{}", home.path("state.redb").display());
    home.ok(&["--store", &redb, "chat", "--say", "a needle"]);
    assert!(home.ok(&["--store", &redb, "sessions", "search", "need"]).contains("a needle"));
    assert_eq!(home.ok(&["--store", "memory:", "sessions", "search", "need"]), "nothing found\n");
}

/// A store of format 1 as the workspace's own.
fn older(home: &Home) {
    home.ok(&["sessions", "list"]);
    let database = home.database();
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", database.display()));
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../harnesses/golden/sqlite-1.bytes");
    std::fs::copy(golden, &database).unwrap();
}

#[test]
fn migrating_says_what_was_done_and_then_that_nothing_is_to_do() {
    let home = Home::new();
    older(&home);
    let out = home.ok(&["store", "migrate"]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "the store had format 1 and has format 2 now; nothing of it was lost");
    assert!(lines[1].starts_with("backup  ") && lines[1].ends_with("state.sqlite3.format-1.backup"), "{out}");
    let again = home.ok(&["store", "migrate"]);
    assert_eq!(again, "nothing to do: the store has format 2, the newest that this program knows\n");
    let again = home.json(&["store", "migrate"]);
    assert_eq!((again["migrated"].as_bool(), again["to"].as_u64()), (Some(false), Some(2)));
    let home = Home::new();
    older(&home);
    let first = home.json(&["store", "migrate"]);
    assert_eq!(
        (first["migrated"].as_bool(), first["from"].as_u64(), first["to"].as_u64()),
        (Some(true), Some(1), Some(2))
    );
    assert!(Path::new(&text(&first["backup"])).is_file(), "{first}");
}

#[test]
fn any_command_brings_an_older_store_up_to_date_and_says_so() {
    let home = Home::new();
    older(&home);
    let ran = home.run(&["sessions", "list"]);
    assert!(ran.err.contains("note: the store had format 1 and has format 2 now"), "{}", ran.err);
    assert!(ran.err.contains("state.sqlite3.format-1.backup"), "{}", ran.err);
    assert!(!home.run(&["sessions", "list"]).err.contains("format"), "said once");
}
