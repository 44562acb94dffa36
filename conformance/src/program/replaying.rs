//! `replay`: plays the tape of a failure again.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::ending::{Ending, Trouble};
use super::{Host, interrupt, show};
use crate::certify::Processes;
use crate::report::{steps, words};
use crate::runner::Settings;
use crate::tape;
use crate::verdict::{Finding, Verdict};

/// `replay TAPE`
pub(super) fn run(path: &Path, host: &Host<'_>, out: &mut dyn Write) -> Result<Ending, Trouble> {
    let text = fs::read_to_string(path)
        .map_err(|error| Trouble::BadFile(format!("{} cannot be read: {error}", path.display())))?;
    let clause =
        tape::clause_of(&text).map_err(|wrong| Trouble::BadFile(format!("{}: {wrong}", path.display())))?;
    let name = (host.harness)()?.manifest().name;
    let stop = interrupt::watch();
    let processes = Processes::start(host)?;
    if !host.json {
        writeln!(out, "{}  {}", clause.id, clause.title)?;
        tell_steps(&text, out)?;
        writeln!(out, "playing it on {name}")?;
        out.flush()?;
    }
    let settings = Settings { tape: Some(Arc::from(text)), ..Settings::of(clause) };
    let finding = processes.ask(clause, &settings, &stop);
    if host.json {
        let verdict = finding.verdict.as_str();
        let answer = json!({ "replay": {
            "clause": clause.id, "backend": name, "verdict": verdict,
            "detail": finding.verdict.detail(), "counted": finding.counted,
        } });
        writeln!(out, "{answer:#}")?;
    } else {
        tell(&finding, out)?;
    }
    Ok(match finding.verdict {
        _ if stop.load(Ordering::Relaxed) => Ending::Interrupted,
        Verdict::Pass => Ending::Passed,
        _ => Ending::NotCertified,
    })
}

fn tell_steps(text: &str, out: &mut dyn Write) -> Result<(), Trouble> {
    let tape: Value = serde_json::from_str(text).unwrap_or_default();
    for (at, step) in steps(&tape).iter().enumerate() {
        write!(out, "{}", show::indented(&step.line(at + 1), 2))?;
    }
    Ok(())
}

fn tell(finding: &Finding, out: &mut dyn Write) -> Result<(), Trouble> {
    match &finding.verdict {
        Verdict::Pass => {
            writeln!(out, "every answer is as promised ({})", words::evidence(&finding.counted).join(", "))?;
        }
        verdict => {
            writeln!(out, "{}:", verdict.as_str())?;
            write!(out, "{}", show::indented(verdict.detail(), 2))?;
        }
    }
    Ok(())
}
