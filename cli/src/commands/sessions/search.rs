//! `turnkeep sessions search`

use std::collections::HashMap;

use serde::Serialize;
use turnkeep::model::SessionRow;
use turnkeep::query::{AudienceFilter, SearchHit};
use turnkeep::{Page, SessionId, Workspace};

use crate::args::{Global, Search};
use crate::failure::{Failure, Outcome};
use crate::output::session::name;
use crate::output::{Out, text, time, words};
use crate::{exit, open, pick};

#[derive(Serialize)]
struct Answer<'a> {
    hits: Vec<HitData<'a>>,
    /// Whether there are more than were asked for.
    more: bool,
}

/// A hit, for scripts. `marks` are ranges of bytes in the snippet.
#[derive(Serialize)]
struct HitData<'a> {
    session: &'a str,
    number: u32,
    kind: &'a str,
    role: Option<&'a str>,
    at: String,
    score: f64,
    snippet: &'a str,
    marks: Vec<[usize; 2]>,
}

impl<'a> From<&'a SearchHit> for HitData<'a> {
    fn from(hit: &'a SearchHit) -> Self {
        Self {
            session: hit.session.id.as_str(),
            number: hit.entry.get(),
            kind: hit.kind.as_str(),
            role: hit.role.as_ref().map(|role| role.as_str()),
            at: time::rfc3339(hit.at),
            score: hit.score,
            snippet: &hit.snippet,
            marks: hit.marks.iter().map(|mark| [mark.start, mark.end]).collect(),
        }
    }
}

pub(crate) async fn run(global: &Global, search: Search, out: &mut Out) -> Outcome<u8> {
    let text = search.text.join(" ");
    if text.trim().is_empty() {
        return Err(Failure::usage("there is nothing to search for; give some words"));
    }
    let workspace = open::workspace(global).await?;
    let mut query = workspace.search(text).limit(search.limit);
    if search.all {
        query = query.audience(AudienceFilter::Any);
    }
    if let Some(id) = &search.session {
        let pick = crate::args::Pick { id: Some(id.clone()), last: false };
        query = query.session(&pick::session(&workspace, &pick).await?);
    }
    let page = query.await?;
    show(&workspace, &page, out).await?;
    Ok(exit::OK)
}

async fn show(workspace: &Workspace, page: &Page<SearchHit>, out: &mut Out) -> Outcome<()> {
    let more = page.next.is_some();
    if out.json {
        return out.json(&Answer { hits: page.items.iter().map(HitData::from).collect(), more });
    }
    if page.items.is_empty() {
        return out.line("nothing found");
    }
    let rows = sessions_of(workspace, &page.items).await?;
    let mut last: Option<&SessionId> = None;
    for hit in &page.items {
        if last != Some(&hit.session.id) {
            if last.is_some() {
                out.line("")?;
            }
            head(&hit.session.id, rows.get(&hit.session.id), out)?;
            last = Some(&hit.session.id);
        }
        line(hit, out)?;
    }
    if more {
        let shown = words::count(page.items.len() as u64, "hit");
        out.line(out.paint.dim(&format!("\nthe best {shown}; --limit shows more")))?;
    }
    Ok(())
}

/// The sessions with hits, to call them by their names. One that was deleted meanwhile is left out.
async fn sessions_of(workspace: &Workspace, hits: &[SearchHit]) -> Outcome<HashMap<SessionId, SessionRow>> {
    let mut rows = HashMap::new();
    for hit in hits {
        let id = &hit.session.id;
        if !rows.contains_key(id) {
            let key = turnkeep::core::SessionKey { workspace: workspace.id().clone(), id: id.clone() };
            if let Some(row) = workspace.store().session(&key).await? {
                rows.insert(id.clone(), row);
            }
        }
    }
    Ok(rows)
}

fn head(id: &SessionId, row: Option<&SessionRow>, out: &mut Out) -> Outcome<()> {
    let title = row.map(name).unwrap_or_default();
    let id = out.paint.bold(&text::line(id.as_str()));
    out.line(format!("{id}  {title}").trim_end())
}

fn line(hit: &SearchHit, out: &mut Out) -> Outcome<()> {
    let who = hit.role.as_ref().map_or_else(|| hit.kind.as_str(), |role| role.as_str());
    let place = format!("#{}  {}  {}", hit.entry, time::local(hit.at), text::line(who));
    out.line(format!("  {}", out.paint.dim(&place)))?;
    out.line(format!("    {}", marked(hit, out)))
}

/// The snippet with its hits: bold on a terminal.
fn marked(hit: &SearchHit, out: &Out) -> String {
    let mut shown = String::with_capacity(hit.snippet.len() + 16);
    let mut at = 0;
    for mark in &hit.marks {
        let (before, inside) = (hit.snippet.get(at..mark.start), hit.snippet.get(mark.clone()));
        if let (Some(before), Some(inside)) = (before, inside) {
            shown.push_str(&text::block(before));
            shown.push_str(&out.paint.hit(&text::block(inside)));
            at = mark.end;
        }
    }
    shown.push_str(&text::block(hit.snippet.get(at..).unwrap_or_default()));
    shown
}
