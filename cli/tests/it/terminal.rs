//! The program on a real (pseudo) terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::kit::{Home, Running};

/// A terminal of a width, and all that was painted on it.
struct Terminal {
    controller: OwnedFd,
    name: String,
}

impl Terminal {
    fn new(columns: u16) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size).unwrap();
        Self { controller, name }
    }

    fn open(&self) -> File {
        File::options().read(true).write(true).open(&self.name).unwrap()
    }

    /// Runs the program on the terminal and answers with what it painted.
    fn run(&self, home: &Home, args: &[&str], env: &[(&str, &str)]) -> String {
        let mut command = home.command(args);
        command.env("TERM", "xterm").envs(env.iter().copied());
        command.stdout(Stdio::from(self.open())).stderr(Stdio::from(self.open()));
        let painted = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&painted);
        let mut screen = File::from(self.controller.try_clone().unwrap());
        // Kept open here, so that the terminal does not hang up before all is read.
        let held = self.open();
        let mut running = Running::start(command);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                keep.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        running.hang_up();
        let ran = running.end();
        assert_eq!(ran.code, 0, "{args:?}");
        drop(held);
        reader.join().unwrap();
        String::from_utf8(painted.lock().unwrap().clone()).unwrap().replace("\r\n", "\n")
    }
}

/// The text without colours.
fn bare(painted: &str) -> String {
    let mut out = String::new();
    let mut rest = painted;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    out.push_str(rest);
    out
}

#[test]
fn a_terminal_gets_colours_unless_it_does_not_want_them() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    for command in
        [&["sessions", "list"][..], &["sessions", "show", "--last"], &["chat", "--last", "--say", "x"]]
    {
        let painted = Terminal::new(80).run(&home, command, &[]);
        assert!(painted.contains("\u{1b}["), "{command:?}: {painted:?}");
        let plain = Terminal::new(80).run(&home, command, &[("NO_COLOR", "1")]);
        assert!(!plain.contains('\u{1b}'), "{command:?}: {plain:?}");
        let dumb = Terminal::new(80).run(&home, command, &[("TERM", "dumb")]);
        assert!(!dumb.contains('\u{1b}'), "{command:?}: {dumb:?}");
    }
}

#[test]
fn a_table_fits_the_terminal() {
    let home = Home::new();
    home.ok(&["sessions", "new", "--title", &"many words ".repeat(40)]);
    for columns in [50, 90] {
        let painted = bare(&Terminal::new(columns).run(&home, &["sessions", "list"], &[]));
        assert_eq!(painted.lines().count(), 2, "{painted}");
        for line in painted.lines() {
            assert!(line.chars().count() <= usize::from(columns), "{line}");
        }
        assert!(painted.contains('…'), "{painted}");
    }
    let painted = bare(&Terminal::new(90).run(&home, &["sessions", "list"], &[("COLUMNS", "45")]));
    assert!(painted.lines().all(|line| line.chars().count() <= 45), "{painted}");
}

#[test]
fn no_stored_text_reaches_a_terminal_raw() {
    let home = Home::new();
    let hostile = "x\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}y";
    home.ok(&["chat", "--title", hostile, "--say", hostile]);
    for command in [
        &["sessions", "list"][..],
        &["sessions", "show", "--last"],
        &["--json", "sessions", "show", "--last"],
        &["export", "--last"],
        &["chat", "--last", "--say", hostile],
    ] {
        let painted = bare(&Terminal::new(200).run(&home, command, &[]));
        for raw in ["\u{1b}", "\u{7}", "\u{9b}", "\u{202e}"] {
            assert!(!painted.contains(raw), "{command:?}: {painted:?}");
        }
    }
    // What a terminal shows of an export still is that export.
    let painted = Terminal::new(200).run(&home, &["export", "--last"], &[]);
    let piped = home.ok(&["export", "--last"]);
    for (shown, line) in painted.lines().zip(piped.lines()) {
        let shown: serde_json::Value = serde_json::from_str(shown).unwrap();
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(shown, line);
    }
    assert_eq!(painted.lines().count(), piped.lines().count());
}

#[test]
fn an_import_shows_its_progress_on_a_terminal_only() {
    let home = Home::new();
    home.ok(&["chat", "--say", "hello"]);
    let file = home.file("x.jsonl", home.ok(&["export", "--last"]));
    let file = file.to_str().unwrap();
    let url = format!("sqlite:{}", home.path("a.db").display());
    let painted = Terminal::new(80).run(&home, &["--store", &url, "import", file], &[]);
    assert!(painted.contains("importing"), "{painted:?}");
    assert!(painted.contains("dropped"), "{painted:?}");
    let url = format!("sqlite:{}", home.path("b.db").display());
    assert!(!home.ok(&["--store", &url, "import", file]).contains("importing"));
}

#[cfg(feature = "certify")]
#[test]
fn a_certification_shows_a_bar_on_a_terminal_and_lines_elsewhere() {
    let home = Home::new();
    let args = ["certify", "memory:", "--only", "ID"];
    let painted = Terminal::new(80).run(&home, &args, &[]);
    assert!(painted.contains("/6") && painted.contains("ID-001"), "{painted:?}");
    assert!(!painted.contains("pass         ID-001"), "{painted:?}");
    assert!(painted.contains("NO CERTIFICATE: memory"), "{painted:?}");
    assert!(home.run(&args).err.contains("pass         ID-001"));
}
