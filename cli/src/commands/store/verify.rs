//! `turnkeep store verify`

use serde::Serialize;
use turnkeep::core::store::VerifyReport;

use super::{chores, damaged, unless_interrupted};
use crate::args::Global;
use crate::commands::progress;
use crate::exit;
use crate::failure::Outcome;
use crate::open;
use crate::output::words::{count, count_of};
use crate::output::{Out, note, text};

#[derive(Serialize)]
struct Answer<'a> {
    verify: &'a VerifyReport,
}

pub(crate) async fn run(global: &Global, out: &mut Out) -> Outcome<u8> {
    let url = open::place(global).await?;
    url.must_exist()?;
    // Also one that a first look finds damaged: what is wrong with it is the question.
    let store = damaged(&url, global).await?;
    let spinner = progress::spinner("verifying");
    let report = unless_interrupted(chores(store.as_ref(), "verify")?.verify()).await;
    spinner.finish_and_clear();
    let report = report?;
    // Of a damaged store nothing more is asked than what it said.
    let closed = store.close().await;
    if report.damage.is_empty() {
        closed?;
    }
    if out.json {
        out.json(&Answer { verify: &report })?;
    } else if report.damage.is_empty() {
        out.line(format!(
            "nothing is damaged: {} and {} were read",
            count(report.sessions, "session"),
            count_of(report.entries, "entry", "entries")
        ))?;
    } else {
        for damage in &report.damage {
            out.line(format!("{}: {}", text::line(&damage.place), text::line(&damage.what)))?;
        }
    }
    if report.damage.is_empty() {
        return Ok(exit::OK);
    }
    note(
        out.json,
        &format!(
            "{} found; nothing was changed. Restore a backup, or save the rest with `turnkeep store repair`",
            count(report.damage.len() as u64, "damaged place")
        ),
    );
    Ok(exit::DAMAGED)
}
