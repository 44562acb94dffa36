//! Finding a session by what a person says.

use std::path::Path;

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::SessionId;
use turnkeep_core::model::SessionRow;
use turnkeep_core::query::{AudienceFilter, SessionOrder, SessionQuery};
use turnkeep_core::{SessionKey, mutant};

use super::create::cwd_text;
use super::not_found;
use crate::session::Session;
use crate::workspace::Workspace;

/// Candidates that an ambiguity names.
const CANDIDATES: u32 = 10;
/// Sessions of one page of a walk.
const PAGE: u32 = 1_000;

pub(crate) async fn row(workspace: &Workspace, id: &SessionId) -> Result<Option<SessionRow>> {
    let key = SessionKey { workspace: workspace.id().clone(), id: id.clone() };
    workspace.base().store().session(&key).await
}

pub(super) async fn open(workspace: &Workspace, id: &SessionId) -> Result<Session> {
    match row(workspace, id).await? {
        Some(row) => Ok(Session::of_row(workspace.clone(), &row)),
        None => Err(not_found(id)),
    }
}

pub(super) async fn open_by_prefix(workspace: &Workspace, prefix: &str) -> Result<Session> {
    let exact = SessionId::new(prefix)?;
    if let Some(row) = row(workspace, &exact).await? {
        return Ok(Session::of_row(workspace.clone(), &row));
    }
    let mut query = SessionQuery::new(workspace.id().clone());
    query.audience = AudienceFilter::Any;
    query.id_prefix = Some(prefix.to_owned());
    query.order = SessionOrder::Id;
    query.limit = CANDIDATES + 1;
    let found = workspace.base().store().sessions(&query).await?.items;
    match found.as_slice() {
        [] => Err(not_found(&exact)),
        [row] => Ok(Session::of_row(workspace.clone(), row)),
        [row, ..] if mutant::is("find/first-of-several") => Ok(Session::of_row(workspace.clone(), row)),
        several => {
            let more = several.len() > CANDIDATES as usize;
            let message = if more {
                "more than ten sessions have ids that begin so; give more characters"
            } else {
                "several sessions have ids that begin so; give more characters"
            };
            let error = Error::new(ErrorKind::Ambiguous, message).with("prefix", prefix);
            Err(candidates(error, several))
        }
    }
}

pub(super) async fn open_by_title(workspace: &Workspace, title: &str) -> Result<Session> {
    let mut query = SessionQuery::new(workspace.id().clone());
    query.limit = PAGE;
    let mut found: Vec<SessionRow> = Vec::new();
    loop {
        let page = workspace.base().store().sessions(&query).await?;
        let named = |row: &SessionRow| row.profile.title.as_ref().is_some_and(|known| known.text == title);
        found.extend(page.items.into_iter().filter(named));
        query.cursor = page.next;
        if query.cursor.is_none() || found.len() > CANDIDATES as usize {
            break;
        }
    }
    match found.as_slice() {
        [] => Err(Error::new(
            ErrorKind::NotFound,
            "no session has this title; list the sessions to see what there is",
        )),
        [row] => Ok(Session::of_row(workspace.clone(), row)),
        several if !mutant::is("titles/the-first-one-will-do") => {
            let message = if several.len() > CANDIDATES as usize {
                "more than ten sessions have this title; give an id"
            } else {
                "several sessions have this title; give an id"
            };
            let error = Error::new(ErrorKind::Ambiguous, message);
            Err(candidates(error, several))
        }
        [first, ..] => Ok(Session::of_row(workspace.clone(), first)),
    }
}

fn candidates(error: Error, rows: &[SessionRow]) -> Error {
    rows.iter().take(CANDIDATES as usize).fold(error, |error, row| error.with("candidate", &row.id))
}

pub(super) async fn open_by_path_or_id(workspace: &Workspace, text: &str) -> Result<Session> {
    let by_id = open_by_prefix(workspace, text).await;
    match by_id {
        Err(error) if error.kind() != ErrorKind::Ambiguous && Path::new(text).is_dir() => {
            recent(workspace, Some(Path::new(text))).await?.ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "no session was made in this directory")
                    .with("directory", text)
            })
        }
        by_id => by_id,
    }
}

pub(super) async fn recent(workspace: &Workspace, cwd: Option<&Path>) -> Result<Option<Session>> {
    let mut query = SessionQuery::new(workspace.id().clone());
    query.cwd = cwd.map(cwd_text).transpose()?;
    query.archived = Some(false);
    query.limit = 1;
    let page = workspace.base().store().sessions(&query).await?;
    Ok(page.items.first().map(|row| Session::of_row(workspace.clone(), row)))
}
