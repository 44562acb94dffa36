//! What one test found, kept as a file: where each clause is a test in a process of its own, nobody sees them all.
//! The files of one run are put together afterwards.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use turnkeep_core::{Clock, SystemClock, Timestamp};

use crate::backend::Backend;
use crate::catalogue;
use crate::clause::Clause;
use crate::tier::Tier;
use crate::verdict::Finding;

/// Names the folder that fragments are written to.
const FOLDER: &str = "TURNKEEP_CONFORMANCE_FRAGMENTS";
/// Names the run, so that fragments of two runs are not mixed up.
pub(crate) const RUN: &str = "TURNKEEP_CONFORMANCE_RUN";
/// The same, as a runner that starts a process per test names it.
const RUN_OF_RUNNER: &str = "NEXTEST_RUN_ID";

/// What one test of one clause found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fragment {
    /// Which run of the tests it belongs to.
    pub(crate) run: String,
    /// The clause.
    pub(crate) clause: String,
    /// The digest of all clauses of the suite that asked.
    pub(crate) catalogue: String,
    /// Who was asked.
    pub(crate) backend: Backend,
    /// How much work it was.
    pub(crate) tier: Tier,
    /// What everything that was drawn follows from.
    pub(crate) seed: u64,
    /// The package of the test, as the test runner names it.
    pub(crate) package: Option<String>,
    /// When the answer was there.
    pub(crate) ended: Timestamp,
    /// The answer.
    pub(crate) finding: Finding,
}

/// The folder that fragments are wanted in.
pub(crate) fn wanted() -> Option<PathBuf> {
    std::env::var_os(FOLDER).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// The run that this process belongs to: as the environment names it, else this process.
pub(crate) fn run() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let named = [RUN, RUN_OF_RUNNER].into_iter().find_map(|name| std::env::var(name).ok());
        named.unwrap_or_else(|| format!("process {} at {:?}", std::process::id(), SystemClock.now()))
    })
}

impl Fragment {
    pub(crate) fn new(clause: &Clause, backend: Backend, tier: Tier, seed: u64, finding: Finding) -> Self {
        let backend = Backend { store: finding.store.clone(), ..backend };
        Self {
            run: run().to_owned(),
            clause: clause.id.to_owned(),
            catalogue: catalogue::catalogue(&catalogue::current()),
            backend,
            tier,
            seed,
            package: std::env::var("CARGO_PKG_NAME").ok(),
            ended: SystemClock.now(),
            finding,
        }
    }

    /// Writes it, whole or not at all, under a name that no other fragment has: two of one clause must be seen.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(folder)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let at = self.ended.as_millis();
        let name = format!("{}.{at}-{}-{count}", self.clause, std::process::id());
        write_whole(&folder.join(format!("{name}.json")), &serde_json::to_vec(self)?)
    }
}

/// Writes a file so that it is there whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // Nothing to add: the first error says it.
        let _ = fs::remove_file(&beside);
    }
    written
}
