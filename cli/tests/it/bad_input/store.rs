//! Databases that cannot be used: none, foreign, newer, damaged, locked, not to be read or written.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::user::{as_a_plain_user, set_mode};
use super::{BUSY, DAMAGED, FORMAT, PI, READ_ONLY, all_is_as_it_was, home};
use crate::kit::{Home, said};

/// Runs commands on a store that is not right, and looks that none of them touched the file.
fn damaged_store(home: &Home, path: &Path, code: u8, word: &str) {
    let before = std::fs::read(path).unwrap();
    let url = format!("sqlite:{}", path.display());
    let file = home.file("import.jsonl", PI);
    let file = file.to_str().unwrap();
    for command in [
        &["sessions", "list"][..],
        &["sessions", "show", "--last"],
        &["chat", "--say", "x"],
        &["sessions", "new"],
        &["import", file],
        &["store", "info"],
    ] {
        home.run(&[&["--store", &url], command].concat()).refused(code, word);
    }
    assert_eq!(std::fs::read(path).unwrap(), before, "the file was touched");
    all_is_as_it_was(home);
}

/// A closed copy of the workspace's database.
fn copy_of_database(home: &Home, name: &str) -> PathBuf {
    let from = home.database();
    let copy = home.path(name);
    let conn = Connection::open(&from).unwrap();
    conn.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    copy
}

#[test]
fn a_database_path_that_is_a_folder_is_refused() {
    let home = home();
    let folder = home.path("folder");
    std::fs::create_dir(&folder).unwrap();
    let url = format!("sqlite:{}", folder.display());
    home.run(&["--store", &url, "sessions", "list"]).refused(DAMAGED, "is a folder");
    home.run(&["--store", &url, "chat", "--say", "x"]).refused(DAMAGED, "is a folder");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    all_is_as_it_was(&home);
}

#[test]
fn a_database_path_that_leads_nowhere_is_refused() {
    let home = home();
    let looped = home.path("loop");
    std::os::unix::fs::symlink(&looped, &looped).unwrap();
    let file = home.file("file", "x");
    for path in [looped, file.join("below.db")] {
        let url = format!("sqlite:{}", path.display());
        home.run(&["--store", &url, "sessions", "list"]).refused(1, "TK-IO");
    }
    all_is_as_it_was(&home);
}

#[test]
fn case_43_a_database_of_a_newer_version_is_refused_and_not_touched() {
    let home = home();
    let newer = copy_of_database(&home, "newer.db");
    let conn = Connection::open(&newer).unwrap();
    let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    conn.pragma_update(None, "user_version", version + 1).unwrap();
    drop(conn);
    damaged_store(&home, &newer, FORMAT, "TK-NEWER-FORMAT");
}

#[test]
fn a_database_of_another_program_is_refused_and_not_touched() {
    let home = home();
    let foreign = home.path("foreign.db");
    let conn = Connection::open(&foreign).unwrap();
    conn.execute_batch(
        "CREATE TABLE photos (name TEXT); INSERT INTO photos VALUES ('a'); PRAGMA user_version = 1",
    )
    .unwrap();
    drop(conn);
    damaged_store(&home, &foreign, DAMAGED, "another program");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_not_touched() {
    let home = home();
    let text = home.file("notes.txt", "shopping list\n".repeat(1_000));
    damaged_store(&home, &text, DAMAGED, "TK-CORRUPT");
    let short = home.file("short.txt", "x");
    damaged_store(&home, &short, DAMAGED, "TK-CORRUPT");
}

#[test]
fn a_truncated_database_is_refused_and_not_touched() {
    let home = home();
    let whole = std::fs::read(copy_of_database(&home, "whole.db")).unwrap();
    for (name, bytes) in [("half.db", whole.len() / 2), ("page.db", 8192), ("header.db", 100)] {
        let cut = home.file(name, &whole[..bytes]);
        damaged_store(&home, &cut, DAMAGED, "TK-CORRUPT");
    }
}

#[test]
fn a_database_with_flipped_bits_is_refused_and_not_touched() {
    let home = home();
    let whole = std::fs::read(copy_of_database(&home, "whole.db")).unwrap();
    let flipped = |name: &str, at: &[usize]| {
        let mut bytes = whole.clone();
        for at in at {
            bytes[*at] ^= 0xff;
        }
        home.file(name, bytes)
    };
    // In the file header, in the header of the first page, and in the header of every page after it.
    damaged_store(&home, &flipped("magic.db", &[3]), DAMAGED, "TK-CORRUPT");
    damaged_store(&home, &flipped("first.db", &[100]), DAMAGED, "TK-CORRUPT");
    let headers: Vec<usize> = (1..whole.len() / 8192).map(|page| page * 8192).collect();
    damaged_store(&home, &flipped("pages.db", &headers), DAMAGED, "TK-CORRUPT");
}

#[test]
fn a_store_that_is_locked_for_too_long_can_be_read_and_says_busy_to_a_writer() {
    let home = home();
    let lock = Connection::open(home.database()).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    all_is_as_it_was(&home);
    home.run(&["--wait", "200", "chat", "--session", "kept-1", "--say", "x"]).refused(BUSY, "TK-BUSY");
    home.run(&["--wait", "200", "sessions", "new"]).refused(BUSY, "TK-BUSY");
    lock.execute_batch("ROLLBACK").unwrap();
    all_is_as_it_was(&home);
    home.ok(&["chat", "--session", "kept-1", "--say", "now it works"]);
}

#[test]
fn an_unreadable_database_is_refused() {
    let home = home();
    let hidden = copy_of_database(&home, "hidden.db");
    set_mode(&hidden, 0o000);
    let url = format!("sqlite:{}", hidden.display());
    for command in [&["sessions", "list"][..], &["chat", "--say", "x"]] {
        let ran = as_a_plain_user(&home, &[&["--store", &url], command].concat());
        assert!([1, i32::from(READ_ONLY)].contains(&ran.code), "{}: {}", ran.code, ran.err);
        assert!(ran.err.contains("TK-IO") || ran.err.contains("TK-READ-ONLY"), "{}", ran.err);
    }
    set_mode(&hidden, 0o600);
    assert_eq!(as_a_plain_user(&home, &["--store", &url, "sessions", "show", "kept-1"]).code, 0);
}

#[test]
fn a_read_only_database_says_so_to_a_writer() {
    let home = home();
    let folder = home.path("readonly");
    std::fs::create_dir(&folder).unwrap();
    let copy = copy_of_database(&home, "readonly/copy.db");
    set_mode(&copy, 0o400);
    let before = std::fs::read(&copy).unwrap();
    as_a_plain_user(&home, &["workspace", "show"]);
    set_mode(&folder, 0o500);
    let url = format!("sqlite:{}", copy.display());
    let ran = as_a_plain_user(&home, &["--store", &url, "chat", "--session", "kept-1", "--say", "x"]);
    ran.refused(READ_ONLY, "TK-READ-ONLY");
    set_mode(&folder, 0o700);
    assert_eq!(std::fs::read(&copy).unwrap(), before);
    assert_eq!(as_a_plain_user(&home, &["sessions", "list"]).code, 0);
}

/// One session is damaged on disk; the others are not its business.
#[test]
fn case_59_a_damaged_session_is_an_error_and_stays_listed() {
    let home = home();
    let conn = Connection::open(home.database()).unwrap();
    let hurt = conn
        .execute(
            "UPDATE entries SET payload = CAST(x'ff' AS TEXT), text = CAST(x'ff' AS TEXT)
             WHERE kind = 'message' AND rid >> 32 = (SELECT skey FROM sessions WHERE id = 'kept-1')",
            [],
        )
        .unwrap();
    assert_eq!(hurt, 2);
    drop(conn);
    for command in [
        &["sessions", "show", "kept-1"][..],
        &["export", "kept-1"],
        &["chat", "--session", "kept-1", "--say", "x"],
    ] {
        home.run(command).refused(DAMAGED, "TK-CORRUPT");
    }
    assert_eq!(home.ids().len(), 2, "it stays listed");
    assert!(home.ids().contains(&"kept-1".to_owned()));
    let other = home.json(&["sessions", "show", "kept-2"]);
    assert_eq!(said(&other), ["user: kept words", "assistant: You said: kept words"]);
    home.ok(&["chat", "--session", "kept-2", "--say", "still fine"]);
}
