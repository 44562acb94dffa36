//! Ranked search, by looking at every entry.

use turnkeep_core::limits::Limits;
use turnkeep_core::model::SessionState;
use turnkeep_core::mutant;
use turnkeep_core::query::{BestHits, HitPlace, Needle, SearchHit, SearchQuery};
use turnkeep_core::{Page, Result};

use crate::tables::{Life, Tables};

impl Tables {
    /// Entries that have the words of a query, best first.
    ///
    /// # Errors
    /// `NotFound` for a session that is not there, `TooLarge` for a text that is too long, and `Invalid` for a limit
    /// of 0 or a cursor that is not of this query.
    pub fn search(&self, query: &SearchQuery, limits: &Limits) -> Result<Page<SearchHit>> {
        let mut best = BestHits::new(query, limits)?;
        let needle = Needle::new(&query.text)?;
        if let Some(session) = &query.session {
            look(self.session(&query.workspace, session)?, query, &needle, &mut best);
        } else if let Some(workspace) = self.workspaces.get(&query.workspace) {
            for life in workspace.lives.values() {
                if life.row.state == SessionState::Active && query.admits_audience(life.row.profile.audience)
                {
                    look(life, query, &needle, &mut best);
                }
            }
        }
        best.page(query)
    }
}

fn look(life: &Life, query: &SearchQuery, needle: &Needle, best: &mut BestHits) {
    for entry in life.entries.values() {
        let Some(text) = entry.text.as_deref() else { continue };
        let fits = query.admits(&entry.kind, entry.role.as_ref(), entry.visibility)
            || mutant::is("memory/search-finds-partials");
        let Some(found) = needle.look(text).filter(|_| fits) else { continue };
        let place = HitPlace { fit: found.fit, session: life.birth, entry: entry.number.get() };
        best.offer(place, || {
            let (snippet, marks) = found.snippet(text);
            SearchHit {
                session: life.row.session_ref(),
                entry: entry.number,
                kind: entry.kind.clone(),
                role: entry.role.clone(),
                at: entry.at,
                score: found.fit.score(),
                snippet,
                marks,
            }
        });
    }
}
