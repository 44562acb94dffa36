//! `turnkeep store …`: copy, backup, restore, verify, repair, compact; and `sessions prune`.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::kit::{Home, Running, said, text};

const CONFLICT: u8 = 5;
const BUSY: u8 = 7;
const DAMAGED: u8 = 10;
const INCOMPLETE: i32 = 16;

fn url(kind: &str, path: &Path) -> String {
    format!("{kind}:{}", path.display())
}

fn utf8(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A home with two talks.
fn talks() -> Home {
    let home = Home::new();
    home.ok(&["chat", "--title", "first", "--say", "hello", "--say", "and on"]);
    home.ok(&["chat", "--title", "second", "--say", "something else"]);
    home
}

/// What all sessions of a store say.
fn words(home: &Home, store: &str) -> Vec<Vec<String>> {
    let list = home.json(&["--store", store, "sessions", "list"]);
    let ids = list["sessions"].as_array().unwrap().iter().map(|session| text(&session["id"]));
    let mut all: Vec<_> =
        ids.map(|id| said(&home.json(&["--store", store, "sessions", "show", &id]))).collect();
    all.sort();
    all
}

#[test]
fn a_store_is_copied_to_another_kind_and_back_and_is_proven_equal() {
    let home = talks();
    let own = url("sqlite", &home.database());
    let (redb, back) = (url("redb", &home.path("copy.redb")), url("sqlite", &home.path("back.db")));
    let out = home.ok(&["store", "copy", &own, &redb]);
    assert!(out.contains(": 2 sessions (2 copied, 0 there already, 0 brought up to date)"), "{out}");
    assert!(
        out.ends_with("equal: everything was read again in the target, and is what was read in the source\n")
    );
    home.ok(&["store", "copy", &redb, &back]);
    assert_eq!(words(&home, &back), words(&home, &own));
    // Again: nothing to do, and a digest of each session on both sides.
    let again = home.json(&["store", "copy", &own, &back]);
    let sessions = again["copy"]["workspaces"][0]["sessions"].as_array().unwrap().clone();
    assert_eq!((again["copy"]["equal"].as_bool(), sessions.len()), (Some(true), 2));
    for one in sessions {
        assert_eq!(one["outcome"], "already_there");
        assert_eq!(one["source"], one["target"]);
        assert_eq!(text(&one["source"]["digest"]).len(), 64);
        assert!(one["source"]["entries"].as_u64().unwrap() > 0);
    }
}

#[test]
fn a_copy_goes_over_nothing_and_says_what_is_in_the_way() {
    let home = talks();
    let own = url("sqlite", &home.database());
    let copy = url("sqlite", &home.path("copy.db"));
    home.ok(&["store", "copy", &own, &copy]);
    home.ok(&["--store", &copy, "chat", "--last", "--say", "only here"]);
    let ran = home.run(&["store", "copy", &own, &copy]);
    ran.refused(CONFLICT, "session");
    assert!(words(&home, &copy).concat().iter().any(|said| said.contains("only here")));
    home.run(&["store", "copy", &own, &own]).refused(2, "same file");
    home.run(&["store", "copy", &own, "memory:"]).refused(2, "memory");
    home.run(&["store", "copy", "/plain/path", &copy]).refused(2, "names no store");
    let nowhere = url("redb", &home.path("nowhere.redb"));
    home.run(&["store", "copy", &nowhere, &copy]).refused(3, "there is no store");
    assert!(!home.path("nowhere.redb").exists());
}

/// A session that takes a while to copy.
fn long_session(home: &Home) -> String {
    let mut lines = Vec::new();
    let session = r#"{"type":"session","id":"long","timestamp":"2025-12-01T10:00:00.000Z","cwd":"/tmp","provider":"x","modelId":"y","thinkingLevel":"off"}"#;
    lines.push(session.to_owned());
    let filler = "words ".repeat(200);
    for n in 0..6_000 {
        lines.push(format!(
            r#"{{"type":"message","timestamp":"2025-12-01T10:00:01.000Z","message":{{"role":"user","content":"{filler}{n}","timestamp":1764583201000}}}}"#
        ));
    }
    let file = home.file("long.jsonl", lines.join("\n"));
    home.run(&["import", utf8(&file), "--id", "long"]);
    url("sqlite", &home.database())
}

#[test]
fn a_copy_that_was_killed_or_cancelled_is_begun_again_and_ends_equal() {
    let home = Home::new();
    let own = long_session(&home);
    for signal in [Signal::KILL, Signal::INT] {
        let place = home.path(&format!("copy-{}", signal.as_raw()));
        let copy = url("sqlite", &place);
        let running = home.start(&["store", "copy", &own, &copy]);
        // Half built: the new store has rows.
        wait_for_size(&place, &running);
        running.signal(signal);
        let ran = running.end();
        assert!(ran.code == 137 || ran.code == 130 || ran.code == 0, "{}: {}", ran.code, ran.err);
        if ran.code == 130 {
            assert!(ran.err.contains("begin it again"), "{}", ran.err);
        }
        let report = home.json(&["store", "copy", &own, &copy]);
        assert_eq!(report["copy"]["workspaces"][0]["sessions"][0]["target"]["entries"], 6_001);
        home.ok(&["--store", &copy, "store", "verify"]);
    }
}

fn wait_for_size(place: &Path, running: &Running) {
    let log = PathBuf::from(format!("{}-wal", place.display()));
    for _ in 0..20_000 {
        let size = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
        if size(&log) + size(place) > 2 * 1024 * 1024 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("the copy never began: {}", running.out());
}

#[test]
fn case_57_a_backup_of_a_store_in_use_holds_the_last_word_that_was_answered() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    // A program has the store open, and was answered.
    let mut chat = home.start_fed(&["chat", "--last"]);
    chat.say(b"the last word\n");
    chat.wait_for("You said: the last word");
    chat.say(b"\n");
    let wait = home.json(&["sessions", "show", "--last"]);
    assert!(wait["messages"].as_array().unwrap().len() >= 3);
    let to = home.path("backup");
    let out = home.ok(&["store", "backup", utf8(&to)]);
    assert!(out.starts_with("backed up 1 session to "), "{out}");
    let taken = home.run(&["store", "backup", utf8(&to)]);
    taken.refused(CONFLICT, "not touched");
    chat.say(b"after the backup\n");
    chat.wait_for("You said: after the backup");
    // It is not replaced under the feet of that program.
    let ran = home.run(&["--wait", "200", "store", "restore", "--force", utf8(&to)]);
    ran.refused(BUSY, "open");
    chat.hang_up();
    assert_eq!(chat.end().code, 0);
    let copy = url("sqlite", &home.path("restored.db"));
    home.ok(&["--store", &copy, "store", "restore", utf8(&to)]);
    let restored = words(&home, &copy).concat();
    assert!(restored.iter().any(|said| said == "user: the last word"), "{restored:?}");
    assert!(!restored.iter().any(|said| said.contains("after the backup")));
    // Nor is anything replaced unasked; then the store that was there is kept.
    home.run(&["store", "restore", utf8(&to)]).refused(CONFLICT, "--force");
    let answer = home.json(&["store", "restore", "--force", utf8(&to)]);
    let kept = url("sqlite", Path::new(answer["restore"]["kept"].as_str().unwrap()));
    assert!(words(&home, &kept).concat().iter().any(|said| said.contains("after the backup")));
    assert!(
        !words(&home, &url("sqlite", &home.database())).concat().iter().any(|said| said.contains("after"))
    );
}

#[test]
fn backups_work_for_every_kind_of_store_that_has_a_file() {
    let home = talks();
    let own = url("sqlite", &home.database());
    let redb = url("redb", &home.path("copy.redb"));
    home.ok(&["store", "copy", &own, &redb]);
    let answer = home.json(&["--store", &redb, "store", "backup"]);
    let file = text(&answer["backup"]["file"]);
    assert!(file.contains("copy.redb.backup-"), "{file}");
    let back = url("redb", &home.path("back.redb"));
    home.ok(&["--store", &back, "store", "restore", &file]);
    assert_eq!(words(&home, &back), words(&home, &own));
    home.run(&["--store", &back, "store", "restore", "--force", utf8(&home.database())]).refused(15, "redb");
    home.run(&["--store", "memory:", "store", "backup"]).refused(13, "backup");
    home.run(&["--store", "memory:", "store", "restore", &file]).refused(2, "memory");
    home.run(&["store", "restore", utf8(&home.path("nothing"))]).refused(3, "nothing");
}

/// Changes the tables of a store behind its back.
fn tamper(path: &Path, statement: &str) {
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.execute_batch(statement).unwrap();
}

#[test]
fn verify_names_the_damage_and_repair_saves_the_rest() {
    let home = talks();
    let database = home.database();
    let out = home.ok(&["store", "verify"]);
    assert!(out.starts_with("nothing is damaged: 2 sessions and "), "{out}");
    let id = home.last_id();
    tamper(
        &database,
        &format!(
            "UPDATE entries SET payload = '{{' WHERE kind = 'message' AND role = 'user'
             AND rid >> 32 = (SELECT skey FROM sessions WHERE id = '{id}')"
        ),
    );
    let before = fs::read(&database).unwrap();
    let ran = home.run(&["store", "verify"]);
    assert_eq!(ran.code, i32::from(DAMAGED), "{}", ran.err);
    assert!(ran.out.contains(&format!("session {id}, entry ")), "{}", ran.out);
    assert!(ran.err.contains("turnkeep store repair"), "{}", ran.err);
    let ran = home.run(&["--json", "store", "repair"]);
    assert_eq!(ran.code, INCOMPLETE, "{}", ran.err);
    assert_eq!(fs::read(&database).unwrap(), before, "the damaged store is as it was");
    let answer: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let repair = &answer["repair"];
    assert_eq!(repair["saved"]["sessions"], 2);
    assert_eq!(repair["saved"]["left_out"][0]["session"], id.as_str());
    let repaired = text(&repair["repaired"]);
    home.ok(&["--store", &format!("sqlite:{repaired}"), "store", "verify"]);
    home.ok(&["store", "restore", "--force", &repaired]);
    home.ok(&["store", "verify"]);
    assert_eq!(home.ids().len(), 2);
    let out = home.run(&["store", "repair", utf8(&home.path("again"))]);
    assert_eq!(out.code, 0, "{}", out.err);
    assert!(out.out.contains("left out: nothing"), "{}", out.out);
    home.run(&["store", "repair", utf8(&home.path("again"))]).refused(CONFLICT, "not touched");
}

#[test]
fn compacting_says_what_it_gave_back() {
    let home = talks();
    let id = home.last_id();
    home.ok(&["sessions", "delete", &id]);
    let answer = home.json(&["store", "compact"]);
    let number = |name: &str| answer["compact"][name].as_u64().unwrap();
    assert!(number("bytes_after") <= number("bytes_before"));
    assert_eq!(home.ids().len(), 1);
    assert!(home.ok(&["store", "compact"]).contains(" before, "));
}

#[test]
fn case_58_pruning_deletes_only_what_it_is_told_to() {
    let home = talks();
    let refused = home.run(&["sessions", "prune"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("--older-than"), "{}", refused.err);
    // As if both had been left alone for 400 days.
    tamper(&home.database(), "UPDATE sessions SET updated_at = updated_at - 400 * 86400000");
    home.ok(&["sessions", "list"]);
    let out = home.ok(&["sessions", "prune", "--older-than", "90d"]);
    assert!(out.ends_with("2 sessions would go; nothing was deleted: say --apply to delete them\n"), "{out}");
    assert_eq!(home.ids().len(), 2);
    let answer = home.json(&["sessions", "prune", "--older-than", "99999d", "--apply"]);
    assert_eq!(answer["prune"]["sessions"].as_array().unwrap().len(), 0);
    home.ok(&["chat", "--last", "--say", "still in use"]);
    let answer = home.json(&["sessions", "prune", "--older-than", "12w", "--apply"]);
    assert_eq!(answer["prune"]["sessions"][0]["title"], "first");
    assert_eq!(home.ids().len(), 1);
}
