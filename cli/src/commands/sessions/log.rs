//! `turnkeep sessions log`

use serde::Serialize;
use turnkeep::audit::{AuditEvent, AuditLine};
use turnkeep::{ErrorKind, SessionId, Workspace};

use crate::args::{Global, Log, Pick};
use crate::failure::{Failure, Outcome};
use crate::output::list::{Column, Kind, column};
use crate::output::{Out, note, text};
use crate::{exit, open, pick};

const LINES: &[Column] = &[
    column("AT", Kind::Whole),
    column("BY", Kind::Extra),
    column("RUN", Kind::Extra),
    column("WHAT", Kind::Whole),
    column("MORE", Kind::Rest),
];

#[derive(Serialize)]
struct Answer<'a> {
    session: &'a str,
    file: Option<String>,
    /// Lines that cannot be read.
    torn: usize,
    log: &'a [AuditEvent],
}

pub(crate) async fn run(global: &Global, log: Log, out: &mut Out) -> Outcome<u8> {
    let workspace = open::workspace(global).await?;
    if workspace.audit().folder().is_none() {
        return Err(Failure::told(exit::UNSUPPORTED, "a store in memory has no audit log"));
    }
    let id = picked(&workspace, &log.pick).await?;
    let mut events = Vec::new();
    let mut torn = 0;
    for line in workspace.audit().lines(&id)? {
        match line {
            AuditLine::Event(event) => events.push(*event),
            AuditLine::Torn { .. } => torn += 1,
        }
    }
    if let Some(latest) = log.latest {
        events.drain(..events.len().saturating_sub(latest as usize));
    }
    if out.json {
        let file = workspace.audit().path(&id).map(|path| path.display().to_string());
        out.json(&Answer { session: id.as_str(), file, torn, log: &events })?;
        return Ok(exit::OK);
    }
    if torn > 0 {
        note(
            global.json,
            &format!("{torn} of its lines cannot be read and are left out; the others are whole"),
        );
    }
    if events.is_empty() {
        note(global.json, "the log says nothing of this session");
        return Ok(exit::OK);
    }
    out.table(LINES, events.iter().map(row).collect())?;
    Ok(exit::OK)
}

/// The session that was picked, also one that was deleted since, by its whole id: its log is still there.
async fn picked(workspace: &Workspace, wanted: &Pick) -> Outcome<SessionId> {
    match pick::session(workspace, wanted).await {
        Ok(session) => Ok(session.id().clone()),
        Err(failure) if failure.kind() == Some(ErrorKind::NotFound) => {
            let id = wanted.id.as_deref().and_then(|id| SessionId::new(id).ok());
            match id.filter(|id| workspace.audit().path(id).is_some_and(|path| path.exists())) {
                Some(id) => Ok(id),
                None => Err(failure),
            }
        }
        Err(failure) => Err(failure),
    }
}

fn row(event: &AuditEvent) -> Vec<String> {
    let run = event.run.as_deref().map(|run| text::cut(&text::line(run), 8)).unwrap_or_default();
    let mut more: Vec<String> =
        [&event.phase, &event.code].into_iter().flatten().map(|word| text::line(word)).collect();
    if let Some(place) = &event.place {
        more.push(format!("at {}", text::line(place)));
    }
    if let Some(entries) = event.entries.filter(|entries| *entries > 1) {
        more.push(format!("{entries} entries"));
    }
    if let Some(usage) = event.usage {
        more.push(format!("{} tokens in, {} out", usage.input_tokens, usage.output_tokens));
    }
    if event.again {
        more.push("(again)".to_owned());
    }
    vec![text::line(&event.at), text::line(&event.by), run, text::line(&event.event), more.join(" ")]
}
