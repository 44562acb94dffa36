//! Puts together what the tests of one run found, each in a file of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::data::{Report, Run};
use crate::backend::Backend;
use crate::fragment::Fragment;

/// Why fragments cannot be put together.
#[derive(Debug)]
#[non_exhaustive]
pub enum MergeError {
    /// The folder or a file of it cannot be read.
    Io {
        /// Where.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file is no fragment.
    NoFragment {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// There is none.
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// A clause has two.
    Twice {
        /// The clause.
        id: String,
        /// The two files.
        paths: [PathBuf; 2],
    },
    /// Two fragments do not belong together.
    Mixed {
        /// In what they differ.
        what: &'static str,
        /// The two files.
        paths: [PathBuf; 2],
    },
    /// The fragments are of a suite with other clauses than this one.
    OtherSuite {
        /// The first one.
        path: PathBuf,
    },
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, error } => write!(f, "{} cannot be read: {error}", path.display()),
            Self::NoFragment { path, error } => write!(f, "{} is no fragment: {error}", path.display()),
            Self::Empty { path } => write!(
                f,
                "{} holds no fragments; run the tests with TURNKEEP_CONFORMANCE_FRAGMENTS set to it",
                path.display()
            ),
            Self::Twice { id, paths: [one, two] } => write!(
                f,
                "{id} has two fragments, {} and {}; empty the folder before each run, and give each backend its own",
                one.display(),
                two.display()
            ),
            Self::Mixed { what, paths: [one, two] } => write!(
                f,
                "{} and {} differ in the {what}; empty the folder before each run, and give each backend its own",
                one.display(),
                two.display()
            ),
            Self::OtherSuite { path } => {
                write!(f, "{} was written by a suite with other clauses; run the tests again", path.display())
            }
        }
    }
}

impl std::error::Error for MergeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::NoFragment { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Reads every fragment of a folder and makes one report of them. A clause without a fragment was not run.
///
/// # Errors
/// When fragments are of two runs, of two backends, or of one clause twice.
pub fn merge(folder: &Path) -> Result<Report, MergeError> {
    let fragments = read(folder)?;
    let Some((first_path, first)) = fragments.first() else {
        return Err(MergeError::Empty { path: folder.to_owned() });
    };
    let mut report = Report::blank(declared(&first.backend), run_of(&fragments, first));
    if report.catalogue != first.catalogue {
        return Err(MergeError::OtherSuite { path: first_path.clone() });
    }
    let mut seen: BTreeMap<&str, &Path> = BTreeMap::new();
    let mut store: Option<&Path> = None;
    for (path, fragment) in &fragments {
        let both = |other: &Path| [other.to_owned(), path.clone()];
        if let Some(what) = difference(first, fragment) {
            return Err(MergeError::Mixed { what, paths: both(first_path) });
        }
        if let Some(other) = seen.insert(&fragment.clause, path) {
            return Err(MergeError::Twice { id: fragment.clause.clone(), paths: both(other) });
        }
        match (store, &fragment.backend.store) {
            (None, Some(facts)) => {
                store = Some(path);
                report.backend.store = Some(facts.clone());
            }
            (Some(other), Some(facts)) if report.backend.store.as_ref() != Some(facts) => {
                return Err(MergeError::Mixed { what: "version of the store or engine", paths: both(other) });
            }
            _ => {}
        }
        if let Some(entry) = report.clauses.iter_mut().find(|entry| entry.promise.id == fragment.clause) {
            entry.add(&fragment.finding, fragment.seed);
        }
    }
    for entry in report.clauses.iter_mut().filter(|entry| entry.rounds == 0) {
        entry.verdict = crate::Verdict::NotRun("no test of it left a fragment".to_owned());
    }
    Ok(report)
}

/// All fragments of a folder, by name.
fn read(folder: &Path) -> Result<Vec<(PathBuf, Fragment)>, MergeError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| MergeError::Io { path, error }
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).map_err(failed(&path))?;
        match serde_json::from_slice(&bytes) {
            Ok(fragment) => Ok((path, fragment)),
            Err(error) => Err(MergeError::NoFragment { path, error }),
        }
    };
    paths.into_iter().map(read).collect()
}

fn declared(backend: &Backend) -> Backend {
    Backend { store: None, ..backend.clone() }
}

/// In what two fragments differ that must be the same in one run.
fn difference(one: &Fragment, two: &Fragment) -> Option<&'static str> {
    if one.catalogue != two.catalogue {
        Some("clauses of the suite")
    } else if declared(&one.backend) != declared(&two.backend) {
        Some("manifest of the backend")
    } else if (one.tier, one.seed) != (two.tier, two.seed) {
        Some("tier or seed")
    } else if one.run != two.run {
        Some("run")
    } else {
        None
    }
}

fn run_of(fragments: &[(PathBuf, Fragment)], first: &Fragment) -> Run {
    let ended = fragments.iter().map(|(_, fragment)| fragment.ended);
    let began = fragments.iter().map(|(_, fragment)| {
        let took = i64::try_from(fragment.finding.elapsed.as_millis()).unwrap_or(i64::MAX);
        fragment.ended.plus_ms(-took)
    });
    let (tier, seed) = (first.tier, first.seed);
    let package = first.package.as_ref().map(|package| format!(" -p {package}")).unwrap_or_default();
    Run {
        tier,
        seed,
        budget_s: None,
        only: Vec::new(),
        jobs: 1,
        program: None,
        command: format!(
            "TURNKEEP_CONFORMANCE_TIER={tier} TURNKEEP_CONFORMANCE_SEED={seed} cargo test{package}"
        ),
        began: began.min().unwrap_or(first.ended),
        ended: ended.max().unwrap_or(first.ended),
    }
}
