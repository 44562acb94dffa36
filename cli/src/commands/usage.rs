//! `turnkeep usage`

use serde::Serialize;
use turnkeep::model::{SessionRow, Usage};
use turnkeep::query::AudienceFilter;
use turnkeep::{Session, Workspace};

use crate::args::{By, Global, UsageOf};
use crate::failure::{Failure, Outcome};
use crate::output::list::{Column, Kind, column};
use crate::output::session::{name, short_ids};
use crate::output::{Out, chart, text};
use crate::{exit, open, pick};

/// Sessions and runs of one page.
const PAGE: u32 = 1_000;

/// One row: who consumed it, and what.
#[derive(Debug, Serialize)]
struct Row {
    /// The session, the run or the model.
    id: Option<String>,
    /// The title of a session, the state of a run, the provider of a model.
    name: Option<String>,
    usage: Usage,
    #[serde(skip)]
    shown: String,
}

#[derive(Serialize)]
struct Answer<'a> {
    by: By,
    rows: &'a [Row],
    total: Usage,
}

pub(crate) async fn run(global: &Global, of: UsageOf, out: &mut Out) -> Outcome<u8> {
    let workspace = open::workspace(global).await?;
    let session = match (&of.id, of.last) {
        (Some(id), _) => Some(pick::by_id(&workspace, id).await?),
        (None, true) => Some(pick::last(&workspace).await?),
        (None, false) => None,
    };
    let by = of.by.unwrap_or(if session.is_some() { By::Run } else { By::Session });
    let mut rows = match (by, &session) {
        (By::Session, None) => of_sessions(sessions(&workspace).await?),
        (By::Session, Some(session)) => of_sessions(vec![session.info().await?]),
        (By::Run, Some(session)) => of_runs(session).await?,
        (By::Run, None) => {
            return Err(Failure::usage("runs belong to a session; give its id, or --last")
                .hint("turnkeep usage ID --by run"));
        }
        (By::Model, Some(session)) => of_models([session.clone()]).await?,
        (By::Model, None) => {
            let mut all = Vec::new();
            for row in sessions(&workspace).await? {
                all.push(workspace.sessions().open(&row.id).await?);
            }
            of_models(all).await?
        }
    };
    rows.retain(|row| row.usage != Usage::default());
    rows.sort_by_key(|row| std::cmp::Reverse(row.usage.total_tokens));
    let total = rows.iter().fold(Usage::default(), |sum, row| sum.plus(&row.usage));
    if out.json {
        out.json(&Answer { by, rows: &rows, total })?;
    } else if rows.is_empty() {
        out.line("no usage was recorded")?;
    } else {
        show(by, &rows, total, out)?;
    }
    Ok(exit::OK)
}

fn show(by: By, rows: &[Row], total: Usage, out: &mut Out) -> Outcome<()> {
    let (id, name) = match by {
        By::Session => ("SESSION", "TITLE"),
        By::Run => ("RUN", "STATE"),
        By::Model => ("MODEL", "PROVIDER"),
    };
    let columns: &[Column] = &[
        column(id, Kind::Whole),
        column("TOKENS", Kind::Number),
        column("", Kind::Extra),
        column("INPUT", Kind::Number),
        column("OUTPUT", Kind::Number),
        column("REQUESTS", Kind::Number),
        column(name, Kind::Rest),
    ];
    let most = rows.iter().map(|row| row.usage.total_tokens).max().unwrap_or(0);
    let mut cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let bar = chart::bar(row.usage.total_tokens, most);
            line(row.shown.clone(), &row.usage, bar, text::line(row.name.as_deref().unwrap_or_default()))
        })
        .collect();
    if rows.len() > 1 {
        cells.push(line("all".to_owned(), &total, String::new(), String::new()));
    }
    out.table(columns, cells)
}

fn line(first: String, usage: &Usage, bar: String, last: String) -> Vec<String> {
    let number = |number: u64| number.to_string();
    let Usage { total_tokens, input_tokens, output_tokens, requests, .. } = *usage;
    vec![
        first,
        number(total_tokens),
        bar,
        number(input_tokens),
        number(output_tokens),
        number(requests),
        last,
    ]
}

/// Every session of the workspace, those of sub-agents too: they consume as well.
async fn sessions(workspace: &Workspace) -> Outcome<Vec<SessionRow>> {
    let mut rows = Vec::new();
    let mut cursor = None;
    loop {
        let mut query = workspace.sessions().list().audience(AudienceFilter::Any).limit(PAGE);
        if let Some(cursor) = cursor {
            query = query.cursor(cursor);
        }
        let page = query.await?;
        rows.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(rows);
        }
    }
}

fn of_sessions(rows: Vec<SessionRow>) -> Vec<Row> {
    let shown = short_ids(&rows);
    rows.iter()
        .zip(shown)
        .map(|(row, shown)| Row {
            id: Some(row.id.to_string()),
            name: Some(name(row)),
            usage: row.usage,
            shown,
        })
        .collect()
}

async fn of_runs(session: &Session) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    let mut cursor = None;
    loop {
        let mut list = session.runs().list().limit(PAGE);
        if let Some(cursor) = cursor {
            list = list.cursor(cursor);
        }
        let page = list.await?;
        rows.extend(page.items.iter().map(|run| Row {
            id: Some(run.id.to_string()),
            name: Some(crate::output::session::state(run.state)),
            usage: run.usage,
            shown: text::line(run.id.as_str()),
        }));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(rows);
        }
    }
}

async fn of_models(sessions: impl IntoIterator<Item = Session>) -> Outcome<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for session in sessions {
        for total in session.usage().by_model().await? {
            match rows.iter_mut().find(|row| row.id == total.model && row.name == total.provider) {
                Some(row) => row.usage = row.usage.plus(&total.usage),
                None => rows.push(Row {
                    shown: text::line(total.model.as_deref().unwrap_or("(not named)")),
                    id: total.model,
                    name: total.provider,
                    usage: total.usage,
                }),
            }
        }
    }
    Ok(rows)
}
