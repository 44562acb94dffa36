//! `report` and `verify`: from files to files.

use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::ending::{Ending, Trouble};
use super::{Host, show};
use crate::report::words::Standing;
use crate::report::{self, Report, holds_report};

/// `report DIR [--to DIR]`
pub(super) fn report(
    from: &Path,
    to: Option<&Path>,
    host: &Host<'_>,
    out: &mut dyn Write,
) -> Result<Ending, Trouble> {
    let report = read(from)?;
    let to = to.unwrap_or(from);
    let files = report::write(&report, to).map_err(|error| {
        Trouble::Failed(format!("the report cannot be written to {}: {error}", to.display()))
    })?;
    let standing = Standing::of(&report);
    if host.json {
        let shortfalls: Vec<String> = standing.shortfalls.iter().map(ToString::to_string).collect();
        let answer = json!({ "report": {
            "certified": files.certificate.is_some(),
            "counts": report.counts(),
            "shortfalls": shortfalls,
            "files": { "report": files.report, "page": files.page, "junit": files.junit },
        } });
        writeln!(out, "{answer:#}")?;
    } else {
        writeln!(out, "{}: {}", standing.headline.to_uppercase(), show::plain(&report.backend.name))?;
        writeln!(out, "  {}", standing.sentence)?;
        for shortfall in &standing.shortfalls {
            writeln!(out, "  {}", show::plain(&shortfall.to_string()))?;
        }
        writeln!(out, "report  {}", files.page.display())?;
        if let Some((path, _)) = &files.certificate {
            writeln!(out, "certificate  {}", path.display())?;
        }
    }
    Ok(match files.certificate {
        Some(_) => Ending::Certified,
        None if report.is_clean() => Ending::Passed,
        None => Ending::NotCertified,
    })
}

fn read(from: &Path) -> Result<Report, Trouble> {
    if holds_report(from) {
        return report::read(from)
            .map_err(|error| Trouble::BadFile(format!("{} holds no report: {error}", from.display())));
    }
    report::merge(from).map_err(|error| Trouble::BadFile(error.to_string()))
}

/// `verify DIR`
pub(super) fn verify(folder: &Path, host: &Host<'_>, out: &mut dyn Write) -> Result<Ending, Trouble> {
    let (certificate, report) = report::read_certificate(folder)
        .map_err(|error| Trouble::NotFound(format!("{} holds no certificate: {error}", folder.display())))?;
    match report::verify(&certificate, &report) {
        Ok(verified) => {
            if host.json {
                let current = verified.is_current;
                writeln!(
                    out,
                    "{:#}",
                    json!({ "verified": { "certificate": verified.certificate, "current": current } })
                )?;
            } else {
                writeln!(out, "holds: {}", show::plain(&verified.certificate.statement))?;
                if !verified.is_current {
                    writeln!(out, "note: it was asked other clauses than those of this suite")?;
                }
            }
            Ok(Ending::Certified)
        }
        Err(refused) => {
            if host.json {
                writeln!(out, "{:#}", json!({ "refused": refused.to_string() }))?;
            } else {
                writeln!(out, "does not hold: {}", show::plain(&refused.to_string()))?;
            }
            Ok(Ending::NotCertified)
        }
    }
}
