//! A clause in a process of its own, because a process commits at most one fault.

use std::fmt;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use turnkeep_conformance::{registry, testing};
use turnkeep_harnesses::mutants::On;
use turnkeep_harnesses::{MemoryHarness, NamedMemoryHarness, RedbHarness, SqliteHarness};

/// Names clause and store to the process that runs it; those it starts itself inherit it.
const CLAUSE: &str = "TURNKEEP_MUTANT_CLAUSE";
const STORE: &str = "TURNKEEP_MUTANT_STORE";
/// See `turnkeep_core::mutant`.
const MUTANT: &str = "TURNKEEP_MUTANT";

/// No clause takes longer.
const LONGEST: Duration = Duration::from_secs(120);

/// How a clause ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// It passed, or the lack of what it needs was declared and confirmed.
    Well,
    /// The promise was broken, and these are its words.
    Failed(String),
    /// Anything else.
    Otherwise(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Well => f.write_str("it ended well"),
            Self::Failed(words) => write!(f, "it failed: {words}"),
            Self::Otherwise(what) => write!(f, "neither: {what}"),
        }
    }
}

/// Runs a clause on a fresh store, with a fault or without one.
pub(super) fn clause_on(id: &str, on: On, mutant: Option<&str>) -> Ended {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program)
        .args([
            "--exact",
            "mutants::process::a_clause_for_another_process",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CLAUSE, id)
        .env(STORE, on.as_str())
        .env(MUTANT, mutant.unwrap_or_default())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut complaints = child.stderr.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = complaints.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    });
    let ended = wait(&mut child);
    let said = said.join().unwrap();
    match ended {
        None => Ended::Otherwise(format!("{id} did not end within {LONGEST:?}: {said}")),
        Some(true) => Ended::Well,
        Some(false) => match said.split_once("\n  fail: ").or_else(|| said.split_once("fail: ")) {
            Some((_, words)) => Ended::Failed(words.to_owned()),
            None => Ended::Otherwise(said),
        },
    }
}

/// Whether it ended well; `None` when it had to be ended.
fn wait(child: &mut Child) -> Option<bool> {
    let until = Instant::now() + LONGEST;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.success());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// What such a process runs. By itself there is nothing to do for it.
#[test]
fn a_clause_for_another_process() {
    let (Ok(id), Ok(store)) = (std::env::var(CLAUSE), std::env::var(STORE)) else { return };
    let name = registry::by_id(&id).unwrap().name;
    let path = concat!(module_path!(), "::a_clause_for_another_process");
    match store {
        store if store == On::Memory.as_str() => testing::run::<MemoryHarness>(name, path),
        store if store == On::NamedMemory.as_str() => testing::run::<NamedMemoryHarness>(name, path),
        store if store == On::Sqlite.as_str() => testing::run::<SqliteHarness>(name, path),
        store if store == On::Redb.as_str() => testing::run::<RedbHarness>(name, path),
        other => panic!("no store is called {other:?}"),
    }
}
