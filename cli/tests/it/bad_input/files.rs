//! Files to import that are cut, damaged, foreign or odd, and files to export to that are taken.

use super::{BAD_FILE, CONFLICT, INCOMPLETE, NOT_FOUND, PI, USAGE, all_is_as_it_was, home};
use crate::kit::{Home, Ran, said};

fn import(home: &Home, name: &str, content: impl AsRef<[u8]>) -> Ran {
    let file = home.file(name, content);
    home.run(&["import", file.to_str().unwrap()])
}

/// An export of `kept-1`, under another id in the file so that it can be imported beside it.
fn export(home: &Home) -> String {
    home.ok(&["sessions", "new", "--id", "exported"]);
    home.ok(&["chat", "--session", "exported", "--say", "exported words"]);
    let lines = home.ok(&["export", "exported"]);
    home.ok(&["sessions", "delete", "exported"]);
    lines
}

fn was_imported(home: &Home, id: &str) -> Vec<String> {
    let words = said(&home.json(&["sessions", "show", id]));
    home.ok(&["sessions", "delete", id]);
    all_is_as_it_was(home);
    words
}

#[test]
fn case_09_an_import_whose_last_line_is_cut_keeps_the_rest_and_says_so() {
    let home = home();
    let ran = import(&home, "cut.jsonl", &PI[..PI.len() - 20]);
    assert_eq!((ran.code, ran.err.as_str()), (i32::from(INCOMPLETE), ""));
    assert!(ran.out.contains("1 header, 2 entries: 2 messages (1 assistant, 1 user)"), "{}", ran.out);
    assert!(
        ran.out.contains("dropped  1 line:\n  line 4: the file ends in the middle of the line\n"),
        "{}",
        ran.out
    );
    assert_eq!(was_imported(&home, "pi-session"), ["user: first", "assistant: second"]);

    let lines = export(&home);
    let ran = import(&home, "cut-export.jsonl", &lines[..lines.len() - 20]);
    assert_eq!((ran.code, ran.err.as_str()), (i32::from(INCOMPLETE), ""));
    let last = lines.lines().count();
    assert!(
        ran.out.contains(&format!("  line {last}: the file ends in the middle of the line\n")),
        "{}",
        ran.out
    );
    assert_eq!(
        was_imported(&home, "exported"),
        ["user: exported words", "assistant: You said: exported words"]
    );
}

#[test]
fn an_import_with_a_damaged_line_keeps_the_rest_and_names_the_line() {
    let home = home();
    let damaged = PI.replace("\"second\"", "\"sec");
    let ran = import(&home, "damaged.jsonl", damaged);
    assert_eq!((ran.code, ran.err.as_str()), (i32::from(INCOMPLETE), ""));
    assert!(ran.out.contains("dropped  1 line:\n  line 3: "), "{}", ran.out);
    assert_eq!(was_imported(&home, "pi-session"), ["user: first", "user: third"]);

    let lines = export(&home);
    let number = 1 + lines.lines().position(|line| line.contains("You said: ")).unwrap();
    let damaged: String = lines
        .lines()
        .enumerate()
        .map(
            |(at, line)| {
                if at + 1 == number { "{\"row\":\"entry\"\n".to_owned() } else { format!("{line}\n") }
            },
        )
        .collect();
    let ran = import(&home, "damaged-export.jsonl", damaged);
    assert_eq!((ran.code, ran.err.as_str()), (i32::from(INCOMPLETE), ""));
    assert!(ran.out.contains(&format!("  line {number}: ")), "{}", ran.out);
    assert_eq!(was_imported(&home, "exported"), ["user: exported words"]);
}

#[test]
fn an_import_with_lines_that_are_not_utf8_or_escape_lone_surrogates_names_them() {
    let home = home();
    let mut bytes = PI.replace("\"second\"", r#""\ud800""#).into_bytes();
    let at = PI.find("third").unwrap();
    bytes[at + "\"\\ud800\"".len() - "\"second\"".len()] = 0xff;
    let ran = import(&home, "bytes.jsonl", bytes);
    assert_eq!((ran.code, ran.err.as_str()), (i32::from(INCOMPLETE), ""));
    assert!(ran.out.contains("  line 3: the line escapes a lone surrogate\n"), "{}", ran.out);
    assert!(ran.out.contains("  line 4: the line is not UTF-8\n"), "{}", ran.out);
    assert_eq!(was_imported(&home, "pi-session"), ["user: first"]);
}

#[test]
fn an_import_of_a_wrong_format_is_refused() {
    let home = home();
    for (name, content) in [
        ("text.txt", "shopping list\n"),
        ("object.json", "{\"a\":1}\n"),
        ("array.json", "[1,2,3]\n"),
        ("rows.jsonl", "{\"type\":\"message\"}\n{\"type\":\"message\"}\n"),
        ("binary", "\u{0}\u{1}\u{2}\n"),
    ] {
        let ran = import(&home, name, content);
        ran.refused(BAD_FILE, "TK-INVALID");
        assert!(ran.err.contains(name) && ran.out.is_empty(), "{} {}", ran.out, ran.err);
        all_is_as_it_was(&home);
    }
    import(&home, "bytes", b"\xff\xfe\xfd").refused(BAD_FILE, "TK-INVALID");
    all_is_as_it_was(&home);
}

#[test]
fn an_import_of_a_newer_format_is_refused() {
    let home = home();
    let lines = export(&home).replacen("\"version\":1", "\"version\":99", 1);
    import(&home, "newer.jsonl", lines).refused(BAD_FILE, "TK-NEWER-FORMAT");
    all_is_as_it_was(&home);
}

#[test]
fn an_import_of_an_empty_file_is_refused() {
    let home = home();
    for (name, content) in [("empty", ""), ("blank", "\n\n"), ("bom", "\u{feff}")] {
        import(&home, name, content).refused(BAD_FILE, "TK-INVALID");
        all_is_as_it_was(&home);
    }
}

#[test]
fn an_import_with_a_byte_order_mark_or_crlf_reads_the_same() {
    let home = home();
    let lines = export(&home);
    let plain = ["user: exported words", "assistant: You said: exported words"];
    for (name, content) in [
        ("bom.jsonl", format!("\u{feff}{lines}")),
        ("crlf.jsonl", lines.replace('\n', "\r\n")),
        ("both.jsonl", format!("\u{feff}{}", lines.replace('\n', "\r\n"))),
    ] {
        let ran = import(&home, name, content);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name}: {}", ran.out);
        assert_eq!(was_imported(&home, "exported"), plain, "{name}");
    }
    for (name, content) in
        [("pi-bom.jsonl", format!("\u{feff}{PI}")), ("pi-crlf.jsonl", PI.replace('\n', "\r\n"))]
    {
        let ran = import(&home, name, content);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name}: {}", ran.out);
        assert_eq!(was_imported(&home, "pi-session"), ["user: first", "assistant: second", "user: third"]);
    }
}

#[test]
fn an_import_of_what_is_no_file_is_refused() {
    let home = home();
    let gone = home.path("gone.jsonl");
    home.run(&["import", gone.to_str().unwrap()]).refused(NOT_FOUND, "gone.jsonl");
    home.run(&["import", home.path("home").to_str().unwrap()])
        .refused(BAD_FILE, "no file that ends in .jsonl");
    all_is_as_it_was(&home);
}

#[test]
fn an_import_under_an_id_that_is_taken_is_refused() {
    let home = home();
    let file = home.file("pi.jsonl", PI);
    let file = file.to_str().unwrap();
    home.run(&["import", file, "--id", "kept-1"]).refused(CONFLICT, "TK-ALREADY-EXISTS");
    home.run(&["import", file, "--id", ""]).refused(USAGE, "TK-INVALID");
    home.run(&["import", file, "--id", "a\u{1b}"]).refused(USAGE, "TK-INVALID");
    all_is_as_it_was(&home);
}

#[test]
fn an_export_never_replaces_a_file_unless_it_is_told_to() {
    let home = home();
    let file = home.file("mine.txt", "mine");
    let path = file.to_str().unwrap();
    home.run(&["export", "kept-1", "--output", path]).refused(CONFLICT, "--force");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    let ran = home.run(&["export", "kept-1", "--output", path, "--force"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("{\"format\":\"turnkeep-session\""));
    all_is_as_it_was(&home);
}

#[test]
fn an_export_that_cannot_be_written_leaves_no_file() {
    let home = home();
    let nowhere = home.path("no-folder").join("x.jsonl");
    home.run(&["export", "kept-1", "--output", nowhere.to_str().unwrap()]).refused(1, "cannot be written");
    let folder = home.path("home");
    home.run(&["export", "kept-1", "--output", folder.to_str().unwrap()])
        .refused(CONFLICT, "is there already");
    let unknown = home.path("unknown.jsonl");
    home.run(&["export", "nobody", "--output", unknown.to_str().unwrap()]).refused(NOT_FOUND, "TK-NOT-FOUND");
    assert!(!nowhere.exists() && !unknown.exists());
    all_is_as_it_was(&home);
}
