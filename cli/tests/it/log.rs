//! `turnkeep sessions log`

use crate::kit::{Home, text};

#[test]
fn the_log_of_a_session_tells_what_happened_and_no_word_of_it() {
    let home = Home::new();
    home.ok(&["chat", "--title", "marmalade", "--say", "marmalade sandwich"]);
    let id = home.last_id();
    let log = home.json(&["sessions", "log", "--last"]);
    assert_eq!((text(&log["session"]), &log["torn"]), (id.clone(), &serde_json::json!(0)));
    let told: Vec<String> =
        log["log"].as_array().unwrap().iter().map(|event| text(&event["event"])).collect();
    assert_eq!(
        told,
        ["session.created", "run.started", "phase", "phase", "phase", "run.completed", "usage"],
        "created, begun, input, answering, answer, done, what it took"
    );
    let file = std::path::PathBuf::from(text(&log["file"]));
    assert!(file.starts_with(home.path("state").canonicalize().unwrap().join("logs")), "{}", file.display());
    assert!(!std::fs::read_to_string(&file).unwrap().contains("marmalade"));

    let shown = home.ok(&["sessions", "log", &id[..8]]);
    assert!(shown.starts_with("AT ") && shown.contains("run.completed"), "{shown}");
    assert_eq!(home.ok(&["sessions", "log", "--last", "--latest", "1"]).lines().count(), 2);

    // A line that was cut off is said, and the others are there; also once the session is gone.
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 5]).unwrap();
    home.ok(&["sessions", "delete", &id, "--yes"]);
    let ran = home.run(&["sessions", "log", &id]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("1 of its lines cannot be read"), "{}", ran.err);
    assert!(ran.out.contains("session.deleted") && !ran.out.contains("usage"), "{}", ran.out);
}

#[test]
fn a_session_that_never_was_has_no_log() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    home.run(&["sessions", "log", "zzz"]).refused(3, "no session");
    home.run(&["--store", "memory:", "sessions", "log", "zzz"]).refused(13, "no audit log");
}

#[cfg(unix)]
#[test]
fn a_log_that_cannot_be_written_is_no_obstacle() {
    let home = Home::new();
    home.ok(&["workspace", "show"]);
    home.file("state/logs", "in the way");
    let ran = home.run(&["chat", "--say", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("You said: hello"));
    assert!(ran.err.contains("audit log cannot be written"), "{}", ran.err);
}
