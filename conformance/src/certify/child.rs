//! A clause in a process of its own: this program again, in a folder that is removed whatever happens.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::clause::Clause;
use crate::harness::Harness;
use crate::peer::{self, PeerCommand};
use crate::runner::{self, Settings};
use crate::tier;
use crate::verdict::{Finding, Outcome, Stop, Verdict};

/// How long a process may take beyond the time of its clause: to start, close, remove and end.
const GRACE: Duration = Duration::from_secs(60);
/// How often is looked whether to stop.
const STEP: Duration = Duration::from_millis(50);
/// Lines of what a process complained about that are shown.
const LINES: usize = 12;

/// Names the file of the tape that a clause is to play, and no other.
const TAPE: &str = "TURNKEEP_CONFORMANCE_TAPE";

/// Variables that name the folder for temporary files.
const TEMPORARY: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// Starts a process for each clause. All their sites lie in one folder, which is removed when this is dropped.
#[derive(Debug)]
pub struct Processes {
    command: PeerCommand,
    folder: TempDir,
}

impl Processes {
    /// Runs the current program again. With these arguments and the id of a clause it has to call
    /// [`program::Line::execute`](crate::program::Line), as [`program::main`](crate::program::main) does.
    ///
    /// Sites are made in a new folder within `within`, or among the temporary files.
    ///
    /// # Errors
    /// When the folder cannot be made, or the program does not know its own path.
    pub fn of_this_program(arguments: &[&str], within: Option<&Path>) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("turnkeep-certify-");
        let folder = match within {
            Some(within) => builder.tempdir_in(within)?,
            None => builder.tempdir()?,
        };
        let command = PeerCommand::of_program(arguments.iter().map(|text| (*text).to_owned()).collect())?;
        Ok(Self { command, folder })
    }

    /// Where the sites are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Asks one clause.
    pub(crate) fn ask(&self, clause: &'static Clause, settings: &Settings, stop: &AtomicBool) -> Finding {
        let began = Instant::now();
        let finding = match self.begin(clause, settings) {
            Ok(mut process) => process.finding(began + settings.longest + GRACE, stop),
            Err(error) => Finding::of(Verdict::Error(format!("no process for the clause: {error}"))),
        };
        if finding.elapsed.is_zero() { Finding { elapsed: began.elapsed(), ..finding } } else { finding }
    }

    fn begin(&self, clause: &Clause, settings: &Settings) -> io::Result<Process> {
        let mut command = self.command.command();
        if let Some(tape) = &settings.tape {
            let path = self.folder.path().join("tape.json");
            fs::write(&path, tape.as_bytes())?;
            command.env(TAPE, path);
        }
        command
            .arg(clause.id)
            .envs(tier::asking(settings))
            .envs(TEMPORARY.map(|name| (name, self.folder.path())))
            // It ends when this end of the pipe goes away: no process outlives the one that asked.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        group(&mut command);
        let mut child = command.spawn()?;
        let lines = read_lines(&mut child);
        let complaints = read_all(&mut child);
        Ok(Process { child, lines, complaints, ended: false })
    }
}

/// A process that asks a clause. Killed with all that it started, and waited for, when dropped.
struct Process {
    child: Child,
    lines: Receiver<String>,
    complaints: Receiver<String>,
    ended: bool,
}

impl Process {
    fn finding(&mut self, ends: Instant, stop: &AtomicBool) -> Finding {
        let mut told = None;
        loop {
            match self.lines.recv_timeout(STEP) {
                Ok(line) => told = peer::told(&line).map(str::to_owned).or(told),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                    return Finding::of(Verdict::NotRun("interrupted".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= ends => {
                    return Finding::of(Verdict::Error("its process did not end and was killed".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let status = match self.child.wait() {
            Ok(status) => status,
            Err(error) => return Finding::of(Verdict::Error(format!("its process is lost: {error}"))),
        };
        self.ended = true;
        let answer = told.filter(|_| status.success()).map(|text| serde_json::from_str::<Finding>(&text));
        match answer {
            Some(Ok(finding)) => finding,
            Some(Err(error)) => Finding::of(Verdict::Error(format!("its process spoke strangely: {error}"))),
            None => Finding::of(Verdict::Error(self.complaint(status))),
        }
    }

    fn complaint(&self, status: ExitStatus) -> String {
        let said = self.complaints.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        format!("its process ended without an answer ({status})\n{}", last.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ended {
            kill_group(&self.child);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Makes the process the first of a group, so that what it starts can be ended with it.
#[cfg(unix)]
fn group(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

#[cfg(not(unix))]
fn group(_: &mut Command) {}

#[cfg(unix)]
fn kill_group(first: &Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    // It was not waited for yet, so the number is still its own.
    let _ = kill_process_group(Pid::from_child(first), Signal::KILL);
}

#[cfg(not(unix))]
fn kill_group(_: &Child) {}

fn read_lines(child: &mut Child) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
    }
    lines
}

fn read_all(child: &mut Child) -> Receiver<String> {
    let (send, text) = mpsc::channel();
    if let Some(stderr) = child.stderr.take() {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = BufReader::new(stderr).read_to_end(&mut bytes);
            let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    text
}

/// What the process of a clause does: it plays a role of the clause if it was started for one, else it asks the clause
/// and tells what was found.
pub(crate) fn play(harness: Arc<dyn Harness>, clause: &'static Clause, arguments: &[String]) -> Outcome {
    let (tier, seed) = tier::asked().map_err(Stop::error)?;
    let settings = Settings { tier, seed, ..Settings::of(clause) };
    if let Some((role, site)) = peer::assigned() {
        // A thread of its own: whoever calls this may be on a runtime, and the role brings one.
        let played = std::thread::spawn(move || runner::run_peer(harness, clause, &role, site, settings));
        return played.join().unwrap_or_else(|_| Err(Stop::error("the role panicked")));
    }
    end_with_parent();
    let longest = tier::longest().map_err(Stop::error)?.unwrap_or(clause.timeout);
    let again = [arguments, &[clause.id.to_owned()]].concat();
    let peers = PeerCommand::of_program(again)
        .map_err(|error| Stop::error(format!("the program does not know its own path: {error}")))?;
    let settings = Settings { longest, peers: Some(peers), tape: tape()?, ..settings };
    let finding = runner::find(harness, clause, settings);
    let json = serde_json::to_string(&finding)
        .map_err(|error| Stop::error(format!("what was found has no JSON form: {error}")))?;
    peer::tell(&json)
}

/// The tape that this process is to play.
fn tape() -> Outcome<Option<Arc<str>>> {
    let Some(path) = std::env::var_os(TAPE) else { return Ok(None) };
    let text =
        fs::read_to_string(path).map_err(|error| Stop::error(format!("the tape cannot be read: {error}")))?;
    Ok(Some(Arc::from(text)))
}

/// Ends this process when the one that started it goes away.
fn end_with_parent() {
    std::thread::spawn(|| {
        let mut rest = Vec::new();
        let _ = io::stdin().lock().read_to_end(&mut rest);
        std::process::exit(1);
    });
}
