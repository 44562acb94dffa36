//! Sessions: one by id, or a list.

use std::cmp::Reverse;
use std::ops::Bound;

use turnkeep_core::id::SessionId;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{SessionRow, SessionState};
use turnkeep_core::mutant;
use turnkeep_core::query::{PageBuilder, PageItem as _, SessionOrder, SessionQuery, page_limit};
use turnkeep_core::{Order, Page, Result, SessionKey};

use crate::tables::{Life, Tables, Workspace};

impl Tables {
    /// A session in use, by its id.
    #[must_use]
    pub fn session_row(&self, key: &SessionKey) -> Option<SessionRow> {
        let life = self.workspaces.get(&key.workspace)?.life(&key.id)?;
        (life.row.state == SessionState::Active).then(|| life.row.clone())
    }

    /// A list of sessions.
    ///
    /// # Errors
    /// `Invalid` for a limit of 0 or a cursor that is not of this query.
    pub fn sessions(&self, query: &SessionQuery, limits: &Limits) -> Result<Page<SessionRow>> {
        let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
        let position = query.position()?;
        let filter = Filter::new(query);
        let mut total = None;
        if let Some(workspace) = self.workspaces.get(&query.workspace) {
            let mut passed = 0;
            visit(workspace, query.order, position, |life| {
                if !filter.admits(life) {
                    return true;
                }
                if passed < query.offset {
                    passed += 1;
                    return true;
                }
                page.push_with(life.row.bytes(), || life.row.clone())
            });
            if query.total {
                total = Some(workspace.lives.values().filter(|life| filter.admits(life)).count() as u64);
            }
        } else if query.total {
            total = Some(0);
        }
        let mut page = page.finish(Order::Ascending, |last| query.cursor_after(last))?;
        page.total = total;
        Ok(page)
    }
}

/// Offers sessions in order, beyond a position, until one is turned down.
fn visit(
    workspace: &Workspace,
    order: SessionOrder,
    position: Option<(u64, SessionId)>,
    mut offer: impl FnMut(&Life) -> bool,
) {
    let mut visit = |id: &SessionId| workspace.life(id).is_none_or(&mut offer);
    match order {
        SessionOrder::Id => {
            let from = position.map_or(Bound::Unbounded, |(_, id)| Bound::Excluded(id));
            let _ = workspace.ids.range((from, Bound::Unbounded)).all(|(id, _)| visit(id));
        }
        SessionOrder::RecentFirst => {
            let from = position.map(|(activity, id)| (Reverse(activity), id));
            let from = from.map_or(Bound::Unbounded, Bound::Excluded);
            let _ = workspace.recent.range((from, Bound::Unbounded)).all(|(_, id)| visit(id));
        }
    }
}

struct Filter<'a> {
    query: &'a SessionQuery,
    /// The text in lower case.
    text: Option<String>,
}

impl<'a> Filter<'a> {
    fn new(query: &'a SessionQuery) -> Self {
        Self { query, text: query.text.as_ref().map(|text| text.to_ascii_lowercase()) }
    }

    fn admits(&self, life: &Life) -> bool {
        let (query, row) = (self.query, &life.row);
        (row.state == query.state || mutant::is("memory/lists-what-is-built"))
            && query.id_prefix.as_ref().is_none_or(|prefix| {
                row.id.as_str().starts_with(prefix.as_str())
                    || (mutant::is("memory/prefix-is-a-pattern") && prefix.contains('%'))
            })
            && (!query.with_messages || row.messages > 0)
            && query.admits(&row.profile)
            && self.text.as_ref().is_none_or(|text| has_text(life, text))
    }
}

/// Whether id, directory, channel, title or the text of an entry holds `text`, which is in lower case.
fn has_text(life: &Life, text: &str) -> bool {
    let holds = |field: &str| field.to_ascii_lowercase().contains(text);
    let profile = &life.row.profile;
    holds(life.row.id.as_str())
        || profile.cwd.as_deref().is_some_and(holds)
        || profile.channel.as_ref().is_some_and(|channel| holds(&channel.kind) || holds(&channel.id))
        || profile.title.as_ref().is_some_and(|title| holds(&title.text))
        || life.entries.values().any(|entry| entry.text.as_deref().is_some_and(holds))
}
