//! `turnkeep store copy`

use serde::Serialize;
use turnkeep::WorkspaceId;
use turnkeep::transfer::{self, CopiedWorkspace, CopyOptions, CopyOutcome, CopyReport, Progress};

use crate::args::{CopyStore, Global};
use crate::commands::progress;
use crate::commands::stop::Stop;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::open::Url;
use crate::output::words::{count, count_of, thousands};
use crate::output::{Out, note, text};

/// Digits of a digest that a person is shown; all of them are in the JSON.
const SHOWN: usize = 16;

#[derive(Serialize)]
struct Answer<'a> {
    copy: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    from: String,
    to: String,
    /// Always: a difference is an error.
    equal: bool,
    /// Whether the source has moved since.
    moved_on: bool,
    workspaces: &'a [CopiedWorkspace],
}

pub(crate) async fn run(global: &Global, copy: CopyStore, out: &mut Out) -> Outcome<u8> {
    let from = Url::parse("FROM", &copy.from)?;
    let to = Url::parse("TO", &copy.to)?;
    let workspaces =
        copy.only.iter().map(|id| WorkspaceId::new(id.as_str())).collect::<turnkeep::Result<_>>()?;
    for (url, place) in [(&from, "FROM"), (&to, "TO")] {
        if url.path().is_none() {
            let message = format!("{place} is a store in memory, of which nothing is left at the end");
            return Err(Failure::usage(message).hint("give sqlite:PATH or redb:PATH"));
        }
    }
    from.must_exist()?;
    if from.is_same_place(&to) {
        return Err(Failure::usage("FROM and TO are the same file").hint("name another file to copy to"));
    }
    let stop = Stop::on_interrupt()?;
    let source = from.open(global, false).await?;
    let target = to.open(global, false).await?;
    let bar = progress::bar("copying");
    let mut told = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        stop.wanted()
    };
    let options = CopyOptions { workspaces, ..CopyOptions::default() };
    let copied = transfer::copy(source.as_ref(), target.as_ref(), &options, &mut told).await;
    bar.finish_and_clear();
    // What is there must be found whole by whoever opens it next, however the copy ended.
    let closed = target.close().await;
    let report = copied?;
    closed?;
    source.close().await?;
    if out.json {
        out.json(&Answer {
            copy: Data {
                from: from.to_string(),
                to: to.to_string(),
                equal: true,
                moved_on: report.moved_on(),
                workspaces: &report.workspaces,
            },
        })?;
    } else {
        out.line(format!("copied {} to {}", text::line(&from.to_string()), text::line(&to.to_string())))?;
        summary(&report, out)?;
    }
    if report.moved_on() {
        note(out.json, "the source was written to meanwhile; copy again to bring the rest");
    }
    Ok(exit::OK)
}

fn summary(report: &CopyReport, out: &mut Out) -> Outcome<()> {
    for workspace in &report.workspaces {
        let of = |outcome| workspace.sessions.iter().filter(|one| one.outcome == outcome).count() as u64;
        out.line("")?;
        out.line(format!(
            "workspace {}: {} ({} copied, {} there already, {} brought up to date), {}",
            text::line(workspace.workspace.as_str()),
            count(workspace.sessions.len() as u64, "session"),
            thousands(of(CopyOutcome::Copied)),
            thousands(of(CopyOutcome::AlreadyThere)),
            thousands(of(CopyOutcome::Replaced)),
            count_of(workspace.records.source.records, "record of no session", "records of no session"),
        ))?;
        for one in &workspace.sessions {
            let (source, target) = (&one.source, &one.target);
            out.line(format!(
                "  {}  {}, {}, {}, {}; digest {} there {}",
                text::line(one.session.as_str()),
                count_of(source.entries, "entry", "entries"),
                count(source.runs, "run"),
                count(source.events, "event"),
                count(source.records, "record"),
                shown(&source.digest),
                shown(&target.digest),
            ))?;
        }
    }
    out.line("")?;
    out.line("equal: everything was read again in the target, and is what was read in the source")
}

fn shown(digest: &str) -> &str {
    digest.get(..SHOWN).unwrap_or(digest)
}
