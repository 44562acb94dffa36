//! Runs the suite once for each break, until a clause fails.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::build::Built;
use crate::child;
use crate::left;
use crate::listed::{Genre, Listed};

/// A clause that noticed something goes this many times nearer to the front than its slowness puts it.
const FORWARD: usize = 8;

/// What became of a break.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    /// This clause failed.
    Killed { clause: String, says: String },
    /// The program ended by itself or never: no clause could finish.
    Stopped { says: String },
    /// Every clause passed, and a test of the crate failed.
    Tested { test: String },
    /// Every clause passed, and every test.
    Survived,
    /// The compiler refuses it.
    Unviable,
    /// It needs a build of its own.
    Alone,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    name: String,
    genre: Genre,
    backend: String,
    fate: Fate,
}

/// Runs all that have no result yet. Answers whether every break was noticed but for those that may be left.
pub(crate) fn judge(
    built: &Built,
    results: &Path,
    backend: &str,
    mut say: impl FnMut(&str),
) -> Result<bool, String> {
    let mut known = known(results, backend)?;
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(results)
        .map_err(|error| format!("{}: {error}", results.display()))?;
    let mut note = |one: &Listed, fate: Fate| -> Result<(), String> {
        let line = Line { name: one.name.clone(), genre: one.genre, backend: backend.to_owned(), fate };
        let text = serde_json::to_string(&line).map_err(|error| error.to_string())?;
        writeln!(file, "{text}").map_err(|error| format!("{}: {error}", results.display()))
    };
    for (breaks, fate) in [(&built.unviable, Fate::Unviable), (&built.alone, Fate::Alone)] {
        for one in breaks {
            if known.insert(one.name.clone(), fate.clone()).is_none() {
                note(one, fate.clone())?;
            }
        }
    }
    let quickest = clauses(&built.program, backend)?;
    let mut order = quickest.clone();
    let (unbroken, _) = run(&built.program, backend, &order, "")?;
    if unbroken != Fate::Survived {
        return Err(format!("without any break the suite does not pass: {unbroken:?}"));
    }
    if let Some(test) = failing(built, "")? {
        return Err(format!("without any break a test does not pass: {test}"));
    }
    let began = Instant::now();
    let waiting: Vec<&Listed> = built.ready.iter().filter(|one| !known.contains_key(&one.name)).collect();
    for (at, one) in waiting.iter().enumerate() {
        let comes_past = |id: &&String| one.clauses.as_ref().is_none_or(|clauses| clauses.contains(*id));
        let asked: Vec<String> = order.iter().filter(comes_past).cloned().collect();
        let (mut fate, clause) = run(&built.program, backend, &asked, &one.fault())?;
        // What has just noticed one break is likely to notice the next; but a slow one goes not before the quick.
        if let Some(clause) = clause
            && let Some(slowness) = quickest.iter().position(|id| *id == clause)
        {
            order.retain(|id| *id != clause);
            order.insert(slowness / FORWARD, clause);
        }
        if fate == Fate::Survived
            && let Some(test) = failing(built, &one.fault())?
        {
            fate = Fate::Tested { test };
        }
        note(one, fate.clone())?;
        known.insert(one.name.clone(), fate);
        if at % 50 == 49 {
            say(&format!("{} of {} after {} s", at + 1, waiting.len(), began.elapsed().as_secs()));
        }
    }
    let all: Vec<&Listed> = built.ready.iter().chain(&built.unviable).chain(&built.alone).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for fate in all.iter().filter_map(|one| known.get(&one.name)) {
        *counts.entry(fate.word()).or_default() += 1;
    }
    for (word, count) in &counts {
        say(&format!("{count:>5} {word}"));
    }
    let survived = all.iter().copied().filter(|one| known.get(&one.name) == Some(&Fate::Survived));
    let news = left::compare(left::read(Path::new("."))?, &all, survived);
    news.iter().for_each(|line| say(line));
    Ok(news.is_empty())
}

impl Fate {
    fn word(&self) -> &'static str {
        match self {
            Self::Killed { .. } => "killed by a clause",
            Self::Stopped { .. } => "stopped",
            Self::Tested { .. } => "noticed by a test",
            Self::Survived => "survived",
            Self::Unviable => "do not compile",
            Self::Alone => "need a build of their own",
        }
    }
}

/// The test of a broken crate that fails with this break, if one does.
fn failing(built: &Built, fault: &str) -> Result<Option<String>, String> {
    for tests in &built.tests {
        if let Some(test) = tests.ask(fault)? {
            return Ok(Some(test));
        }
    }
    Ok(None)
}

fn known(results: &Path, backend: &str) -> Result<BTreeMap<String, Fate>, String> {
    let Ok(text) = fs::read_to_string(results) else { return Ok(BTreeMap::new()) };
    let mut known = BTreeMap::new();
    for line in text.lines() {
        let line: Line = serde_json::from_str(line)
            .map_err(|error| format!("{}: a line is not understood: {error}", results.display()))?;
        if line.backend == backend {
            known.insert(line.name, line.fate);
        }
    }
    Ok(known)
}

/// The clauses, the quickest first.
pub(crate) fn clauses(program: &Path, backend: &str) -> Result<Vec<String>, String> {
    let output = Command::new(program)
        .args([backend, "--time"])
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let clauses: Vec<String> = said.lines().map(str::to_owned).collect();
    if clauses.is_empty() || !output.status.success() {
        return Err(format!("the program names no clauses: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(clauses)
}

/// Runs clauses in this order with one break, or with none if it is empty. Answers the clause that failed, too.
fn run(
    program: &Path,
    backend: &str,
    order: &[String],
    fault: &str,
) -> Result<(Fate, Option<String>), String> {
    let mut command = Command::new(program);
    command.arg(backend).args(order).env("TURNKEEP_MUTANT", fault);
    let ended = child::run(command)?;
    let said = ended.said.lines().next().unwrap_or_default();
    let stopped = |says: &str| Fate::Stopped { says: says.to_owned() };
    Ok(match (ended.success, said.split_once(' ')) {
        (None, _) => (stopped("no end"), None),
        (_, Some((clause, says))) => {
            let clause = clause.to_owned();
            (Fate::Killed { clause: clause.clone(), says: says.to_owned() }, Some(clause))
        }
        (_, None) if said == "passed" => (Fate::Survived, None),
        (_, None) => {
            let last = ended.errors.lines().rev().find(|line| !line.trim().is_empty());
            (stopped(last.unwrap_or("no word")), None)
        }
    })
}
