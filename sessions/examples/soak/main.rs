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
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use turnkeep_core::{Result, WorkspaceId};
use turnkeep_sessions::{Following, News, Workspace};
use turnkeep_sqlite::SqliteStore;

use books::Books;
pub(crate) use books::Findings;

/// Processes at work.
const WORKERS: usize = 8;
/// Sessions that they work on, beside the forks they make.
pub(crate) const SESSIONS: usize = 10;
/// What begins a line that is for the books.
pub(crate) const SAYS: &str = "soak: ";
/// Tells a process that it is a worker, and where.
pub(crate) const WORKER: &str = "TURNKEEP_SOAK_WORKER";

/// Numbers that look random and follow from a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most.max(1)
    }
}

pub(crate) async fn open(folder: &Path) -> Result<Workspace> {
    let store = SqliteStore::open(folder.join("state.sqlite3")).await?;
    Workspace::open(Arc::new(store), WorkspaceId::new("soak")?).await
}

/// The name of a session.
pub(crate) fn session_name(at: u64) -> String {
    format!("s{at}")
}

/// The file that stands for the world: each line is one effect of a tool.
pub(crate) fn world(folder: &Path) -> PathBuf {
    folder.join("world")
}

/// Whether the workers are to end.
pub(crate) fn stop_file(folder: &Path) -> PathBuf {
    folder.join("stop")
}

/// A process at work, and the thread that reads what it says.
struct Worker {
    child: Child,
    reader: JoinHandle<()>,
}

impl Worker {
    fn start(folder: &Path, seed: u64, arguments: &[&str], says: &Sender<String>) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(arguments)
            .env(WORKER, format!("{seed}:{}", folder.display()))
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

    /// Waits for the end that was asked for, and does not wait for ever.
    fn end(mut self) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
    }
}

/// Works for some time, and looks at what is left.
pub(crate) fn soak(seconds: u64, seed: u64, arguments: &[&str]) -> Findings {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ws = runtime.block_on(async {
        let ws = open(folder.path()).await.unwrap();
        for at in 0..SESSIONS as u64 {
            let session = ws.sessions().create().id(session_name(at).parse().unwrap());
            session.await.unwrap();
        }
        ws
    });
    let following = runtime.spawn(follow(ws.clone(), stop_file(folder.path())));
    let (says, said) = channel();
    let mut dice = Dice::new(seed);
    let mut workers: Vec<Worker> = (0..WORKERS as u64)
        .map(|at| Worker::start(folder.path(), seed.wrapping_add(at), arguments, &says))
        .collect();
    let (begun, mut kills) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        // Not in step with anything: from nothing to two seconds.
        std::thread::sleep(Duration::from_millis(100 + dice.below(1_800)));
        let victim = dice.below(WORKERS as u64) as usize;
        workers.swap_remove(victim).kill();
        kills += 1;
        workers.push(Worker::start(folder.path(), seed.wrapping_add(1_000 + kills), arguments, &says));
    }
    std::fs::write(stop_file(folder.path()), "").unwrap();
    for worker in workers {
        worker.end();
    }
    drop(says);
    let followed = runtime.block_on(following).unwrap().unwrap();
    let books = Books::read(said.into_iter());
    runtime.block_on(async move {
        // As the next process finds it.
        ws.close().await.unwrap();
        books.compare(folder.path(), kills, followed).await.unwrap()
    })
}

/// Follows every session; answers how many entries came, or the first that came twice or left a gap.
async fn follow(ws: Workspace, stop: PathBuf) -> Result<std::result::Result<u64, String>> {
    let mut all: Vec<(Following, u32)> = Vec::new();
    for at in 0..SESSIONS as u64 {
        let session = ws.sessions().open(&session_name(at).parse()?).await?;
        all.push((session.follow().from_start().text().await?, 0));
    }
    let mut came = 0;
    loop {
        let last = stop.exists();
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
pub(crate) fn worker(place: &str) {
    worker::main(place);
}

fn main() -> std::process::ExitCode {
    if let Ok(place) = std::env::var(WORKER) {
        worker(&place);
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
