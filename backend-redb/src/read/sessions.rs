//! Sessions: one by id, or a list.

use turnkeep_core::id::SessionId;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Profile, SessionRow, SessionState};
use turnkeep_core::query::{PageBuilder, SessionOrder, SessionQuery, page_limit};
use turnkeep_core::{Order, Page, Result, SessionKey};

use crate::codec::{Fields, Key};
use crate::error::damaged;
use crate::read::{head, head_by_id, profile, workspace};
use crate::rows::{Head, read_entry, read_number};
use crate::source::{Source, Span, Toward};
use crate::tables;

/// A place in either order: the activity number, 0 in the order by id, and the id.
type Place = (u64, SessionId);

pub(crate) fn session(source: &dyn Source, key: &SessionKey) -> Result<Option<SessionRow>> {
    let Some(row) = workspace(source, &key.workspace)? else { return Ok(None) };
    match head_by_id(source, row.wkey, &key.id)? {
        Some((skey, head)) if head.state == SessionState::Active => {
            Ok(Some(head.with(&key.workspace, profile(source, skey)?)))
        }
        _ => Ok(None),
    }
}

pub(crate) fn sessions(
    source: &dyn Source,
    query: &SessionQuery,
    limits: &Limits,
) -> Result<Page<SessionRow>> {
    let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position = query.position()?;
    let filter = Filter { source, query, text: query.text.as_ref().map(|text| text.to_ascii_lowercase()) };
    let mut total = query.total.then_some(0);
    if let Some(row) = workspace(source, &query.workspace)? {
        let mut passed = 0;
        visit(source, row.wkey, query, position.as_ref(), &mut |skey, head| {
            let Some(profile) = filter.admits(skey, &head)? else { return Ok(true) };
            if passed < query.offset {
                passed += 1;
                return Ok(true);
            }
            let row = head.with(&query.workspace, profile);
            Ok(page.push(row))
        })?;
        if let Some(total) = &mut total {
            visit(source, row.wkey, query, None, &mut |skey, head| {
                *total += u64::from(filter.admits(skey, &head)?.is_some());
                Ok(true)
            })?;
        }
    }
    let mut page = page.finish(Order::Ascending, |last| query.cursor_after(last))?;
    page.total = total;
    Ok(page)
}

type Offer<'a> = &'a mut dyn FnMut(u64, Head) -> Result<bool>;

/// Offers sessions in order, beyond a position, until one is turned down.
fn visit(
    source: &dyn Source,
    wkey: u64,
    query: &SessionQuery,
    position: Option<&Place>,
    offer: Offer<'_>,
) -> Result<()> {
    if let Some(parent) = &query.parent {
        return visit_children(source, wkey, query, parent, position, offer);
    }
    let (table, span) = match query.order {
        SessionOrder::Id => {
            let prefix = Key::new().u64(wkey).tail(query.id_prefix.as_deref().unwrap_or_default());
            let span = Span::within(prefix);
            let span = match position {
                Some((_, id)) => span.after(Key::new().u64(wkey).tail(id.as_str())),
                None => span,
            };
            (tables::SESSION_IDS, span)
        }
        SessionOrder::RecentFirst => {
            let span = Span::within(Key::new().u64(wkey));
            let span = match position {
                Some((activity, id)) => span.after(activity_key(wkey, *activity, id)),
                None => span,
            };
            (tables::SESSIONS_BY_ACTIVITY, span)
        }
    };
    source.scan(table, &span, Toward::Higher, &mut |_, body| {
        let skey = read_number(table, body)?;
        let head = head(source, skey)?.ok_or_else(|| damaged(table, "skey"))?;
        offer(skey, head)
    })?;
    Ok(())
}

/// Newest first, and by id where two changed at once.
pub(crate) fn activity_key(wkey: u64, activity: u64, id: &SessionId) -> Key {
    Key::new().u64(wkey).u64(!activity).tail(id.as_str())
}

/// The children of a session are few: they are put in order here.
fn visit_children(
    source: &dyn Source,
    wkey: u64,
    query: &SessionQuery,
    parent: &SessionId,
    position: Option<&Place>,
    offer: Offer<'_>,
) -> Result<()> {
    let mut found = Vec::new();
    let span = Span::within(Key::new().u64(wkey).text(parent.as_str()));
    source.scan(tables::SESSIONS_BY_PARENT, &span, Toward::Higher, &mut |key, _| {
        let mut fields = Fields::of_key(tables::SESSIONS_BY_PARENT, key);
        fields.u64()?;
        fields.text()?;
        let skey = fields.u64()?;
        let head = head(source, skey)?.ok_or_else(|| damaged(tables::SESSIONS_BY_PARENT, "skey"))?;
        let activity = if query.order == SessionOrder::Id { 0 } else { head.activity };
        found.push((!activity, head.id.clone(), skey, head));
        Ok(true)
    })?;
    found.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    for (inverted, id, skey, head) in found {
        let beyond = position.is_none_or(|(activity, at)| (inverted, &id) > (!activity, at));
        if beyond && !offer(skey, head)? {
            break;
        }
    }
    Ok(())
}

struct Filter<'a> {
    source: &'a dyn Source,
    query: &'a SessionQuery,
    /// The text in lower case.
    text: Option<String>,
}

impl Filter<'_> {
    /// The profile of a session that fits. Looks at the row first, then at the profile, at entries last.
    fn admits(&self, skey: u64, head: &Head) -> Result<Option<Profile>> {
        let query = self.query;
        let row = head.state == query.state
            && query.id_prefix.as_ref().is_none_or(|prefix| head.id.as_str().starts_with(prefix.as_str()))
            && (!query.with_messages || head.messages > 0);
        if !row {
            return Ok(None);
        }
        let profile = profile(self.source, skey)?;
        let fits = query.admits(&profile)
            && match &self.text {
                Some(text) => self.has_text(skey, head, &profile, text)?,
                None => true,
            };
        Ok(fits.then_some(profile))
    }

    /// Whether id, directory, channel, title or the text of an entry holds `text`, which is in lower case.
    fn has_text(&self, skey: u64, head: &Head, profile: &Profile, text: &str) -> Result<bool> {
        let holds = |field: &str| field.to_ascii_lowercase().contains(text);
        if holds(head.id.as_str())
            || profile.cwd.as_deref().is_some_and(holds)
            || profile.channel.as_ref().is_some_and(|channel| holds(&channel.kind) || holds(&channel.id))
            || profile.title.as_ref().is_some_and(|title| holds(&title.text))
        {
            return Ok(true);
        }
        let span = Span::within(Key::new().u64(skey));
        let nowhere = self.source.scan(tables::ENTRIES, &span, Toward::Higher, &mut |key, body| {
            Ok(!read_entry(key, body)?.text.as_deref().is_some_and(holds))
        })?;
        Ok(!nowhere)
    }
}
