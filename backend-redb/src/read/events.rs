//! Events of one stream.

use turnkeep_core::limits::Limits;
use turnkeep_core::model::Event;
use turnkeep_core::mutant;
use turnkeep_core::query::{EventQuery, PageBuilder, page_limit};
use turnkeep_core::{Cursor, Page, Result};

use crate::codec::Key;
use crate::read::find;
use crate::rows::{event_key, read_event};
use crate::source::{Source, Span, Toward};
use crate::tables;

pub(crate) fn events(source: &dyn Source, query: &EventQuery, limits: &Limits) -> Result<Page<Event>> {
    let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position: Option<u64> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
    let (skey, _) = find(source, &query.workspace, &query.session)?;
    let (mut above, mut below) = (query.after, query.before);
    if query.order.from_newest() {
        below = [below, position].into_iter().flatten().min();
    } else {
        above = above.max(position);
    }
    let stream = query.stream.as_str();
    let mut span = Span::within(Key::new().u64(skey).text(stream));
    if let Some(above) = above {
        span = span.after(event_key(skey, stream, above));
    }
    if let Some(below) = below {
        span = span.before(event_key(skey, stream, below));
    }
    let toward = Toward::newest_first(query.order.from_newest());
    source.scan(tables::EVENTS, &span, toward, &mut |key, body| {
        let (_, event) = read_event(key, body)?;
        let fits =
            query.run.is_none() || event.run == query.run || mutant::is("redb/run-of-events-not-compared");
        Ok(!fits || page.push(event))
    })?;
    page.finish(query.order, |last| Cursor::seal(query, &last.number))
}
