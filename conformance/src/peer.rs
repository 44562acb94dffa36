//! Other processes: a clause that needs one runs its own test again, in a role.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::harness::Site;
use crate::verdict::{Outcome, Stop};

const ROLE: &str = "TURNKEEP_CONFORMANCE_ROLE";
const SITE: &str = "TURNKEEP_CONFORMANCE_SITE";
/// Set in the process that a clause has for itself.
const ALONE: &str = "TURNKEEP_CONFORMANCE_ALONE";

/// What marks a line as said by a peer; test programs print lines of their own around it.
const TELL: &str = "peer> ";

/// No peer lives longer than this.
const LONGEST: Duration = Duration::from_secs(50);

/// How to run a clause again in another process.
#[derive(Clone, Debug)]
pub(crate) struct PeerCommand {
    program: PathBuf,
    arguments: Vec<String>,
}

impl PeerCommand {
    /// The running test program, and in it the test of this full name.
    pub(crate) fn of_test(full_name: &str) -> Outcome<Self> {
        let program = std::env::current_exe()
            .map_err(|error| Stop::error(format!("the test program does not know its own path: {error}")))?;
        let arguments = ["--exact", full_name, "--nocapture", "--test-threads=1"];
        Ok(Self { program, arguments: arguments.map(str::to_owned).to_vec() })
    }

    fn start(&self, variables: &[(&str, &str)]) -> Outcome<Peer> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Stop::error(format!("a peer process does not start: {error}")))?;
        let stdout = child.stdout.take().ok_or_else(|| Stop::error("a peer process has no output"))?;
        let stderr = child.stderr.take().ok_or_else(|| Stop::error("a peer process has no error output"))?;
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let (complain, complaints) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = BufReader::new(stderr).read_to_string(&mut text);
            let _ = complain.send(text);
        });
        Ok(Peer { child, lines, complaints, ends: Instant::now() + LONGEST })
    }

    /// Starts a peer in a role on a site.
    pub(crate) fn start_role(&self, role: &str, site: &Site) -> Outcome<Peer> {
        self.start(&[(ROLE, role), (SITE, site.as_str())])
    }

    /// Starts the whole test in a process of its own.
    pub(crate) fn start_alone(&self, longest: Duration) -> Outcome<Peer> {
        let mut peer = self.start(&[(ALONE, "1")])?;
        peer.ends = Instant::now() + longest;
        Ok(peer)
    }
}

/// The role and site that this process was started for, if it is a peer.
pub(crate) fn assigned() -> Option<(String, Site)> {
    let role = std::env::var(ROLE).ok()?;
    let site = std::env::var(SITE).ok()?;
    Some((role, Site::new(site)))
}

/// Whether this process was started for one clause alone.
pub(crate) fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Says a line to the process that started this one.
pub(crate) fn tell(line: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    // The test program may stand in the middle of a line of its own.
    write!(out, "\n{TELL}{line}\n")
        .and_then(|()| out.flush())
        .map_err(|error| Stop::error(format!("a peer cannot speak: {error}")))
}

/// Another process. Killed and waited for when dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    lines: Receiver<String>,
    complaints: Receiver<String>,
    ends: Instant,
}

impl Peer {
    /// Everything it said, once it ended well. Blocks: call it off the runtime.
    fn finish(mut self) -> Outcome<Vec<String>> {
        let mut all = Vec::new();
        loop {
            let left = self.ends.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => all.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return Err(Stop::error("a peer process did not end in time and was killed"));
                }
            }
        }
        let status =
            self.child.wait().map_err(|error| Stop::error(format!("a peer process is lost: {error}")))?;
        if !status.success() {
            let said = self.complaints.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
            return Err(Stop::fail(format!("a peer process failed ({status}): {}\n{said}", all.join("\n"))));
        }
        Ok(all.iter().filter_map(|line| line.strip_prefix(TELL)).map(str::to_owned).collect())
    }

    /// Waits for its end without blocking the runtime, and gives what it said.
    pub(crate) async fn ended(self) -> Outcome<Vec<String>> {
        tokio::task::spawn_blocking(|| self.finish())
            .await
            .map_err(|error| Stop::error(format!("waiting for a peer failed: {error}")))?
    }

    /// Waits for its end.
    pub(crate) fn wait(self) -> Outcome<Vec<String>> {
        self.finish()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Context {
    /// Starts another process that opens the same site and plays a role of this clause.
    pub(crate) fn start_peer(&self, role: &str) -> Outcome<Peer> {
        self.start_peer_at(role, &self.site)
    }

    /// Starts another process that lives in another time zone.
    pub(crate) fn start_peer_in_zone(&self, role: &str, zone: &str) -> Outcome<Peer> {
        let command =
            self.settings.peers.as_ref().ok_or_else(|| Stop::not_run("this runner starts no processes"))?;
        command.start(&[(ROLE, role), (SITE, self.site.as_str()), ("TZ", zone)])
    }

    /// Starts another process on another site.
    pub(crate) fn start_peer_at(&self, role: &str, site: &Site) -> Outcome<Peer> {
        let command = self.settings.peers.as_ref();
        command.ok_or_else(|| Stop::not_run("this runner starts no processes"))?.start_role(role, site)
    }
}
