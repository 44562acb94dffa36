//! `turnkeep sessions runs`

use serde::Serialize;
use turnkeep::model::{Run, RunStates};
use turnkeep::{Order, Session};

use crate::args::{Global, Runs};
use crate::failure::Outcome;
use crate::output::list::{Column, Kind, column};
use crate::output::session::{RunData, reason, state};
use crate::output::{Out, time};
use crate::{exit, open, pick};

const RUNS: &[Column] = &[
    column("RUN", Kind::Number),
    column("STATE", Kind::Whole),
    column("BEGUN", Kind::Extra),
    column("TOOK", Kind::Number),
    column("WHY", Kind::Rest),
];

#[derive(Serialize)]
struct Answer<'a> {
    session: &'a str,
    runs: Vec<RunData<'a>>,
}

pub(crate) async fn run(global: &Global, wish: Runs, out: &mut Out) -> Outcome<u8> {
    let workspace = open::workspace(global).await?;
    let session = pick::session(&workspace, &wish.pick).await?;
    let mut runs = all(&session).await?;
    if wish.active {
        runs.retain(|run| RunStates::ACTIVE.contains(run.state));
    }
    if out.json {
        let runs = runs.iter().map(RunData::from).collect();
        out.json(&Answer { session: session.id().as_str(), runs })?;
    } else if runs.is_empty() {
        out.line(if wish.active { "nobody is at work on it" } else { "it has no runs" })?;
    } else {
        table(&runs, out)?;
    }
    Ok(exit::OK)
}

/// All runs of a session.
pub(crate) async fn all(session: &Session) -> Outcome<Vec<Run>> {
    let mut runs = Vec::new();
    let mut cursor = None;
    loop {
        let mut query = session.runs().list().order(Order::Ascending);
        if let Some(cursor) = cursor.take() {
            query = query.cursor(cursor);
        }
        let page = query.await?;
        runs.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(runs);
        }
    }
}

/// Runs as a table.
pub(crate) fn table(runs: &[Run], out: &mut Out) -> Outcome<()> {
    let rows = runs.iter().map(|run| {
        let took = match run.finished_at {
            Some(end) => duration(end.since_ms(run.created_at)),
            None => String::new(),
        };
        vec![run.number.to_string(), state(run.state), time::local(run.created_at), took, reason(run)]
    });
    out.table(RUNS, rows.collect())
}

fn duration(ms: i64) -> String {
    match ms.max(0) {
        ms if ms < 1_000 => format!("{ms} ms"),
        ms if ms < 120_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        ms => format!("{} min", ms / 60_000),
    }
}
