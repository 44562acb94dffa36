//! The example for a person at a terminal.

use std::path::Path;

use crate::kit::{Home, Running};

#[test]
fn the_script_for_a_person_at_a_terminal_does_what_it_says() {
    let home = Home::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/person.sh");
    let program = Path::new(env!("CARGO_BIN_EXE_turnkeep")).parent().unwrap();
    let mut path = program.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut shell = std::process::Command::new("sh");
    shell.arg(script).current_dir(home.project()).env_remove("TURNKEEP_STATE_HOME").env("PATH", path);
    shell.env("HOME", home.path("home")).env("TMPDIR", home.path("home")).stdin(std::process::Stdio::null());
    shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let ran = Running::start(shell).end();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    for line in [
        "You said: count the loaves",
        "You said: and the rolls",
        "it is nowhere",
        "run.completed",
        "whole    yes: the footer agrees with the lines",
        "deleted ",
    ] {
        assert!(ran.out.contains(line), "`{line}` is missing in: {}", ran.out);
    }
    assert_eq!(ran.out.matches("the bakery").count(), 7, "{}", ran.out);
    let left: Vec<_> = std::fs::read_dir(home.path("home")).unwrap().collect();
    assert!(left.is_empty(), "it tidies up: {left:?}");
}
