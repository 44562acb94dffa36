//! Workspaces whose state would lie in the wrong place, whose marker is garbled, or that are not there.

use std::process::Command;

use super::user::{chown_all, own_program};
use super::{DAMAGED, NOT_FOUND, UNSAFE_ROOT, USAGE, all_is_as_it_was, home};
use crate::kit::{Home, Ran, Running};

fn with_env(home: &Home, args: &[&str], change: impl FnOnce(&mut Command)) -> Ran {
    let mut command = home.command(args);
    change(&mut command);
    Running::start(command).end()
}

#[test]
fn a_state_root_inside_the_workspace_is_refused_and_not_made() {
    let home = home();
    let inside = home.project().join("state");
    let ran = with_env(&home, &["sessions", "list"], |command| {
        command.env("TURNKEEP_STATE_HOME", &inside);
    });
    ran.refused(UNSAFE_ROOT, "TURNKEEP_STATE_HOME");
    assert!(!inside.exists());
    let link = home.path("link");
    std::os::unix::fs::symlink(home.project(), &link).unwrap();
    let ran = with_env(&home, &["chat", "--say", "x"], |command| {
        command.env("TURNKEEP_STATE_HOME", link.join("state"));
    });
    ran.refused(UNSAFE_ROOT, "TK-UNSAFE-ROOT");
    assert!(!inside.exists());
    all_is_as_it_was(&home);
}

#[test]
fn a_home_that_is_the_workspace_is_refused() {
    let home = home();
    let ran = with_env(&home, &["sessions", "list"], |command| {
        command.env("HOME", home.project()).env_remove("TURNKEEP_STATE_HOME");
    });
    ran.refused(UNSAFE_ROOT, "TURNKEEP_STATE_HOME");
    all_is_as_it_was(&home);
}

#[test]
fn a_garbled_marker_is_refused_and_never_replaced() {
    let home = home();
    let marker = home.project().join(".turnkeep").join("workspace-id");
    let good = std::fs::read(&marker).unwrap();
    for garbled in [&b"not an id"[..], b"", b"\xff\xfe", b"../../../etc", &[b'x'; 10_000]] {
        std::fs::write(&marker, garbled).unwrap();
        for command in [&["sessions", "list"][..], &["chat", "--say", "x"]] {
            home.run(command).refused(DAMAGED, "marker");
        }
        assert_eq!(std::fs::read(&marker).unwrap(), garbled);
    }
    std::fs::write(&marker, good).unwrap();
    all_is_as_it_was(&home);
}

/// Without `HOME` the home of the user's account counts. Only an account that is not there has none, and only root can
/// be one; anybody else shows a home that cannot be used.
#[test]
fn without_a_home_the_variable_to_set_is_named() {
    use std::os::unix::process::CommandExt;
    const NO_ACCOUNT: u32 = 3_999_999_999;
    let home = home();
    let root = rustix::process::geteuid().is_root();
    let mut command = own_program(&home, &["sessions", "list"]);
    command.env_remove("TURNKEEP_STATE_HOME");
    if root {
        chown_all(&home.path("."), NO_ACCOUNT);
        command.env_remove("HOME").uid(NO_ACCOUNT);
    } else {
        command.env("HOME", "/dev/null");
    }
    let ran = Running::start(command).end();
    if root {
        ran.refused(USAGE, "TURNKEEP_STATE_HOME");
        chown_all(&home.path("."), 0);
    } else {
        ran.refused(1, "/dev/null");
    }
    all_is_as_it_was(&home);
}

#[test]
fn a_workspace_folder_that_is_not_there_is_refused() {
    let home = home();
    let gone = home.path("gone");
    home.run(&["--workspace", gone.to_str().unwrap(), "sessions", "list"])
        .refused(NOT_FOUND, "does not exist");
    let file = home.file("file", "x");
    home.run(&["--workspace", file.to_str().unwrap(), "sessions", "list"]).refused(USAGE, "TK-INVALID");
    assert!(!gone.exists());
    all_is_as_it_was(&home);
}

#[test]
fn a_store_url_of_no_known_kind_is_refused() {
    let home = home();
    for url in ["postgres://x", "sqlite:", "memory", "/tmp/x.db", "", "sqlite"] {
        home.run(&["--store", url, "sessions", "list"]).refused(USAGE, "--store");
    }
    all_is_as_it_was(&home);
}
