//! Sessions, messages and runs as data for scripts, and the words for people that several commands share.

use serde::Serialize;
use turnkeep::model::{ForkOrigin, Run, RunState, SessionRow, TitleSource, Usage};
use turnkeep::{HistoryItem, RunError};

use super::{text, time};

/// Characters of an id that a list shows at least.
const SHORT_ID: usize = 8;

/// A session, for scripts.
#[derive(Debug, Serialize)]
pub(crate) struct SessionData<'a> {
    id: &'a str,
    title: Option<&'a str>,
    title_source: Option<TitleSource>,
    preview: Option<&'a str>,
    cwd: Option<&'a str>,
    parent: Option<&'a str>,
    fork: Option<ForkOrigin>,
    project: Option<&'a str>,
    audience: turnkeep::model::Audience,
    pinned: bool,
    archived: bool,
    created_at: String,
    updated_at: String,
    revision: u64,
    entries: u32,
    leaf: Option<u32>,
    messages: u32,
    runs: u32,
    active_run: Option<&'a str>,
    usage: Usage,
}

impl<'a> From<&'a SessionRow> for SessionData<'a> {
    fn from(row: &'a SessionRow) -> Self {
        let profile = &row.profile;
        Self {
            id: row.id.as_str(),
            title: profile.title.as_ref().map(|title| title.text.as_str()),
            title_source: profile.title.as_ref().map(|title| title.source),
            preview: row.preview.as_deref(),
            cwd: profile.cwd.as_deref(),
            parent: profile.parent.as_ref().map(|parent| parent.as_str()),
            fork: profile.fork,
            project: profile.project.as_deref(),
            audience: profile.audience,
            pinned: profile.pinned,
            archived: profile.archived,
            created_at: time::rfc3339(row.created_at),
            updated_at: time::rfc3339(row.updated_at),
            revision: row.revision,
            entries: row.head.map_or(0, |head| head.get()),
            leaf: row.path.leaf.map(|leaf| leaf.get()),
            messages: row.messages,
            runs: row.runs,
            active_run: row.active_run.as_ref().map(|run| run.as_str()),
            usage: row.usage,
        }
    }
}

/// An answer that is one session, for scripts.
#[derive(Debug, Serialize)]
pub(crate) struct OneSession<'a> {
    pub(crate) session: SessionData<'a>,
}

impl<'a> From<&'a SessionRow> for OneSession<'a> {
    fn from(row: &'a SessionRow) -> Self {
        Self { session: row.into() }
    }
}

/// A message, for scripts. `payload` is the stored JSON as a string, byte for byte.
#[derive(Debug, Serialize)]
pub(crate) struct MessageData<'a> {
    number: u32,
    parent: Option<u32>,
    role: Option<&'a str>,
    at: String,
    run: Option<&'a str>,
    partial: bool,
    text: String,
    payload: &'a str,
}

impl<'a> From<&'a HistoryItem> for MessageData<'a> {
    fn from(item: &'a HistoryItem) -> Self {
        let entry = &item.entry;
        Self {
            number: entry.number.get(),
            parent: entry.parent.map(|parent| parent.get()),
            role: entry.role.as_ref().map(|role| role.as_str()),
            at: time::rfc3339(entry.at),
            run: entry.run.as_ref().map(|run| run.as_str()),
            partial: item.is_partial(),
            text: words(item),
            payload: entry.payload.as_str(),
        }
    }
}

/// A run, for scripts.
#[derive(Debug, Serialize)]
pub(crate) struct RunData<'a> {
    id: &'a str,
    number: u32,
    state: RunState,
    attempt: u32,
    retry_of: Option<&'a str>,
    model: Option<&'a str>,
    created_at: String,
    finished_at: Option<String>,
    error: Option<serde_json::Value>,
    usage: Usage,
}

impl<'a> From<&'a Run> for RunData<'a> {
    fn from(run: &'a Run) -> Self {
        Self {
            id: run.id.as_str(),
            number: run.number,
            state: run.state,
            attempt: run.attempt,
            retry_of: run.retry_of.as_ref().map(|run| run.as_str()),
            model: run.model.as_deref(),
            created_at: time::rfc3339(run.created_at),
            finished_at: run.finished_at.map(time::rfc3339),
            error: run.error.as_ref().and_then(|error| error.parse().ok()),
            usage: run.usage,
        }
    }
}

/// What a message says.
pub(crate) fn words(item: &HistoryItem) -> String {
    match (&item.entry.text, &item.message) {
        (Some(text), _) => text.clone(),
        (None, Some(message)) => message.text(),
        (None, None) => String::new(),
    }
}

/// A line that names a session: its title, else the beginning of what was said, which a fork shares with its source.
pub(crate) fn name(row: &SessionRow) -> String {
    match (&row.profile.title, &row.preview) {
        (Some(title), _) => text::line(&title.text),
        (None, Some(preview)) if row.profile.fork.is_some() => format!("{} (fork)", text::line(preview)),
        (None, Some(preview)) => text::line(preview),
        (None, None) => "(empty)".to_owned(),
    }
}

/// The beginnings of ids that tell each from the others, eight characters at least, in the order given.
pub(crate) fn short_ids(rows: &[SessionRow]) -> Vec<String> {
    let mut sorted: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    sorted.sort_unstable();
    rows.iter()
        .map(|row| {
            let id = row.id.as_str();
            let at = sorted.partition_point(|other| *other < id);
            let before = at.checked_sub(1).and_then(|before| sorted.get(before));
            let after = sorted.get(at + 1);
            let shared = [before, after].into_iter().flatten().map(|other| common(id, other)).max();
            let shown = SHORT_ID.max(shared.unwrap_or(0) + 1);
            // A beginning counts in bytes when it is looked up, so only plain ids are shortened.
            match id.char_indices().nth(shown) {
                Some((end, _)) if id.is_ascii() => id.get(..end).unwrap_or(id).to_owned(),
                _ => text::line(id),
            }
        })
        .collect()
}

fn common(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
}

/// Why a run ended, in a few words.
pub(crate) fn reason(run: &Run) -> String {
    match RunError::from_run(run) {
        Ok(None) => String::new(),
        Ok(Some(error)) => match error.message {
            Some(message) => text::line(&message),
            None => text::line(&format!("{} {}", error.area, error.code)),
        },
        Err(_) => "(see --json)".to_owned(),
    }
}

/// The name of a state as a person reads it.
pub(crate) fn state(state: RunState) -> String {
    state.as_str().replace('_', " ")
}
