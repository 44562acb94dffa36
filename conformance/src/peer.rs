//! Other processes: a clause that needs one runs its own test or program again, in a role.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};

use crate::context::Context;
use crate::fragment;
use crate::harness::Site;
use crate::verdict::{Outcome, Stop};

const ROLE: &str = "TURNKEEP_CONFORMANCE_ROLE";
const SITE: &str = "TURNKEEP_CONFORMANCE_SITE";
/// Set in the process that a clause has for itself.
const ALONE: &str = "TURNKEEP_CONFORMANCE_ALONE";

/// The call to its disk at which a peer ends on the spot.
const DIES: &str = "TURNKEEP_CONFORMANCE_DIES_AT";

/// What marks a line as said by a peer; test programs print lines of their own around it.
const TELL: &str = "peer> ";

/// No peer lives longer than this.
const LONGEST: Duration = Duration::from_secs(50);

/// How long the operating system may take to end, stop or thaw a process.
const SETTLES: Duration = Duration::from_secs(20);

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

    /// The running program with these arguments.
    #[cfg(feature = "certify")]
    pub(crate) fn of_program(arguments: Vec<String>) -> std::io::Result<Self> {
        Ok(Self { program: std::env::current_exe()?, arguments })
    }

    /// The command, without a role.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }

    fn start(&self, variables: &[(&str, &str)]) -> Outcome<Peer> {
        let mut child = self
            .command()
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Stop::error(format!("a peer process does not start: {error}")))?;
        let stdout = child.stdout.take().ok_or_else(|| Stop::error("a peer process has no output"))?;
        let stderr = child.stderr.take().ok_or_else(|| Stop::error("a peer process has no error output"))?;
        let (tell, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            loop {
                let mut line = String::new();
                // A line that a kill cut off was not said.
                let whole = stdout.read_line(&mut line).is_ok() && line.ends_with('\n');
                if !whole || tell.send(line.trim_end().to_owned()).is_err() {
                    break;
                }
            }
        });
        let (complain, complaints) = oneshot::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = BufReader::new(stderr).read_to_string(&mut text);
            let _ = complain.send(text);
        });
        Ok(Peer { child, lines, heard: Vec::new(), complaints, ends: Instant::now() + LONGEST })
    }

    /// Starts a peer in a role on a site.
    pub(crate) fn start_role(&self, role: &str, site: &Site) -> Outcome<Peer> {
        self.start(&[(ROLE, role), (SITE, site.as_str())])
    }

    /// Starts a peer in a role on a site, on a disk on which it ends at a call that changes something.
    pub(crate) fn start_doomed(&self, role: &str, site: &Site, call: u64) -> Outcome<Peer> {
        self.start(&[(ROLE, role), (SITE, site.as_str()), (DIES, &call.to_string())])
    }

    /// Starts the whole test in a process of its own.
    pub(crate) fn start_alone(&self, longest: Duration) -> Outcome<Peer> {
        let mut peer = self.start(&[(ALONE, "1"), (fragment::RUN, fragment::run())])?;
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

/// The call to its disk at which this process ends, if it was started so.
pub(crate) fn doom() -> Option<u64> {
    std::env::var(DIES).ok()?.parse().ok()
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

/// What a line of a peer says, if it is one of those that [`tell`] writes.
pub(crate) fn told(line: &str) -> Option<&str> {
    line.strip_prefix(TELL)
}

/// Another process. Killed and waited for when dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
    /// Every line so far, also those that the test program printed.
    heard: Vec<String>,
    complaints: oneshot::Receiver<String>,
    ends: Instant,
}

/// What a peer had said when it was killed.
#[derive(Debug)]
pub(crate) struct Killed {
    /// Everything it said.
    pub(crate) said: Vec<String>,
    /// It had ended by itself before the kill came.
    pub(crate) too_late: bool,
}

impl Peer {
    /// Waits for the next thing it says; `None` when it says no more.
    pub(crate) async fn hear(&mut self) -> Outcome<Option<String>> {
        loop {
            let Ok(line) = tokio::time::timeout_at(self.ends.into(), self.lines.recv()).await else {
                return Err(Stop::error("a peer process did not end in time and was killed"));
            };
            let Some(line) = line else { return Ok(None) };
            self.heard.push(line);
            if let Some(said) = self.heard.last().and_then(|line| told(line)) {
                return Ok(Some(said.to_owned()));
            }
        }
    }

    /// Waits until it has ended, for a bounded time.
    async fn settled(&mut self, until: Instant) -> Outcome<ExitStatus> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() < until => tokio::time::sleep(Duration::from_millis(1)).await,
                Ok(None) => return Err(Stop::error("a peer process did not end in time and was killed")),
                Err(error) => return Err(Stop::error(format!("a peer process is lost: {error}"))),
            }
        }
    }

    fn said(&self) -> Vec<String> {
        self.heard.iter().filter_map(|line| told(line)).map(str::to_owned).collect()
    }

    /// A peer whose role failed: what it was not granted is what it complains about.
    async fn failure(&mut self, status: ExitStatus) -> Stop {
        let complained = tokio::time::timeout(Duration::from_secs(5), &mut self.complaints).await;
        let complaint = complained.ok().and_then(Result::ok).unwrap_or_default();
        Stop::fail(format!("a peer process failed ({status}): {}\n{complaint}", self.heard.join("\n")))
    }

    /// Waits for its end, and gives everything it said if it ended well.
    pub(crate) async fn ended(mut self) -> Outcome<Vec<String>> {
        while self.hear().await?.is_some() {}
        let status = self.settled(self.ends).await?;
        if status.success() { Ok(self.said()) } else { Err(self.failure(status).await) }
    }

    /// Waits for its end where there is no runtime.
    pub(crate) fn wait(self) -> Outcome<Vec<String>> {
        let runtime = Builder::new_current_thread().enable_time().build();
        runtime.map_err(|error| Stop::error(format!("no runtime: {error}")))?.block_on(self.ended())
    }

    /// Kills it on the spot (SIGKILL), stopped or not, and gives everything that it had said by then.
    pub(crate) async fn kill(mut self) -> Outcome<Killed> {
        // Who has ended already cannot be killed; the status says so.
        let _ = self.child.kill();
        self.ends = self.ends.min(Instant::now() + SETTLES);
        self.died().await
    }

    /// Waits until it is dead, and gives everything that it had said by then.
    pub(crate) async fn died(mut self) -> Outcome<Killed> {
        while self.hear().await?.is_some() {}
        let status = self.settled(self.ends).await?;
        let by_itself = cfg!(unix) && status.code().is_some();
        if by_itself && !status.success() {
            return Err(self.failure(status).await);
        }
        Ok(Killed { said: self.said(), too_late: status.success() })
    }

    /// Stops it on the spot (SIGSTOP), and waits until it stands still.
    #[cfg(unix)]
    pub(crate) async fn stop(&mut self) -> Outcome {
        use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
        let pid = self.signal(Signal::STOP)?;
        let until = Instant::now() + SETTLES;
        // Only stops are asked for, so that its end stays there to be waited for.
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        while Instant::now() < until {
            match waitid(WaitId::Pid(pid), look) {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(error) => return Err(Stop::error(format!("a peer process is lost: {error}"))),
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failure(status).await);
            }
        }
        Err(Stop::error("a peer process goes on although it was stopped"))
    }

    /// Lets it go on (SIGCONT).
    #[cfg(unix)]
    pub(crate) fn thaw(&self) -> Outcome {
        self.signal(rustix::process::Signal::CONT).map(drop)
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) -> Outcome<rustix::process::Pid> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal)
            .map_err(|error| Stop::error(format!("a peer process takes no signal: {error}")))?;
        Ok(pid)
    }

    /// There is nothing like it here.
    #[cfg(not(unix))]
    pub(crate) async fn stop(&mut self) -> Outcome {
        Err(Stop::not_run("this system stops no processes"))
    }

    /// There is nothing like it here.
    #[cfg(not(unix))]
    pub(crate) fn thaw(&self) -> Outcome {
        Err(Stop::not_run("this system stops no processes"))
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

    /// Starts another process on a site, on a disk on which it ends at a call that changes something.
    pub(crate) fn start_doomed(&self, role: &str, site: &Site, call: u64) -> Outcome<Peer> {
        let command = self.settings.peers.as_ref();
        command
            .ok_or_else(|| Stop::not_run("this runner starts no processes"))?
            .start_doomed(role, site, call)
    }

    /// Starts another process on another site.
    pub(crate) fn start_peer_at(&self, role: &str, site: &Site) -> Outcome<Peer> {
        let command = self.settings.peers.as_ref();
        command.ok_or_else(|| Stop::not_run("this runner starts no processes"))?.start_role(role, site)
    }
}
