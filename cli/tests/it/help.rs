//! Completions for shells, and manual pages.

use std::fs;

use crate::kit::Home;

#[test]
fn completions_are_written_for_each_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.ok(&["completions", shell]);
        assert!(script.contains("turnkeep"), "{shell}");
        for word in ["sessions", "unarchive", "usage", "--workspace"] {
            assert!(script.contains(word.trim_start_matches('-')), "{shell} does not know {word}");
        }
    }
    let unknown = home.run(&["completions", "dos"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("zsh"), "it says which there are: {}", unknown.err);
}

#[test]
fn a_manual_page_is_written_for_each_command() {
    let home = Home::new();
    let folder = home.path("man/new");
    let told = home.ok(&["man", folder.to_str().unwrap()]);
    assert!(told.contains("turnkeep.1"), "{told}");
    for page in ["turnkeep.1", "turnkeep-sessions-list.1", "turnkeep-usage.1", "turnkeep-export.1"] {
        let text = fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(".TH") && text.contains(".SH NAME"), "{page} is no manual page");
    }
    assert!(fs::read_to_string(folder.join("turnkeep.1")).unwrap().contains("Examples"));
    home.ok(&["man", folder.to_str().unwrap()]);
    home.run(&["man", "/proc/nowhere"]).refused(1, "cannot be written");
}
