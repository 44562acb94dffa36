//! Certifying: asks, writes the report, says what came out.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use turnkeep_core::digest::FieldDigest;
use turnkeep_core::{Clock, SystemClock};

use super::ending::{Ending, Trouble};
use super::line::{self, Asking};
use super::{Host, bar, interrupt, show};
use crate::certify::{self, Options, Processes};
use crate::registry;
use crate::report::words::{self, Shown, Standing};
use crate::report::{self, Entry, Files, Report};
use crate::tier::Tier;

/// How long a soak takes if nobody says.
const SOAK: Duration = Duration::from_secs(600);

/// Kinds of evidence that a terminal shows; the report has them all.
const EVIDENCE: usize = 8;

/// Lines of a failure that a terminal shows; the report has them all.
const DETAIL_LINES: usize = 12;

pub(super) fn run(asking: &Asking, host: &Host<'_>, out: &mut dyn Write) -> Result<Ending, Trouble> {
    let harness = (host.harness)()?;
    let stop = interrupt::watch();
    let options = options(asking, host, Processes::start(host)?);
    let name = harness.manifest().name;
    let folder = asking.report.clone().unwrap_or_else(|| Path::new("turnkeep-report").join(name));
    let bar = bar::Bar::new();
    if !host.json {
        let clauses = words::number(registry::all().count() as u64, "clause");
        writeln!(
            out,
            "certifying {name} against specification {}: {clauses}, {options}",
            crate::SPEC_VERSION
        )?;
        out.flush()?;
    }
    let report = certify::run(&harness, &options, &stop, &|progress| bar.show(&progress));
    bar.end();
    let files = report::write(&report, &folder).map_err(|error| {
        Trouble::Failed(format!("the report cannot be written to {}: {error}", folder.display()))
    })?;
    if host.json {
        tell_script(&report, &files, out)?;
    } else {
        tell(&report, &files, &folder, out)?;
    }
    Ok(match &files.certificate {
        _ if stop.load(Ordering::Relaxed) => Ending::Interrupted,
        Some(_) => Ending::Certified,
        None if report.is_clean() => Ending::Passed,
        None => Ending::NotCertified,
    })
}

impl Processes {
    /// Processes of the program that a host runs.
    pub(super) fn start(host: &Host<'_>) -> Result<Self, Trouble> {
        let arguments: Vec<&str> = host.peer.iter().map(String::as_str).collect();
        Self::of_this_program(&arguments, host.within.as_deref())
            .map_err(|error| Trouble::Failed(format!("there is no folder to work in: {error}")))
    }
}

/// What the process of one clause does.
pub(super) fn peer(id: &str, host: &Host<'_>) -> Result<Ending, Trouble> {
    let clause = line::clause(id).map_err(Trouble::Usage)?;
    certify::play((host.harness)()?, clause, &host.peer).map_err(|stop| Trouble::Failed(stop.to_string()))?;
    Ok(Ending::Done)
}

fn options(asking: &Asking, host: &Host<'_>, processes: Processes) -> Options {
    let budget = asking.budget.or((asking.tier == Tier::Soak).then_some(SOAK));
    let seed = asking.seed.unwrap_or_else(draw);
    let mut command = format!("{} --tier {} --seed {seed}", host.program, asking.tier);
    if let Some(budget) = budget {
        command.push_str(&format!(" --budget {}s", budget.as_secs()));
    }
    for name in &asking.only {
        command.push_str(&format!(" --only {name}"));
    }
    for (id, reason) in &asking.waive {
        command.push_str(&format!(" --waive '{id}={reason}'"));
    }
    Options {
        tier: asking.tier,
        seed,
        budget,
        only: asking.only.clone(),
        waive: asking.waive.iter().cloned().collect(),
        jobs: asking.jobs,
        processes: Some(Arc::new(processes)),
        program: Some(host.program.clone()),
        command,
    }
}

/// A seed that is not the last one. Short, so that a person can type it.
fn draw() -> u64 {
    let digest = FieldDigest::new("certify/seed")
        .text(&format!("{:?}", SystemClock.now()))
        .number(u64::from(std::process::id()))
        .finish();
    u64::from(u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]))
}

/// What came out, for people.
fn tell(report: &Report, files: &Files, folder: &Path, out: &mut dyn Write) -> Result<(), Trouble> {
    let standing = Standing::of(report);
    let store = report.backend.store.as_ref();
    writeln!(out)?;
    for shown in [Shown::Fail, Shown::Error, Shown::Inconclusive, Shown::ShouldFail, Shown::Waived] {
        for entry in report.clauses.iter().filter(|entry| Shown::of(entry) == shown) {
            tell_entry(report, entry, shown, folder, out)?;
        }
    }
    let version =
        store.map_or(String::new(), |store| format!(" {} ({})", store.version, show::plain(&store.engine)));
    let name = &report.backend.name;
    writeln!(out, "{}: {name}{version}, {:?}", standing.headline.to_uppercase(), report.backend.durability)?;
    writeln!(out, "  {}", standing.sentence)?;
    for shortfall in standing.shortfalls.iter().filter(|shortfall| shortfall.clause().is_none()) {
        writeln!(out, "  {shortfall}")?;
    }
    writeln!(out)?;
    let took = report.run.ended.since_ms(report.run.began).max(0).unsigned_abs();
    let mut evidence = words::evidence(&report.counted());
    let more = evidence.len().saturating_sub(EVIDENCE);
    evidence.truncate(EVIDENCE);
    if more > 0 {
        evidence.push(format!("and {more} more in the report"));
    }
    let pairs = [
        ("clauses", counts(report)),
        ("rests on", evidence.join(", ")),
        ("took", words::duration(took)),
        ("again", report.run.command.clone()),
        ("report", files.page.display().to_string()),
        ("certificate", certificate(files)),
    ];
    for (label, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        writeln!(out, "{label:<12} {}", show::plain(value))?;
    }
    Ok(())
}

fn counts(report: &Report) -> String {
    let mut parts = vec![report.clauses.len().to_string()];
    for shown in words::SHOWN.iter().rev() {
        let count = report.clauses.iter().filter(|entry| Shown::of(entry) == *shown).count();
        if count > 0 {
            parts.push(format!("{count} {}", shown.word()));
        }
    }
    let all = parts.remove(0);
    format!("{all}: {}", parts.join(", "))
}

fn certificate(files: &Files) -> String {
    match &files.certificate {
        Some((path, certificate)) => {
            let digest = certificate.report_sha256.get(..16).unwrap_or_default();
            format!("{} (tier {}, report {digest}…)", path.display(), certificate.run.tier)
        }
        None => "none".to_owned(),
    }
}

/// One clause that did not pass.
fn tell_entry(
    report: &Report,
    entry: &Entry,
    shown: Shown,
    folder: &Path,
    out: &mut dyn Write,
) -> Result<(), Trouble> {
    writeln!(out, "{}  {}  {}", shown.word(), entry.promise.id, entry.promise.title)?;
    let lines: Vec<&str> = entry.verdict.detail().lines().collect();
    let (first, rest) = lines.split_at(lines.len().min(DETAIL_LINES));
    write!(out, "{}", show::indented(&first.join("\n"), 4))?;
    if !rest.is_empty() {
        writeln!(out, "    … ({}, in the report)", words::number(rest.len() as u64, "more line"))?;
    }
    if let Some(tape) = &entry.tape {
        writeln!(out, "    the shortest tape that shows it:")?;
        for (at, step) in report::steps(tape).iter().enumerate() {
            write!(out, "{}", show::indented(&step.line(at + 1), 4))?;
        }
        if let Some(program) = &report.run.program {
            let tape: PathBuf = folder.join(report::tape_path(&entry.promise.id));
            writeln!(out, "    play it again:  {program} replay {}", tape.display())?;
        }
    } else if let Some(again) = report.again(entry) {
        writeln!(out, "    ask again:  {again}")?;
    }
    writeln!(out)?;
    Ok(())
}

/// What came out, for scripts.
fn tell_script(report: &Report, files: &Files, out: &mut dyn Write) -> Result<(), Trouble> {
    let shortfalls: Vec<String> = report.shortfalls().iter().map(ToString::to_string).collect();
    let unwell: Vec<_> = report
        .clauses
        .iter()
        .filter(|entry| Shown::of(entry).needs_a_look())
        .map(|entry| {
            json!({ "id": entry.promise.id, "verdict": entry.verdict.as_str(), "detail": entry.verdict.detail() })
        })
        .collect();
    let answer = json!({ "certify": {
        "certified": files.certificate.is_some(),
        "passed": report.is_clean(),
        "backend": report.backend,
        "run": report.run,
        "counts": report.counts(),
        "counted": report.counted(),
        "shortfalls": shortfalls,
        "clauses": unwell,
        "files": {
            "report": files.report,
            "page": files.page,
            "junit": files.junit,
            "certificate": files.certificate.as_ref().map(|(path, _)| path),
        },
    } });
    writeln!(out, "{answer:#}")?;
    Ok(())
}
