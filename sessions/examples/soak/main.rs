//! Processes at work on one SQLite store while one of them is killed every second; then it is asked whether anything
//! that was acknowledged is lost, and whether anything happened twice.
//!
//! ```text
//! cargo run -p turnkeep-sessions --example soak -- --seconds 600
//! ```
//!
//! Each process takes leases, executes runs with tool claims, streams text, lets runs wait and takes them up, forks and
//! appends. It says on its standard output what the store acknowledged; the books are compared at the end.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "trouble ends it, and it tells what it found")]

mod books;
mod worker;

use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use turnkeep_core::{Clock as _, Result, SystemClock, Timestamp, WorkspaceId};
use turnkeep_sessions::testing::Dice;
use turnkeep_sessions::{Following, News, Workspace};
use turnkeep_sqlite::SqliteStore;

use books::Books;
pub(crate) use books::Findings;

/// Processes at work.
const WORKERS: usize = 8;
/// Sessions that they work on at a time, beside the forks they make.
const SESSIONS: u64 = 10;
/// How long they work on the same ones.
const ERA_SECONDS: u64 = 60;
/// How long they may go on with what they are doing when they are told to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// What begins a line that is for the books.
pub(crate) const SAYS: &str = "soak: ";
/// Tells a process that it is a worker, and where.
pub(crate) const WORKER: &str = "TURNKEEP_SOAK_WORKER";

/// Where the work is done and since when.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    begun: Timestamp,
    eras: u64,
}

impl Place {
    fn new(folder: &Path, seconds: u64) -> Self {
        let eras = seconds / ERA_SECONDS + 1;
        Self { folder: folder.to_owned(), begun: SystemClock.now(), eras }
    }

    /// As a worker is told.
    fn tell(&self, seed: u64) -> String {
        format!("{seed}:{}:{}:{}", self.begun.as_millis(), self.eras, self.folder.display())
    }

    /// As a worker was told, with its seed.
    pub(crate) fn told(words: &str) -> (u64, Self) {
        let mut words = words.splitn(4, ':');
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        let (seed, begun, eras) = (number(), Timestamp::from_millis(number() as i64), number());
        (seed, Self { folder: words.next().unwrap().into(), begun, eras })
    }

    /// One of the sessions that all work on now. They change, so that what a fork copies does not grow with the time.
    pub(crate) fn a_session(&self, dice: &mut Dice) -> String {
        let worked = SystemClock.now().as_millis().saturating_sub(self.begun.as_millis());
        let era = (worked.unsigned_abs() / 1_000 / ERA_SECONDS).min(self.eras - 1);
        session_name(era * SESSIONS + dice.below(SESSIONS))
    }

    pub(crate) fn all_sessions(&self) -> Range<u64> {
        0..self.eras * SESSIONS
    }

    /// The file that stands for the world: each line is one effect of a tool.
    pub(crate) fn world(&self) -> PathBuf {
        self.folder.join("world")
    }

    /// Whether the workers are to end.
    pub(crate) fn stop_file(&self) -> PathBuf {
        self.folder.join("stop")
    }

    pub(crate) async fn open(&self) -> Result<Workspace> {
        let store = SqliteStore::open(self.folder.join("state.sqlite3")).await?;
        Workspace::open(Arc::new(store), WorkspaceId::new("soak")?).await
    }
}

/// The name of a session.
pub(crate) fn session_name(at: u64) -> String {
    format!("s{at}")
}

/// A process at work, and the thread that reads what it says.
struct Worker {
    child: Child,
    reader: JoinHandle<()>,
}

impl Worker {
    fn start(place: &Place, seed: u64, arguments: &[&str], says: &Sender<String>) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(arguments)
            .env(WORKER, place.tell(seed))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let says = says.clone();
        let reader = std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout);
            let mut line = String::new();
            // A line without its end was cut by the kill: what it says was acknowledged to nobody.
            while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) && line.ends_with('\n') {
                if let Some((_, said)) = line.trim_end().split_once(SAYS) {
                    let _ = says.send(said.to_owned());
                }
                line.clear();
            }
        });
        Self { child, reader }
    }

    fn kill(mut self) {
        let _ = self.child.kill();
        self.gone();
    }

    fn gone(mut self) {
        let _ = self.child.wait();
        let _ = self.reader.join();
    }

    /// Waits for the end that was asked for, and does not wait for ever; answers whether it came.
    fn end(mut self, until: Instant) -> bool {
        loop {
            let ended = matches!(self.child.try_wait(), Ok(Some(_)));
            if ended || Instant::now() >= until {
                self.kill();
                return ended;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Works for some time, and looks at what is left.
pub(crate) fn soak(seconds: u64, seed: u64, arguments: &[&str]) -> Findings {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path(), seconds);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ws = runtime.block_on(async {
        let ws = place.open().await.unwrap();
        for at in place.all_sessions() {
            let session = ws.sessions().create().id(session_name(at).parse().unwrap());
            session.await.unwrap();
        }
        ws
    });
    let following = runtime.spawn(follow(ws.clone(), place.clone()));
    let (says, said) = channel();
    let mut dice = Dice::new(seed);
    let mut workers: Vec<Worker> = (0..WORKERS as u64)
        .map(|at| Worker::start(&place, seed.wrapping_add(at), arguments, &says))
        .collect();
    let (begun, mut kills) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        // Not in step with anything: from nothing to two seconds.
        std::thread::sleep(Duration::from_millis(100 + dice.below(1_800)));
        let victim = dice.below(WORKERS as u64);
        workers.swap_remove(victim as usize).kill();
        kills += 1;
        workers.push(Worker::start(&place, seed.wrapping_add(1_000 + kills), arguments, &says));
    }
    std::fs::write(place.stop_file(), "").unwrap();
    let until = Instant::now() + PATIENCE;
    let stuck = workers.into_iter().map(|worker| worker.end(until)).filter(|ended| !ended).count();
    drop(says);
    let followed = runtime.block_on(following).unwrap().unwrap();
    let mut books = Books::read(said.into_iter());
    if stuck > 0 {
        books.trouble(format!("{stuck} did not end when they were told to"));
    }
    runtime.block_on(async move {
        // As the next process finds it.
        ws.close().await.unwrap();
        books.compare(&place, kills, followed).await.unwrap()
    })
}

/// Follows every session; answers how many entries came, or the first that came twice or left a gap.
async fn follow(ws: Workspace, place: Place) -> Result<std::result::Result<u64, String>> {
    let mut all: Vec<(Following, u32)> = Vec::new();
    for at in place.all_sessions() {
        let session = ws.sessions().open(&session_name(at).parse()?).await?;
        all.push((session.follow().from_start().text().await?, 0));
    }
    let mut came = 0;
    loop {
        let last = place.stop_file().exists();
        for (at, (following, seen)) in all.iter_mut().enumerate() {
            for news in following.ready().await? {
                let News::Entry(entry) = news else { continue };
                if entry.number.get() != *seen + 1 {
                    return Ok(Err(format!("session {at}: entry {} came after {seen}", entry.number)));
                }
                *seen += 1;
                came += 1;
            }
        }
        if last {
            return Ok(Ok(came));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What one of the processes does.
pub(crate) fn worker(told: &str) {
    worker::main(told);
}

fn main() -> std::process::ExitCode {
    if let Ok(told) = std::env::var(WORKER) {
        worker(&told);
        return std::process::ExitCode::SUCCESS;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1)?.parse::<u64>().ok()
    };
    let Some(seconds) = after("--seconds") else {
        println!("give --seconds N, and --seed N to do the same again");
        return std::process::ExitCode::from(2);
    };
    let seed = after("--seed").unwrap_or_else(|| u64::from(std::process::id()));
    println!("{WORKERS} processes for {seconds} s, seed {seed}");
    let findings = soak(seconds, seed, &[]);
    println!("{findings}");
    if findings.wrong.is_empty() { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}
