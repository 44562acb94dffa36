//! Ranked search, by looking at every entry: there is no index. What is kept meanwhile is one page of hits.

use turnkeep_core::limits::Limits;
use turnkeep_core::model::SessionState;
use turnkeep_core::query::{BestHits, Fit, HitPlace, Needle, SearchHit, SearchQuery};
use turnkeep_core::{Page, Result};

use crate::codec::Key;
use crate::error::damaged;
use crate::read::{find, head, profile, workspace};
use crate::rows::{Head, read_entry, read_number};
use crate::source::{Source, Span, Toward};
use crate::tables;

pub(crate) fn search(source: &dyn Source, query: &SearchQuery, limits: &Limits) -> Result<Page<SearchHit>> {
    let mut best = BestHits::new(query, limits)?;
    let needle = Needle::new(&query.text)?;
    let mut keys = Vec::new();
    if let Some(session) = &query.session {
        keys.push(find(source, &query.workspace, session)?.0);
    } else if let Some(row) = workspace(source, &query.workspace)? {
        let span = Span::within(Key::new().u64(row.wkey));
        source.scan(tables::SESSION_IDS, &span, Toward::Higher, &mut |_, body| {
            keys.push(read_number(tables::SESSION_IDS, body)?);
            Ok(true)
        })?;
    }
    if needle.is_empty() {
        return best.page(query);
    }
    // In the order of the ranking, so that less and less is wanted.
    keys.sort_unstable();
    for skey in keys.into_iter().rev() {
        let head = head(source, skey)?.ok_or_else(|| damaged(tables::SESSIONS, "row"))?;
        if head.state == SessionState::Active && query.admits_audience(profile(source, skey)?.audience) {
            look(source, skey, &head, query, &needle, &mut best)?;
        }
    }
    best.page(query)
}

fn look(
    source: &dyn Source,
    skey: u64,
    head: &Head,
    query: &SearchQuery,
    needle: &Needle,
    best: &mut BestHits,
) -> Result<()> {
    let span = Span::within(Key::new().u64(skey));
    source.scan(tables::ENTRIES, &span, Toward::Lower, &mut |key, body| {
        let entry = read_entry(key, body)?;
        let place = |fit| HitPlace { fit, session: skey, entry: entry.number.get() };
        if best.is_full_before(place(Fit::Phrase)) {
            return Ok(false);
        }
        let Some(text) = entry.text.as_deref() else { return Ok(true) };
        if !query.admits(&entry.kind, entry.role.as_ref(), entry.visibility) {
            return Ok(true);
        }
        let Some(found) = needle.look(text) else { return Ok(true) };
        best.offer(place(found.fit), || {
            let (snippet, marks) = found.snippet(text);
            SearchHit {
                session: head.session_ref(),
                entry: entry.number,
                kind: entry.kind.clone(),
                role: entry.role.clone(),
                at: entry.at,
                score: found.fit.score(),
                snippet,
                marks,
            }
        });
        Ok(true)
    })?;
    Ok(())
}
