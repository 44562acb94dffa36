//! Lists: of many sessions, in a narrow terminal, with odd content.

use std::sync::Arc;

use rusqlite::Connection;
use turnkeep::{Message, OpenOptions};

use crate::kit::{Home, text};

#[test]
fn the_session_that_changed_last_is_listed_first() {
    let home = Home::new();
    for id in ["a", "b", "c"] {
        home.ok(&["sessions", "new", "--id", id]);
    }
    assert_eq!(home.ids(), ["c", "b", "a"]);
    home.ok(&["chat", "--session", "a", "--say", "me again"]);
    assert_eq!(home.ids(), ["a", "c", "b"]);
    let limited = home.json(&["sessions", "list", "--limit", "2"]);
    assert_eq!(limited["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_list_fits_the_width_it_is_given() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--title", &"a very long title ".repeat(20)]);
    home.ok(&["sessions", "new", "--title", "漢字".repeat(60).as_str()]);
    home.ok(&["sessions", "new", "--title", "short"]);
    for width in [30, 40, 60, 80, 120] {
        let mut command = home.command(&["sessions", "list"]);
        command.env("COLUMNS", width.to_string());
        let out = crate::kit::Running::start(command).end().out;
        assert_eq!(out.lines().count(), 4, "one line each at {width}: {out}");
        for line in out.lines() {
            assert!(columns(line) <= width, "{} columns instead of {width}: {line}", columns(line));
        }
        assert!(out.contains('…'), "{out}");
        assert!(out.lines().next().unwrap().starts_with("ID "), "{out}");
    }
}

/// Columns on a screen: the characters of this test are one or two wide.
fn columns(line: &str) -> usize {
    line.chars().map(|c| if ('\u{2e80}'..='\u{ffff}').contains(&c) { 2 } else { 1 }).sum()
}

#[test]
fn listed_beginnings_of_ids_name_their_sessions() {
    let home = Home::new();
    let ids = ["same-beginning-1", "same-beginning-2", "same", "other-words-follow-here"];
    for id in ids {
        home.ok(&["sessions", "new", "--id", id, "--title", &format!("title of {id}")]);
    }
    let out = home.ok(&["sessions", "list"]);
    for line in out.lines().skip(1) {
        let shown = line.split_whitespace().next().unwrap();
        let found = text(&home.json(&["sessions", "show", shown])["session"]["id"]);
        assert!(line.ends_with(&format!("title of {found}")), "{line}");
    }
}

/// Five thousand sessions, one of them large, and bodies that nobody could read: a list does not look at them.
#[test]
fn case_49_a_list_of_5000_sessions_reads_no_bodies() {
    const SESSIONS: usize = 5_000;
    const BODIES: usize = 8;
    let home = Home::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let workspace = OpenOptions::new().state_root(home.path("state")).open(home.project()).await.unwrap();
        let big = workspace.sessions().create().title("the big one").await.unwrap();
        let body: Arc<str> = "x".repeat(4 * 1024 * 1024).into();
        for _ in 0..BODIES {
            big.append([Message::user(&*body)]).await.unwrap();
        }
        let mut made = Vec::new();
        for number in 1..SESSIONS {
            let create = workspace.sessions().create().title(format!("session {number}"));
            made.push(tokio::spawn(create.into_future()));
        }
        for session in made {
            session.await.unwrap().unwrap();
        }
        workspace.close().await.unwrap();
    });
    let before = home.json(&["sessions", "list"]);
    let sessions = before["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), SESSIONS);
    let big = sessions.iter().find(|session| session["title"] == "the big one").unwrap();
    assert_eq!(big["messages"], BODIES);

    let conn = Connection::open(home.database()).unwrap();
    let hurt =
        conn.execute("UPDATE entries SET payload = CAST(x'ff' AS TEXT), text = CAST(x'ff' AS TEXT)", []);
    assert_eq!(hurt.unwrap(), BODIES);
    drop(conn);
    assert_eq!(home.json(&["sessions", "list"]), before);
    assert_eq!(home.ok(&["sessions", "list"]).lines().count(), SESSIONS + 1);
    home.run(&["sessions", "show", &text(&big["id"])]).refused(10, "TK-CORRUPT");
}

#[test]
fn a_wait_without_end_is_a_wait() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let forever = u64::MAX.to_string();
    assert!(home.ok(&["--wait", &forever, "sessions", "list"]).contains("hello"));
    let redb = format!("redb:{}", home.path("s.redb").display());
    home.ok(&["--store", &redb, "--wait", &forever, "chat", "--say", "hello"]);
}
