//! A home, a workspace and the program, each test with its own.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The longest that anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How often is looked.
const STEP: Duration = Duration::from_millis(5);

/// A person with a home, a state folder and a project.
#[derive(Debug)]
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "project"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// A file of the person, outside of the workspace.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The program, as this person would start it. It reads nothing from standard input.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_turnkeep"));
        command
            .args(args)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("TURNKEEP_STATE_HOME", self.path("state"))
            .env("TZ", "UTC")
            // The fault that a test of breaks asks for.
            .envs(std::env::var_os("TURNKEEP_MUTANT").map(|mutant| ("TURNKEEP_MUTANT", mutant)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Running::start(self.command(args)).end()
    }

    /// Runs the program and expects it to succeed, with nothing to say beside its answer.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?} answered {}", ran.out);
        ran.out
    }

    /// Runs the program with `--json` and reads its answer.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.extend_from_slice(args);
        let ran = self.run(&all);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
        serde_json::from_str(&ran.out).unwrap()
    }

    /// Runs the program with lines on its standard input.
    pub(crate) fn feed(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut running = self.start_fed(args);
        running.say(input);
        running.hang_up();
        running.end()
    }

    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(args))
    }

    /// Starts the program with a standard input that a test writes to.
    pub(crate) fn start_fed(&self, args: &[&str]) -> Running {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        Running::start(command)
    }

    /// The id of the session that changed last.
    pub(crate) fn last_id(&self) -> String {
        text(&self.json(&["sessions", "show", "--last"])["session"]["id"])
    }

    /// Ids of all sessions, as the list gives them.
    pub(crate) fn ids(&self) -> Vec<String> {
        let list = self.json(&["sessions", "list"]);
        list["sessions"].as_array().unwrap().iter().map(|session| text(&session["id"])).collect()
    }

    /// The database of the workspace.
    pub(crate) fn database(&self) -> PathBuf {
        PathBuf::from(text(&self.json(&["workspace", "show"])["workspace"]["store"]))
    }

    /// Every file and folder below the state folder.
    pub(crate) fn state_files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(&self.path("state"), &mut found);
        found
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    found.push(folder.to_owned());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}

/// A string of a JSON answer.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no string: {value}")).to_owned()
}

/// The texts and states of a shown conversation: `role: text`.
pub(crate) fn said(shown: &Value) -> Vec<String> {
    let messages = shown["messages"].as_array().unwrap();
    messages.iter().map(|message| format!("{}: {}", text(&message["role"]), text(&message["text"]))).collect()
}

/// The states of the runs of a shown session.
pub(crate) fn states(shown: &Value) -> Vec<String> {
    shown["runs"].as_array().unwrap().iter().map(|run| text(&run["state"])).collect()
}

/// What a program left when it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code; 128 and the signal when one ended it.
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Expects this exit code, this word in the message, and a message a person can read: one or two lines, no panic.
    pub(crate) fn refused(&self, code: u8, word: &str) {
        assert_eq!(self.code, i32::from(code), "out: {}\nerr: {}", self.out, self.err);
        assert!(self.err.contains(word), "`{word}` is missing in: {}", self.err);
        assert!(self.err.starts_with("error: "), "{}", self.err);
        assert!(self.err.lines().count() <= 2, "more than two lines: {}", self.err);
        for ugly in ["panicked", "Error {", "kind:", "\u{1b}", "\0"] {
            assert!(!self.err.contains(ugly), "{}", self.err);
        }
    }
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    out: Arc<Mutex<Vec<u8>>>,
    err: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut readers = Vec::new();
        let out = Arc::default();
        let err = Arc::default();
        if let Some(stdout) = child.stdout.take() {
            readers.push(collect(stdout, &out));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.push(collect(stderr, &err));
        }
        Self { child, out, err, readers }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// What it wrote so far.
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.out.lock().unwrap()).into_owned()
    }

    /// Writes to its standard input.
    pub(crate) fn say(&mut self, input: &[u8]) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(input).unwrap();
        stdin.flush().unwrap();
    }

    /// Ends its standard input.
    pub(crate) fn hang_up(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits until it wrote this.
    pub(crate) fn wait_for(&self, words: &str) {
        let begun = Instant::now();
        while !self.out().contains(words) {
            assert!(begun.elapsed() < PATIENCE, "`{words}` never came; so far: {}", self.out());
            std::thread::sleep(STEP);
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Kills it, without a chance to clean up.
    pub(crate) fn kill(mut self) -> Ran {
        self.child.kill().unwrap();
        self.end()
    }

    /// Waits until it ends.
    pub(crate) fn end(mut self) -> Ran {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                self.child.kill().unwrap();
                self.child.wait().unwrap();
                panic!("the program did not end; out: {}", self.out());
            }
            std::thread::sleep(STEP);
        };
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        let err = String::from_utf8_lossy(&self.err.lock().unwrap()).into_owned();
        Ran { code: code(status), out: self.out(), err }
    }
}

impl Drop for Running {
    /// A test that failed leaves no process behind.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

fn collect(mut from: impl Read + Send + 'static, into: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            into.lock().unwrap().extend_from_slice(&buffer[..read]);
        }
    })
}

/// Waits until a program executes a run in a session.
pub(crate) fn wait_for_active_run(home: &Home, id: &str) {
    let begun = Instant::now();
    while !home.json(&["sessions", "show", id])["session"]["active_run"].is_string() {
        assert!(begun.elapsed() < PATIENCE, "no run became active");
        std::thread::sleep(STEP);
    }
}

/// Waits until there is a session with an active run, and answers with its id.
pub(crate) fn wait_for_session_at_work(home: &Home) -> String {
    let begun = Instant::now();
    loop {
        let list = home.json(&["sessions", "list"]);
        if list["sessions"][0]["active_run"].is_string() {
            return text(&list["sessions"][0]["id"]);
        }
        assert!(begun.elapsed() < PATIENCE, "no run became active");
        std::thread::sleep(STEP);
    }
}
