//! Events of one stream.

use turnkeep_core::limits::Limits;
use turnkeep_core::model::Event;
use turnkeep_core::query::{EventQuery, PageBuilder, PageItem as _, page_limit};
use turnkeep_core::{Cursor, Page, Result};

use crate::tables::Tables;

impl Tables {
    /// Events of one stream.
    ///
    /// # Errors
    /// `NotFound`, and `Invalid` for a limit of 0 or a cursor that is not of this query.
    pub fn events(&self, query: &EventQuery, limits: &Limits) -> Result<Page<Event>> {
        let mut page = PageBuilder::new(page_limit(query.limit, limits)?);
        let position: Option<u64> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
        let life = self.session(&query.workspace, &query.session)?;
        let (mut above, mut below) = (query.after, query.before);
        if query.order.from_newest() {
            below = [below, position].into_iter().flatten().min();
        } else {
            above = above.max(position);
        }
        let low = above.map_or(Some(0), |above| above.checked_add(1));
        let high = below.map_or(Some(u64::MAX), |below| below.checked_sub(1));
        if let (Some(events), Some(low), Some(high)) = (life.events.get(&query.stream), low, high)
            && low <= high
        {
            let mut scan = events.range(low..=high);
            let mut add = |event: &Event| {
                let fits = query.run.is_none() || event.run == query.run;
                !fits || page.push_with(event.bytes(), || event.clone())
            };
            if query.order.from_newest() {
                let _ = scan.rev().all(|(_, event)| add(event));
            } else {
                let _ = scan.all(|(_, event)| add(event));
            }
        }
        page.finish(query.order, |last| Cursor::seal(query, &last.number))
    }
}
