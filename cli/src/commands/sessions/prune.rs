//! `turnkeep sessions prune`

use serde::Serialize;
use turnkeep::PruneReport;
use turnkeep::query::AudienceFilter;

use crate::args::{Global, Prune};
use crate::failure::Outcome;
use crate::output::words::{count, thousands};
use crate::output::{Out, text, time};
use crate::{exit, open};

#[derive(Serialize)]
struct Answer<'a> {
    prune: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    applied: bool,
    sessions: Vec<Gone<'a>>,
    kept_pinned: u64,
    kept_active: u64,
}

#[derive(Serialize)]
struct Gone<'a> {
    id: &'a str,
    title: Option<&'a str>,
    updated_at: String,
    messages: u32,
}

pub(crate) async fn run(global: &Global, prune: Prune, out: &mut Out) -> Outcome<u8> {
    let workspace = open::workspace(global).await?;
    let mut wanted = workspace.retention().older_than(prune.older_than);
    if prune.archived {
        wanted = wanted.only_archived();
    }
    if prune.all {
        wanted = wanted.audience(AudienceFilter::Any);
    }
    if prune.apply {
        wanted = wanted.apply();
    }
    let report = wanted.await?;
    if out.json {
        let gone = report.sessions.iter().map(|one| Gone {
            id: one.session.as_str(),
            title: one.title.as_deref(),
            updated_at: time::rfc3339(one.updated_at),
            messages: one.messages,
        });
        let PruneReport { applied, kept_pinned, kept_active, .. } = report;
        out.json(&Answer { prune: Data { applied, sessions: gone.collect(), kept_pinned, kept_active } })?;
        return Ok(exit::OK);
    }
    for one in &report.sessions {
        let title = one.title.as_deref().unwrap_or_default();
        out.line(format!(
            "{}  {}  {}  {}",
            text::line(one.session.as_str()),
            time::local(one.updated_at),
            count(one.messages.into(), "message"),
            text::cut(&text::line(title), 60)
        ))?;
    }
    let number = count(report.sessions.len() as u64, "session");
    let kept = match (report.kept_pinned, report.kept_active) {
        (0, 0) => String::new(),
        (pinned, active) => {
            format!("; {} pinned and {} at work stay", thousands(pinned), thousands(active))
        }
    };
    if report.applied {
        out.line(format!("deleted {number}{kept}"))?;
    } else if report.sessions.is_empty() {
        out.line(format!("nothing is that old{kept}"))?;
    } else {
        out.line(format!("{number} would go{kept}; nothing was deleted: say --apply to delete them"))?;
    }
    Ok(exit::OK)
}
