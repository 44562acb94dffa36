//! `turnkeep sessions list`

use serde::Serialize;
use turnkeep::Workspace;
use turnkeep::model::SessionRow;
use turnkeep::query::AudienceFilter;

use crate::args::{Global, List};
use crate::failure::Outcome;
use crate::open;
use crate::output::list::{Column, Kind, column};
use crate::output::session::{SessionData, name, short_ids};
use crate::output::{Out, time};

const COLUMNS: &[Column] = &[
    column("ID", Kind::Whole),
    column("CHANGED", Kind::Extra),
    column("MESSAGES", Kind::Number),
    column("RUN", Kind::Extra),
    column("MARK", Kind::Extra),
    column("TITLE", Kind::Rest),
];
/// The place of the column that is there only where a session has a mark.
const MARK: usize = 4;

#[derive(Serialize)]
struct Answer<'a> {
    sessions: Vec<SessionData<'a>>,
}

pub(crate) async fn run(global: &Global, list: List, out: &mut Out) -> Outcome<u8> {
    let workspace = open::workspace(global).await?;
    show(&workspace, &list, out).await?;
    Ok(crate::exit::OK)
}

/// Lists sessions; also for `/sessions` in a chat.
pub(crate) async fn show(workspace: &Workspace, list: &List, out: &mut Out) -> Outcome<()> {
    let rows = read(workspace, list).await?;
    if out.json {
        return out.json(&Answer { sessions: rows.iter().map(SessionData::from).collect() });
    }
    if rows.is_empty() {
        let filtered = list.search.is_some() || list.cwd.is_some() || list.pinned || list.archived;
        return out.line(if filtered {
            "no session fits"
        } else {
            "no sessions yet; begin one with `turnkeep chat`"
        });
    }
    let now = workspace.now();
    let cells = rows.iter().zip(short_ids(&rows)).map(|(row, id)| {
        let active = if row.active_run.is_some() { "active" } else { "" };
        let mark = match (row.profile.pinned, row.profile.archived) {
            (true, true) => "pinned, archived",
            (true, false) => "pinned",
            (false, true) => "archived",
            (false, false) => "",
        };
        let cells = [id, time::ago(row.updated_at, now), row.messages.to_string(), active.to_owned()];
        cells.into_iter().chain([mark.to_owned(), name(row)]).collect::<Vec<_>>()
    });
    let mut cells: Vec<Vec<String>> = cells.collect();
    let mut columns = COLUMNS.to_vec();
    if cells.iter().all(|row| row.get(MARK).is_none_or(String::is_empty)) {
        columns.remove(MARK);
        cells.iter_mut().for_each(|row| drop(row.remove(MARK)));
    }
    out.table(&columns, cells)
}

/// The pinned ones first.
async fn read(workspace: &Workspace, list: &List) -> Outcome<Vec<SessionRow>> {
    let most = list.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut rows: Vec<SessionRow> = Vec::new();
    for pinned in [true, false] {
        if rows.len() < most && (pinned || !list.pinned) {
            read_those(workspace, list, pinned, most, &mut rows).await?;
        }
    }
    Ok(rows)
}

/// Reads page by page, so that no list is too long.
async fn read_those(
    workspace: &Workspace,
    list: &List,
    pinned: bool,
    most: usize,
    rows: &mut Vec<SessionRow>,
) -> Outcome<()> {
    const PAGE: u32 = 1_000;
    let mut cursor = None;
    loop {
        let room = u32::try_from(most - rows.len()).unwrap_or(PAGE).min(PAGE);
        let mut query = workspace.sessions().list().limit(room).pinned(pinned).archived(list.archived);
        if list.all {
            query = query.audience(AudienceFilter::Any);
        }
        if let Some(text) = &list.search {
            query = query.text(text.as_str());
        }
        if let Some(cwd) = &list.cwd {
            query = query.cwd(cwd);
        }
        if let Some(cursor) = cursor.take() {
            query = query.cursor(cursor);
        }
        let page = query.await?;
        rows.extend(page.items);
        cursor = page.next;
        if cursor.is_none() || rows.len() >= most {
            return Ok(());
        }
    }
}
