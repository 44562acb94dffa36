//! Who can read what is kept.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use crate::kit::{Home, Running};

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn case_68_everything_kept_is_private_whatever_the_umask() {
    let home = Home::new();
    let export = home.path("export.jsonl");
    let binary = env!("CARGO_BIN_EXE_turnkeep");
    // One process stays, so that files that live with an open database are seen, too.
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "umask 000; exec \"$0\" chat", binary]).current_dir(home.project());
    shell.env("HOME", home.path("home")).env("TURNKEEP_STATE_HOME", home.path("state"));
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut open = Running::start(shell);
    open.say(b"hello\n");
    open.wait_for("You said: hello");
    let exported = std::process::Command::new("sh")
        .args([
            "-c",
            "umask 000; exec \"$0\" export --last --output \"$1\"",
            binary,
            export.to_str().unwrap(),
        ])
        .current_dir(home.project())
        .env("HOME", home.path("home"))
        .env("TURNKEEP_STATE_HOME", home.path("state"))
        .output()
        .unwrap();
    assert!(exported.status.success(), "{exported:?}");

    let files = home.state_files();
    let named = |end: &str| files.iter().any(|path| path.to_string_lossy().ends_with(end));
    assert!(named("state.sqlite3") && named("-wal") && named("-shm") && named(".lock"), "{files:?}");
    for path in &files {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(path), expected, "{}", path.display());
    }
    let marker = home.project().join(".turnkeep");
    assert_eq!(mode(&marker), 0o700);
    assert_eq!(mode(&marker.join("workspace-id")), 0o600);
    assert_eq!(mode(&export), 0o600);
    open.hang_up();
    assert_eq!(open.end().code, 0);
}

#[test]
fn case_68_an_export_that_replaces_an_open_file_is_private() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let export = home.file("open.jsonl", "x");
    std::fs::set_permissions(&export, std::fs::Permissions::from_mode(0o666)).unwrap();
    home.ok(&["export", "--last", "--output", export.to_str().unwrap(), "--force"]);
    assert_eq!(mode(&export), 0o600);
}

#[test]
fn only_the_marker_lies_in_the_workspace() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let mut names: Vec<String> = std::fs::read_dir(home.project().join(".turnkeep"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".gitignore", "workspace-id"]);
    assert_eq!(std::fs::read_dir(home.project()).unwrap().count(), 1);
}

#[test]
fn case_69_what_is_said_and_imported_with_redact_holds_no_secret() {
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let home = Home::new();
    let file = home.file(
        "pi.jsonl",
        format!(
            "{{\"type\":\"session\",\"id\":\"pi-1\",\"timestamp\":\"2025-12-01T08:00:00.000Z\",\"cwd\":\"/x\"}}\n\
             {{\"type\":\"message\",\"timestamp\":\"2025-12-01T08:00:01.000Z\",\"message\":\
             {{\"role\":\"user\",\"content\":\"use {secret} now\"}}}}\n"
        ),
    );
    let out = home.ok(&["chat", "--redact", "--title", secret, "--say", &format!("push with {secret}")]);
    assert!(out.contains("[redacted:github-token]"), "the echo answers what was stored: {out}");
    let mut import = home.command(&["import", file.to_str().unwrap()]);
    import.env("TURNKEEP_REDACT", "1");
    assert_eq!(Running::start(import).end().code, 0);
    let shown = home.ok(&["sessions", "show", "pi-1"]);
    assert!(shown.contains("use [redacted:github-token] now"), "{shown}");
    let holds = |home: &Home| {
        let files = home.state_files().into_iter().filter(|path| path.is_file());
        files
            .map(|path| std::fs::read(path).unwrap())
            .any(|bytes| bytes.windows(secret.len()).any(|window| window == secret.as_bytes()))
    };
    assert!(!holds(&home));
    // Only if it is asked for.
    home.ok(&["chat", "--say", secret]);
    assert!(holds(&home));
}
