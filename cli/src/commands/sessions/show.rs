//! `turnkeep sessions show`

use std::collections::HashMap;

use serde::Serialize;
use turnkeep::model::{Run, RunState, SessionRow, role};
use turnkeep::{Cursor, HistoryItem, Session};

use super::runs;
use crate::args::{Global, Show};
use crate::failure::Outcome;
use crate::output::session::{MessageData, RunData, SessionData, name, state, words};
use crate::output::words::{count, thousands};
use crate::output::{Out, text, time};
use crate::{exit, open, pick};

/// Lines of a message that are shown without `--full`.
const LINES: usize = 20;

#[derive(Serialize)]
struct Answer<'a> {
    session: SessionData<'a>,
    messages: Vec<MessageData<'a>>,
    runs: Vec<RunData<'a>>,
}

pub(crate) async fn run(global: &Global, show: Show, out: &mut Out) -> Outcome<u8> {
    let workspace = open::workspace(global).await?;
    let session = pick::session(&workspace, &show.pick).await?;
    let row = session.info().await?;
    let runs = runs::all(&session).await?;
    let mut pages = Pages::new(&session, show.latest);
    if out.json {
        let mut messages = Vec::new();
        while let Some(page) = pages.next().await? {
            messages.extend(page);
        }
        out.json(&Answer {
            session: SessionData::from(&row),
            messages: messages.iter().map(MessageData::from).collect(),
            runs: runs.iter().map(RunData::from).collect(),
        })?;
        return Ok(exit::OK);
    }
    head(&row, out)?;
    let by_id = by_id(&runs);
    // Page by page, so that the longest conversation needs little memory and begins at once.
    while let Some(page) = pages.next().await? {
        for item in &page {
            out.line("")?;
            message(item, &by_id, show.full, out)?;
        }
    }
    if runs.iter().any(|run| run.state != RunState::Completed) {
        out.line("")?;
        runs::table(&runs, out)?;
    }
    Ok(exit::OK)
}

/// Runs by their ids.
pub(crate) fn by_id(runs: &[Run]) -> HashMap<&str, &Run> {
    runs.iter().map(|run| (run.id.as_str(), run)).collect()
}

/// The conversation as people had it, page by page; or the newest messages of it.
pub(crate) struct Pages<'a> {
    session: &'a Session,
    latest: Option<u32>,
    cursor: Option<Cursor>,
    begun: bool,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(session: &'a Session, latest: Option<u32>) -> Self {
        Self { session, latest, cursor: None, begun: false }
    }

    /// The next messages; `None` at the end.
    pub(crate) async fn next(&mut self) -> Outcome<Option<Vec<HistoryItem>>> {
        let mut query = self.session.history();
        query = match self.latest {
            Some(latest) => query.latest(latest),
            None => query.limit(1_000),
        };
        match (self.cursor.take(), self.begun) {
            (Some(cursor), _) => query = query.cursor(cursor),
            (None, true) => return Ok(None),
            (None, false) => {}
        }
        self.begun = true;
        let page = query.await?;
        // The page before the newest messages was not asked for.
        self.cursor = page.next.filter(|_| self.latest.is_none());
        Ok(Some(page.items))
    }
}

fn head(row: &SessionRow, out: &mut Out) -> Outcome<()> {
    let profile = &row.profile;
    let title = if profile.title.is_some() { name(row) } else { String::new() };
    let flags = match (profile.pinned, profile.archived) {
        (true, true) => "pinned, archived",
        (true, false) => "pinned",
        (false, true) => "archived",
        (false, false) => "",
    };
    let tokens = match row.usage.total_tokens {
        0 => String::new(),
        tokens => thousands(tokens),
    };
    out.pairs(&[
        ("session", text::line(row.id.as_str())),
        ("title", title),
        ("begun", time::local(row.created_at)),
        ("changed", time::local(row.updated_at)),
        ("folder", profile.cwd.as_deref().map(text::line).unwrap_or_default()),
        ("parent", profile.parent.as_ref().map(|parent| text::line(parent.as_str())).unwrap_or_default()),
        ("forked", profile.fork.map(|fork| format!("at #{}", fork.boundary)).unwrap_or_default()),
        ("holds", format!("{}, {}", count(row.messages.into(), "message"), count(row.runs.into(), "run"))),
        ("tokens", tokens),
        ("state", flags.to_owned()),
    ])
}

/// One message: who, when, what became of its run; then its words.
pub(crate) fn message(
    item: &HistoryItem,
    runs: &HashMap<&str, &Run>,
    full: bool,
    out: &mut Out,
) -> Outcome<()> {
    let entry = &item.entry;
    let who = entry.role.as_ref().map_or_else(|| "?".to_owned(), |role| text::line(role.as_str()));
    let who = match entry.role.as_ref().map(|role| role.as_str()) {
        Some(role::USER) => out.paint.person(&who),
        Some(role::ASSISTANT) => out.paint.model(&who),
        _ => out.paint.bold(&who),
    };
    let run = entry.run.as_ref().and_then(|run| runs.get(run.as_str()));
    let fate = match run.map(|run| (run.number, run.state)) {
        _ if item.is_partial() => Some("unfinished".to_owned()),
        Some((_, RunState::Completed)) | None => None,
        Some((number, RunState::Pending | RunState::Running)) => Some(format!("run {number} under way")),
        Some((number, other)) => Some(format!("run {number} {}", state(other))),
    };
    let fate = fate.map(|fate| format!("  {}", out.paint.warn(&fate))).unwrap_or_default();
    let at = out.paint.dim(&format!("#{}  {}", entry.number, time::local(entry.at)));
    out.line(format!("{who}  {at}{fate}"))?;
    let words = words(item);
    let mut shown = text::block(words.trim_end_matches('\n'));
    let calls = item.message.as_ref().map(|message| message.tool_calls().count()).unwrap_or(0);
    if shown.trim().is_empty() && calls == 0 {
        "(no words)".clone_into(&mut shown);
    }
    if full {
        out.indented(&shown)?;
    } else {
        shortened(&shown, out)?;
    }
    if let Some(message) = &item.message {
        for call in message.tool_calls() {
            let arguments = text::line(call.arguments.as_str());
            let arguments = if full { arguments } else { text::cut(&arguments, 200) };
            let name = out.paint.bold(&text::line(&call.name));
            out.line(format!("  calls {name} {}", out.paint.dim(&arguments)))?;
        }
    }
    Ok(())
}

/// The first lines, and how many more there are.
fn shortened(shown: &str, out: &mut Out) -> Outcome<()> {
    let more = shown.lines().count().saturating_sub(LINES);
    let first: Vec<String> = shown.lines().take(LINES).map(|line| text::cut(line, 2_000)).collect();
    out.indented(&first.join("\n"))?;
    if more > 0 {
        let lines = if more == 1 { "line" } else { "lines" };
        out.line(format!("  {}", out.paint.dim(&format!("… {more} more {lines}; --full shows them"))))?;
    }
    Ok(())
}
