//! Runs the suite once for each break, until a clause fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::build::Built;
use crate::listed::{Genre, Listed};

/// A run that has said nothing for so long hangs: that is noticed too.
const LONGEST: Duration = Duration::from_secs(90);
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
    /// Every clause passed.
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

/// Runs all that have no result yet. Answers whether every break that can be run was noticed.
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
    let began = Instant::now();
    let waiting: Vec<&Listed> = built.ready.iter().filter(|one| !known.contains_key(&one.name)).collect();
    for (at, one) in waiting.iter().enumerate() {
        let comes_past = |id: &&String| one.clauses.as_ref().is_none_or(|clauses| clauses.contains(*id));
        let asked: Vec<String> = order.iter().filter(comes_past).cloned().collect();
        let (fate, clause) = run(&built.program, backend, &asked, &one.fault())?;
        // What has just noticed one break is likely to notice the next; but a slow one goes not before the quick.
        if let Some(clause) = clause
            && let Some(slowness) = quickest.iter().position(|id| *id == clause)
        {
            order.retain(|id| *id != clause);
            order.insert(slowness / FORWARD, clause);
        }
        if fate == Fate::Survived {
            say(&format!("survived: {}", one.name));
        }
        note(one, fate.clone())?;
        known.insert(one.name.clone(), fate);
        if at % 50 == 49 {
            say(&format!("{} of {} after {} s", at + 1, waiting.len(), began.elapsed().as_secs()));
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let listed: BTreeSet<&str> =
        built.ready.iter().chain(&built.unviable).chain(&built.alone).map(|one| one.name.as_str()).collect();
    for (_, fate) in known.iter().filter(|(name, _)| listed.contains(name.as_str())) {
        let word = match fate {
            Fate::Killed { .. } => "killed by a clause",
            Fate::Stopped { .. } => "stopped",
            Fate::Survived => "survived",
            Fate::Unviable => "do not compile",
            Fate::Alone => "need a build of their own",
        };
        *counts.entry(word).or_default() += 1;
    }
    for (word, count) in &counts {
        say(&format!("{count:>5} {word}"));
    }
    Ok(!counts.contains_key("survived"))
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
    let mut child = Command::new(program)
        .arg(backend)
        .args(order)
        .env("TURNKEEP_MUTANT", fault)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let errors = child.stderr.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    });
    let ended = wait(&mut child);
    let said = child.stdout.take().and_then(|pipe| BufReader::new(pipe).lines().next()).and_then(Result::ok);
    let errors = errors.and_then(|thread| thread.join().ok()).unwrap_or_default();
    let said = said.unwrap_or_default();
    Ok(match (ended, said.split_once(' ')) {
        (true, None) if said == "passed" => (Fate::Survived, None),
        (true, Some((clause, says))) => {
            let clause = clause.to_owned();
            (Fate::Killed { clause: clause.clone(), says: says.to_owned() }, Some(clause))
        }
        (true, None) => {
            let says =
                errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no word").to_owned();
            (Fate::Stopped { says }, None)
        }
        (false, _) => (Fate::Stopped { says: "no end".to_owned() }, None),
    })
}

/// Waits for the end, not for ever.
fn wait(child: &mut Child) -> bool {
    let until = Instant::now() + LONGEST;
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return true,
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}
