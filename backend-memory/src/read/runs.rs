//! Runs of a session or a workspace.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use turnkeep_core::id::SessionId;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Run, SessionState};
use turnkeep_core::mutant;
use turnkeep_core::query::{PageBuilder, PageItem as _, RunQuery, page_limit};
use turnkeep_core::{Cursor, Incarnation, Page, Result, RunId};

use crate::tables::{Life, Tables, Workspace};

/// A place in the order of runs: by session, then by number; the id makes it total.
type Place = (SessionId, u32, RunId);

impl Tables {
    /// Runs of a session or a workspace.
    ///
    /// # Errors
    /// `NotFound`, and `Invalid` for a limit of 0 or a cursor that is not of this query.
    pub fn runs(&self, query: &RunQuery, limits: &Limits) -> Result<Page<Run>> {
        let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
        let position: Option<Place> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
        let mut add = |run: &Arc<Run>| !admits(query, run) || page.push_with(run.bytes(), || (**run).clone());
        if let Some(session) = &query.session {
            let life = self.session(&query.workspace, session)?;
            walk_life(life, query, position.as_ref(), &mut add);
        } else if let Some(workspace) = self.workspaces.get(&query.workspace) {
            walk_workspace(workspace, query, position.as_ref(), &mut add);
        }
        page.finish(query.order, |last| Cursor::seal(query, &(&last.session.id, last.number, &last.id)))
    }
}

fn admits(query: &RunQuery, run: &Run) -> bool {
    query.states.contains(run.state)
        && query.id.as_ref().is_none_or(|id| run.id == *id)
        && (query.intent.is_none() || run.intent == query.intent || mutant::is("memory/intent-not-compared"))
}

fn walk_workspace(
    workspace: &Workspace,
    query: &RunQuery,
    position: Option<&Place>,
    add: &mut impl FnMut(&Arc<Run>) -> bool,
) {
    let ids: &BTreeMap<SessionId, Incarnation> = &workspace.ids;
    let mut visit = |id: &SessionId| {
        let life = workspace.life(id).filter(|life| life.row.state == SessionState::Active);
        let position = position.filter(|(at, _, _)| at == id);
        life.is_none_or(|life| walk_life(life, query, position, add))
    };
    let edge = position.map(|(id, _, _)| id);
    if query.order.from_newest() {
        let to = edge.map_or(Bound::Unbounded, Bound::Included);
        let _ = ids.range((Bound::Unbounded, to)).rev().all(|(id, _)| visit(id));
    } else {
        let from = edge.map_or(Bound::Unbounded, Bound::Included);
        let _ = ids.range((from, Bound::Unbounded)).all(|(id, _)| visit(id));
    }
}

/// Offers the runs of one session beyond a position; `false` when the page took no more.
fn walk_life(
    life: &Life,
    query: &RunQuery,
    position: Option<&Place>,
    add: &mut impl FnMut(&Arc<Run>) -> bool,
) -> bool {
    let at = position.map(|(_, number, id)| (*number, id.clone()));
    let mut visit = |(_, id): &(u32, RunId)| life.runs.get(id).is_none_or(&mut *add);
    if query.order.from_newest() {
        let to = at.map_or(Bound::Unbounded, Bound::Excluded);
        life.run_order.range((Bound::Unbounded, to)).rev().all(&mut visit)
    } else {
        let from = at.map_or(Bound::Unbounded, Bound::Excluded);
        life.run_order.range((from, Bound::Unbounded)).all(&mut visit)
    }
}
