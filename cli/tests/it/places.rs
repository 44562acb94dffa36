//! Files in odd places and states: two names for one, none, another program's, cut off, full.

use std::fs;
use std::path::Path;

use crate::kit::{Home, Running, text};

const FULL: u8 = 9;
const DAMAGED: u8 = 10;

fn sqlite(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

fn utf8(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_store_is_not_copied_onto_itself_under_another_name() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let own = home.database();
    let (linked, symbolic) = (home.path("linked.db"), home.path("symbolic.db"));
    fs::hard_link(&own, &linked).unwrap();
    std::os::unix::fs::symlink(&own, &symbolic).unwrap();
    for other in [&linked, &symbolic] {
        home.run(&["store", "copy", &sqlite(&own), &sqlite(other)]).refused(2, "same file");
    }
    // Two logs for one file would damage it.
    assert!(!home.path("linked.db-wal").exists());
}

#[test]
fn a_look_at_a_named_store_that_is_not_there_makes_none() {
    let home = Home::new();
    let nowhere = home.path("nowhere/state.db");
    for command in [&["store", "info"][..], &["store", "migrate"], &["store", "verify"], &["store", "backup"]]
    {
        let url = sqlite(&nowhere);
        let mut all = vec!["--store", &url];
        all.extend_from_slice(command);
        home.run(&all).refused(3, "there is no store");
        assert!(!nowhere.parent().unwrap().exists(), "{command:?}");
    }
}

#[test]
fn a_command_that_ended_leaves_nothing_in_the_log() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let database = home.database();
    home.ok(&["sessions", "list"]);
    // So that a person may copy the file.
    let copy = home.path("copy.db");
    fs::copy(&database, &copy).unwrap();
    assert!(!Path::new(&format!("{}-wal", database.display())).exists());
    assert_eq!(
        home.json(&["--store", &sqlite(&copy), "sessions", "list"])["sessions"][0]["preview"],
        "hello"
    );
}

#[test]
fn what_is_no_backup_is_named_and_so_is_one_that_is_damaged() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let backup = home.path("backup");
    home.ok(&["store", "backup", utf8(&backup)]);
    let whole = fs::read(&backup).unwrap();
    for (name, content) in [("text", &b"no database"[..]), ("empty", b""), ("redb", &[b'r'; 9000])] {
        let file = home.file(name, content);
        home.run(&["store", "restore", "--force", utf8(&file)]).refused(
            15,
            &format!("backup of a SQLite store; nothing was changed (backup {}", file.display()),
        );
    }
    let cut = home.file("cut", &whole[..whole.len() / 2]);
    let ran = home.run(&["store", "restore", "--force", utf8(&cut)]);
    ran.refused(
        DAMAGED,
        &format!(
            "the backup is damaged, and nothing was changed; restore another, or repair this one (backup {}",
            cut.display()
        ),
    );
    let left: Vec<_> =
        home.state_files().into_iter().filter(|path| utf8(path).contains("unfinished")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(home.ids().len(), 1);
}

#[test]
fn two_in_one_second_have_names_of_their_own() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let files: std::collections::HashSet<String> =
        (0..3).map(|_| text(&home.json(&["store", "backup"])["backup"]["file"])).collect();
    assert_eq!(files.len(), 3);
    let backup = files.iter().next().unwrap();
    let kept: std::collections::HashSet<String> = (0..3)
        .map(|_| text(&home.json(&["store", "restore", "--force", backup])["restore"]["kept"]))
        .collect();
    assert_eq!(kept.len(), 3);
}

#[test]
fn what_a_killed_restore_left_is_tidied_up_by_the_next() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let backup = home.path("backup");
    home.ok(&["store", "backup", utf8(&backup)]);
    let left = format!("{}.0123456789abcdef.unfinished", home.database().display());
    fs::copy(&backup, &left).unwrap();
    fs::write(format!("{left}-journal"), "").unwrap();
    home.ok(&["store", "restore", "--force", utf8(&backup)]);
    assert!(!Path::new(&left).exists() && !Path::new(&format!("{left}-journal")).exists());
}

#[test]
fn a_store_that_was_cut_off_is_verified_and_repaired_and_stays_as_it_is() {
    let home = Home::new();
    for n in 0..30 {
        let long = format!("{n} {}", "words ".repeat(600));
        home.ok(&["chat", "--title", &format!("talk {n}"), "--say", &long]);
    }
    let backup = home.path("backup");
    home.ok(&["store", "backup", utf8(&backup)]);
    let whole = fs::read(&backup).unwrap();
    let cut = home.file("cut.db", &whole[..whole.len() * 2 / 3]);
    let before = fs::read(&cut).unwrap();
    let url = sqlite(&cut);
    home.run(&["--store", &url, "sessions", "list"]).refused(DAMAGED, "TK-CORRUPT");
    let ran = home.run(&["--store", &url, "store", "verify"]);
    assert_eq!(ran.code, i32::from(DAMAGED), "{} {}", ran.out, ran.err);
    assert!(ran.err.contains("turnkeep store repair"), "{}", ran.err);
    let fixed = home.path("fixed.db");
    let ran = home.run(&["--json", "--store", &url, "store", "repair", utf8(&fixed)]);
    assert_eq!(ran.code, 16, "{}", ran.err);
    let answer: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(answer["repair"]["saved"]["entries"].as_u64().unwrap() > 10, "{answer}");
    home.ok(&["--store", &sqlite(&fixed), "store", "verify"]);
    assert!(fs::read(&cut).unwrap() == before, "the damaged store is as it was");

    // Of one page nothing can be saved, and of nothing neither.
    for left in [&whole[..8192], &[]] {
        let cut = sqlite(&home.file("less.db", left));
        for what in ["verify", "repair"] {
            let ran = home.run(&["--store", &cut, "store", what]);
            ran.refused(DAMAGED, "turnkeep store restore");
        }
    }
    let nowhere = home.path("nowhere").join("fixed.db");
    let ran = home.run(&["--store", &url, "store", "repair", utf8(&nowhere)]);
    assert!(
        ran.code != 0 && ran.err.contains(utf8(&nowhere)) && !ran.err.contains("unfinished"),
        "{}",
        ran.err
    );
}

#[test]
fn a_full_disk_and_a_folder_that_is_not_there_have_their_code_and_no_temporary_name() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    for command in [&["export", "--last"][..], &["sessions", "list"]] {
        let mut command = home.command(command);
        command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        Running::start(command).end().refused(FULL, "cannot be written");
    }
    let nowhere = home.path("nowhere/file");
    let ran = home.run(&["export", "--last", "--output", utf8(&nowhere)]);
    ran.refused(1, "nowhere/file cannot be written: entity not found");
    assert!(!ran.err.contains(".turnkeep-export"), "{}", ran.err);
}
