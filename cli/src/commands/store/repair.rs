//! `turnkeep store repair`

use std::path::{Path, PathBuf};

use serde::Serialize;
use turnkeep::core::local::place::{self, Workshop};
use turnkeep::transfer::{self, Progress, SalvageOptions, SalvageReport};

use super::{beside, chores};
use crate::args::{Global, RepairStore};
use crate::commands::progress;
use crate::commands::stop::Stop;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::open::{self, Url};
use crate::output::words::{count, count_of};
use crate::output::{Out, text};

#[derive(Serialize)]
struct Answer<'a> {
    repair: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    damaged: PathBuf,
    repaired: PathBuf,
    saved: &'a SalvageReport,
}

pub(crate) async fn run(global: &Global, repair: RepairStore, out: &mut Out) -> Outcome<u8> {
    let url = open::place(global).await?;
    url.must_exist()?;
    let Some(path) = url.path().map(ToOwned::to_owned) else {
        return Err(Failure::usage("a store in memory cannot be repaired"));
    };
    let to = repair.to.unwrap_or_else(|| beside(&path, "repaired"));
    if to.symlink_metadata().is_ok() {
        let message = format!("something is there already: {}; it was not touched", to.display());
        return Err(Failure::told(exit::CONFLICT, message).hint("name another file, or none"));
    }
    // What earlier ones left that were killed.
    [&path, &to].into_iter().for_each(|of| place::tidy(of));
    let stop = Stop::on_interrupt()?;
    let damaged = super::damaged(&url, global).await?;
    let saved = build(global, &url, damaged.as_ref(), &to, &stop).await;
    // It is damaged, so that it cannot be closed as it should says nothing new.
    let _ = damaged.close().await;
    let saved = saved?;
    let shown = |path: &Path| text::line(&path.display().to_string());
    if out.json {
        out.json(&Answer { repair: Data { damaged: path, repaired: to, saved: &saved } })?;
    } else {
        out.line(format!(
            "saved {}, {} and {}",
            count(saved.sessions, "session"),
            count_of(saved.entries, "entry", "entries"),
            count(saved.other_rows, "other row")
        ))?;
        out.pairs(&[
            ("repaired", shown(&to)),
            ("damaged", format!("{}, as it was", shown(&path))),
            ("instead", format!("turnkeep store restore --force {}", shown(&to))),
        ])?;
        left_out(&saved, out)?;
    }
    Ok(if saved.left_out.is_empty() { exit::OK } else { exit::INCOMPLETE })
}

fn left_out(saved: &SalvageReport, out: &mut Out) -> Outcome<()> {
    if saved.left_out.is_empty() {
        return out.line("left out: nothing");
    }
    let things = count(saved.left_out.len() as u64, "thing");
    let stand_ins = match saved.stand_ins {
        0 => String::new(),
        n => format!(
            "; {} of the kind `lost` in their place, so that all others keep their numbers",
            count(n, "stand-in")
        ),
    };
    out.line(format!("left out: {things}{stand_ins}"))?;
    for lost in &saved.left_out {
        let session = lost.session.as_ref().map(|id| format!("session {id}, ")).unwrap_or_default();
        let line = format!("workspace {}, {session}{}: {}", lost.workspace, lost.what, lost.why);
        out.line(format!("  {}", text::line(&line)))?;
    }
    Ok(())
}

/// Builds the new store under another name and gives it its own when it is whole and verified.
async fn build(
    global: &Global,
    url: &Url,
    damaged: &dyn turnkeep::Store,
    to: &Path,
    stop: &Stop,
) -> Outcome<SalvageReport> {
    let workshop = Workshop::beside(to)?;
    let built = url.at(workshop.folder().join("store"));
    let fresh = built.open(global, false).await?;
    let bar = progress::bar("repairing");
    let mut told = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        stop.wanted()
    };
    let saved = transfer::salvage(damaged, fresh.as_ref(), &SalvageOptions::default(), &mut told).await;
    bar.finish_and_clear();
    let saved = saved?;
    // The engine's own copy is one whole file, checked and synced before it gets its name.
    chores(fresh.as_ref(), "repair")?.backup(to).await?;
    fresh.close().await?;
    Ok(saved)
}
