//! Export and import.

use crate::kit::{Home, said, states, text};

/// Everything of a session that a person or a script can see, but what belongs to one store.
fn seen(home: &Home, store: &[&str], id: &str) -> String {
    let mut shown = home.json(&[store, &["sessions", "show", id]].concat());
    let session = shown["session"].as_object_mut().unwrap();
    session.remove("revision");
    shown.to_string()
}

#[test]
fn an_export_imported_into_another_store_reads_the_same() {
    let home = Home::new();
    home.ok(&["chat", "--title", "a talk", "--say", "hello", "--say", "größer \u{1f600}\n\nmore"]);
    let id = home.last_id();
    let interrupted = home.start(&["chat", "--session", &id, "--say", "one two three", "--delay", "600000"]);
    crate::kit::wait_for_active_run(&home, &id);
    interrupted.kill();
    home.run(&["sessions", "list"]);

    let file = home.path("session.jsonl");
    let file = file.to_str().unwrap();
    let out = home.ok(&["export", &id, "--output", file]);
    assert!(out.starts_with(&format!("exported session {id} to ")), "{out}");
    let url = format!("sqlite:{}", home.path("other.db").display());
    let other = ["--store", url.as_str()];
    let out = home.ok(&[&other[..], &["import", file]].concat());
    assert!(out.contains("whole    yes: the footer agrees with the lines\n"), "{out}");
    assert!(out.contains("dropped  nothing\n"), "{out}");
    assert_eq!(seen(&home, &other, &id), seen(&home, &[], &id));
    assert_eq!(home.ok(&[&other[..], &["export", &id]].concat()), std::fs::read_to_string(file).unwrap());
    assert_eq!(home.ok(&["export", &id]), std::fs::read_to_string(file).unwrap());
}

#[test]
fn a_second_import_adds_nothing_and_says_so() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let id = home.last_id();
    let file = home.file("session.jsonl", home.ok(&["export", &id]));
    let file = file.to_str().unwrap();
    home.ok(&["sessions", "delete", &id]);
    let first = home.ok(&["import", file]);
    assert!(first.starts_with("imported "), "{first}");
    let second = home.ok(&["import", file]);
    assert!(second.starts_with(&format!("nothing to add: session {id} already holds ")), "{second}");
    assert_eq!(home.json(&["import", file])["import"]["added"], 0);
    // It went on meanwhile; the import still has nothing to add, and takes nothing away.
    home.ok(&["chat", "--session", &id, "--say", "more"]);
    let third = home.ok(&["import", file]);
    assert!(third.starts_with("nothing to add"), "{third}");
    assert_eq!(home.json(&["sessions", "show", &id])["session"]["messages"], 4);
    assert_eq!(home.ids(), [id]);
}

#[test]
fn an_import_from_standard_input_is_the_same() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let lines = home.ok(&["export", "--last"]);
    let ran = home.feed(&["import", "-", "--id", "copy"], lines.as_bytes());
    assert!(ran.err.is_empty(), "{}", ran.err);
    assert_eq!(
        said(&home.json(&["sessions", "show", "copy"])),
        ["user: hello", "assistant: You said: hello"]
    );
}

#[test]
fn an_imported_session_goes_on() {
    let home = Home::new();
    home.ok(&["chat", "--say", "from elsewhere"]);
    let id = home.last_id();
    let file = home.file("session.jsonl", home.ok(&["export", &id]));
    home.ok(&["sessions", "delete", &id]);
    home.ok(&["import", file.to_str().unwrap()]);
    let out = home.ok(&["chat", "--session", &id, "--say", "and here"]);
    assert!(out.ends_with("You said: and here\nBefore that: from elsewhere\n"), "{out}");
    assert_eq!(states(&home.json(&["sessions", "show", &id])), ["completed"; 2]);
}

#[test]
fn a_session_of_the_pi_coding_agent_is_counted_line_by_line() {
    let home = Home::new();
    let pi = concat!(
        r#"{"type":"session","id":"pi","timestamp":"2025-11-20T10:00:00.000Z","cwd":"/p","provider":"p","modelId":"m","thinkingLevel":"off"}"#,
        "\n",
        r#"{"type":"message","timestamp":"2025-11-20T10:00:01.000Z","message":{"role":"user","content":[{"type":"text","text":"list the files"}]}}"#,
        "\n",
        r#"{"type":"thinking_level_change","timestamp":"2025-11-20T10:00:01.500Z","thinkingLevel":"high"}"#,
        "\n",
        r#"{"type":"message","timestamp":"2025-11-20T10:00:02.000Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"bash","arguments":{"command":"ls"}},{"type":"toolCall","id":"c2","name":"bash","arguments":{"command":"pwd"}}],"stopReason":"toolUse"}}"#,
        "\n",
        r#"{"type":"message","timestamp":"2025-11-20T10:00:03.000Z","message":{"role":"toolResult","toolCallId":"c1","toolName":"bash","content":[{"type":"text","text":"a.rs"}],"isError":false}}"#,
        "\n",
        r#"{"type":"message","timestamp":"2025-11-20T10:00:04.000Z","message":{"role":"assistant","content":[],"stopReason":"aborted"}}"#,
        "\n",
        "broken\n",
    );
    let file = home.file("pi.jsonl", pi);
    let ran = home.run(&["import", file.to_str().unwrap()]);
    assert_eq!((ran.code, ran.err.as_str()), (16, ""));
    let expected = "\
kept     1 header, 5 entries: 4 messages (2 assistant, 1 tool, 1 user), 1 thinking level change
tools    2 calls, 1 result; 1 call without a result, in line 4
empty    1 assistant message without any content
whole    no: lines of it are missing or damaged
dropped  1 line:
  line 7: the line is not JSON
";
    let (first, rest) = ran.out.split_once('\n').unwrap();
    assert_eq!(first, format!("imported {} (pi) as session pi", file.display()));
    assert_eq!(rest, expected);
    let shown = home.ok(&["sessions", "show", "pi"]);
    assert!(shown.contains("calls bash {\"command\":\"ls\"}\n"), "{shown}");
    // What is replayed is valid although a call was never answered.
    let out = home.ok(&["chat", "--session", "pi", "--say", "go on"]);
    assert!(out.ends_with("Before that: list the files\n"), "{out}");
}

#[test]
fn case_74_a_cancelled_session_shows_and_exports_alike() {
    let home = Home::new();
    let running = home.start(&["chat", "--say", "one two three four", "--delay", "6000"]);
    running.wait_for("You said: one ");
    running.signal(rustix::process::Signal::INT);
    assert_eq!(running.end().code, 130);
    let id = home.last_id();
    let lines = home.ok(&["export", &id]);
    let entries = lines.lines().filter(|line| line.starts_with("{\"row\":\"entry\"")).count();
    assert_eq!(home.json(&["sessions", "show", &id])["session"]["entries"], entries);
    home.ok(&["chat", "--session", &id, "--say", "on it goes"]);
}

#[test]
fn an_import_that_is_cancelled_leaves_nothing_to_see_and_can_be_repeated() {
    let home = Home::new();
    let file = home.file("big.jsonl", many_messages());
    let file = file.to_str().unwrap();
    home.ok(&["sessions", "list"]);
    let running = home.start(&["import", file]);
    wait_for_rows(&home);
    running.signal(rustix::process::Signal::INT);
    running.end().refused(130, "TK-CANCELLED");
    assert!(home.ids().is_empty());
    home.ok(&["import", file]);
    assert_eq!(home.json(&["sessions", "show", "big", "--latest", "1"])["session"]["messages"], 20_000);
}

/// A session of the pi coding agent with 20,000 messages.
fn many_messages() -> String {
    let mut lines = String::from(
        "{\"type\":\"session\",\"id\":\"big\",\"timestamp\":\"2025-11-20T10:00:00.000Z\",\"cwd\":\"/p\",\"provider\":\"p\",\"modelId\":\"m\",\"thinkingLevel\":\"off\"}\n",
    );
    for number in 0..20_000 {
        lines.push_str(&format!(
            "{{\"type\":\"message\",\"timestamp\":\"2025-11-20T10:00:01.000Z\",\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"message {number}\"}}]}}}}\n"
        ));
    }
    lines
}

/// Waits until an import is in its middle: some rows are in the file, the session is not in use yet.
fn wait_for_rows(home: &Home) {
    let conn = rusqlite::Connection::open(home.database()).unwrap();
    for _ in 0..6_000 {
        let begun: i64 = conn
            .query_row("SELECT count(*) FROM sessions WHERE state = 'restoring' AND head > 0", [], |row| {
                row.get(0)
            })
            .unwrap();
        if begun > 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("the import never began");
}

#[test]
fn an_import_that_is_killed_leaves_nothing_to_see_and_the_next_one_completes_it() {
    let home = Home::new();
    let file = home.file("big.jsonl", many_messages());
    let file = file.to_str().unwrap();
    home.ok(&["sessions", "list"]);
    let running = home.start(&["import", file]);
    wait_for_rows(&home);
    let killed = running.kill();
    assert_eq!(killed.code, 128 + 9, "the import was over too soon: {}", killed.out);
    assert!(home.ids().is_empty(), "a part of a session is never seen");
    let ran = home.run(&["import", file]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let shown = home.json(&["sessions", "show", "big", "--latest", "1"]);
    assert_eq!(shown["session"]["messages"], 20_000);
    assert_eq!(text(&shown["messages"][0]["text"]), "message 19999");
}

/// A small session of pi.
fn pi_session(id: &str, words: &str) -> String {
    format!(
        "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-02-01T10:00:00.000Z\",\"cwd\":\"/x\"}}\n\
         {{\"type\":\"message\",\"id\":\"a1\",\"parentId\":null,\"timestamp\":\"2026-02-01T10:00:01.000Z\",\
         \"message\":{{\"role\":\"user\",\"content\":\"{words}\"}}}}\n"
    )
}

#[test]
fn case_40_a_legacy_folder_is_imported_into_a_store_that_was_there_before_it() {
    let home = Home::new();
    // A store of the first format that there was, in use since; it knows nothing of any import.
    let golden = include_bytes!("../../../harnesses/golden/sqlite-1.bytes");
    let url = format!("sqlite:{}", home.file("state.db", golden).display());
    let store = ["--store", url.as_str()];
    let run = |args: &[&str]| home.run(&[&store[..], args].concat());
    assert_eq!(run(&["chat", "--say", "already here"]).code, 0);
    let legacy = home.path("legacy");
    std::fs::create_dir_all(legacy.join("--home-ada--")).unwrap();
    std::fs::write(legacy.join("a.jsonl"), pi_session("old-a", "one")).unwrap();
    std::fs::write(legacy.join("--home-ada--/b.jsonl"), pi_session("old-b", "two")).unwrap();
    std::fs::write(legacy.join("notes.txt"), "no session").unwrap();
    let legacy_path = legacy.to_str().unwrap();
    let first = run(&["import", legacy_path]);
    assert_eq!((first.code, first.out.lines().count()), (0, 2), "{} {}", first.out, first.err);
    assert!(
        first.out.contains("session old-a, 1 entry") && first.out.contains("session old-b"),
        "{}",
        first.out
    );

    // More came to the folder, one of them no session: the rest is imported, and nothing twice.
    std::fs::write(legacy.join("c.jsonl"), pi_session("old-c", "three")).unwrap();
    std::fs::write(legacy.join("d.jsonl"), "rubbish\n").unwrap();
    let second = run(&["import", legacy_path]);
    assert_eq!(second.code, 16, "{}", second.err);
    assert_eq!(second.out.matches("nothing to add").count(), 2, "{}", second.out);
    assert!(second.out.contains("session old-c, 1 entry"), "{}", second.out);
    assert!(second.out.contains("d.jsonl: refused, "), "{}", second.out);
    let list = home.json(&[&store[..], &["sessions", "list"]].concat());
    let ids: Vec<String> = list["sessions"].as_array().unwrap().iter().map(|one| text(&one["id"])).collect();
    for id in ["old-a", "old-b", "old-c"] {
        assert_eq!(ids.iter().filter(|listed| *listed == id).count(), 1, "{ids:?}");
    }
    let named = run(&["import", legacy_path, "--id", "x"]);
    named.refused(2, "--id names one session");
}
