//! Runs of a session or a workspace.

use turnkeep_core::id::SessionId;
use turnkeep_core::limits::Limits;
use turnkeep_core::model::{Run, RunStates, SessionState};
use turnkeep_core::query::{PageBuilder, RunQuery, page_limit};
use turnkeep_core::{Cursor, Page, Result, RunId};

use crate::codec::{Fields, Key};
use crate::error::damaged;
use crate::read::{find, head, workspace};
use crate::rows::{read_number, read_run, run_key};
use crate::source::{Source, Span, Toward};
use crate::tables;

/// A place in the order of runs: by session, then by number; the id makes it total.
type Place = (SessionId, u32, RunId);

pub(crate) fn runs(source: &dyn Source, query: &RunQuery, limits: &Limits) -> Result<Page<Run>> {
    let page = PageBuilder::new(page_limit(query.limit, limits)?);
    let position: Option<Place> = query.cursor.as_ref().map(|cursor| cursor.open(query)).transpose()?;
    let mut walk = Walk { source, query, position, page };
    if let Some(session) = &query.session {
        let (skey, head) = find(source, &query.workspace, session)?;
        walk.session(skey, &head.id)?;
    } else if let Some(row) = workspace(source, &query.workspace)? {
        if RunStates::TERMINAL.iter().any(|state| query.states.contains(state)) {
            walk.sessions(row.wkey)?;
        } else {
            walk.active(row.wkey)?;
        }
    }
    walk.page.finish(query.order, |last| Cursor::seal(query, &(&last.session.id, last.number, &last.id)))
}

struct Walk<'a> {
    source: &'a dyn Source,
    query: &'a RunQuery,
    position: Option<Place>,
    page: PageBuilder<Run>,
}

impl Walk<'_> {
    fn toward(&self) -> Toward {
        Toward::newest_first(self.query.order.from_newest())
    }

    fn offer(&mut self, run: Run) -> bool {
        let query = self.query;
        let fits = query.states.contains(run.state)
            && query.id.as_ref().is_none_or(|id| run.id == *id)
            && (query.intent.is_none() || run.intent == query.intent);
        !fits || self.page.push(run)
    }

    /// A span narrowed to what lies beyond the position, whose key `key` makes.
    fn beyond(&self, span: Span, key: impl FnOnce(&Place) -> Key) -> Span {
        match &self.position {
            None => span,
            Some(place) if self.query.order.from_newest() => span.before(key(place)),
            Some(place) => span.after(key(place)),
        }
    }

    /// Offers the runs of one session; `false` when the page takes no more.
    fn session(&mut self, skey: u64, id: &SessionId) -> Result<bool> {
        let mut span = Span::within(Key::new().u64(skey));
        let begun = self.position.as_ref().is_some_and(|(at, _, _)| at == id);
        if begun {
            span = self.beyond(span, |(_, number, _)| run_key(skey, *number));
        }
        if let Some(run) = &self.query.id {
            // Only one run of a session can fit, and the position stands at it.
            if begun {
                return Ok(true);
            }
            let place = self.source.get(tables::RUN_IDS, &Key::new().u64(skey).tail(run.as_str()))?;
            let Some(place) = place else { return Ok(true) };
            let number = read_number(tables::RUN_IDS, &place)?;
            let number = u32::try_from(number).map_err(|_| damaged(tables::RUN_IDS, "number"))?;
            span = Span::all().from(run_key(skey, number)).through(run_key(skey, number));
        }
        let source = self.source;
        let toward = self.toward();
        let scanned =
            source.scan(tables::RUNS, &span, toward, &mut |_, body| Ok(self.offer(read_run(body)?)));
        scanned.or_else(|error| self.page.beyond(error))
    }

    fn sessions(&mut self, wkey: u64) -> Result<()> {
        let mut span = Span::within(Key::new().u64(wkey));
        if let Some((id, _, _)) = &self.position {
            let edge = Key::new().u64(wkey).tail(id.as_str());
            span = if self.query.order.from_newest() { span.through(edge) } else { span.from(edge) };
        }
        let source = self.source;
        source.scan(tables::SESSION_IDS, &span, self.toward(), &mut |_, body| {
            let skey = read_number(tables::SESSION_IDS, body)?;
            let head = head(source, skey)?.ok_or_else(|| damaged(tables::SESSION_IDS, "skey"))?;
            if head.state != SessionState::Active {
                return Ok(true);
            }
            self.session(skey, &head.id)
        })?;
        Ok(())
    }

    /// Offers runs that are not over, which are few: what recovery looks for must not cost by the history.
    fn active(&mut self, wkey: u64) -> Result<()> {
        let span = self.beyond(Span::within(Key::new().u64(wkey)), |(id, number, _)| {
            Key::new().u64(wkey).text(id.as_str()).u32(*number)
        });
        let source = self.source;
        source.scan(tables::RUNS_ACTIVE, &span, self.toward(), &mut |key, body| {
            let mut fields = Fields::of_key(tables::RUNS_ACTIVE, key);
            fields.u64()?;
            fields.text()?;
            let number = fields.u32()?;
            let skey = read_number(tables::RUNS_ACTIVE, body)?;
            let head = head(source, skey)?.ok_or_else(|| damaged(tables::RUNS_ACTIVE, "skey"))?;
            if head.state != SessionState::Active {
                return Ok(true);
            }
            let body = source.get(tables::RUNS, &run_key(skey, number))?;
            let run = read_run(&body.ok_or_else(|| damaged(tables::RUNS_ACTIVE, "run"))?)?;
            Ok(self.offer(run))
        })?;
        Ok(())
    }
}
