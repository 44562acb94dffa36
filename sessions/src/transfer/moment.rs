//! A session as it is at one moment, also while others write to it.
//!
//! What can change (its row, runs, streams, records) is read again and again until nothing moved meanwhile, and held in
//! memory. Entries and events never change, so they follow page by page, up to the numbers that were the highest then.
//! A moment can therefore be walked twice and is the same each time.

use std::collections::BTreeMap;

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{SessionKey, SessionRef, StreamName, WorkspaceId};
use turnkeep_core::model::{Row, RowKind, SessionImage, SessionRow, StreamRow};
use turnkeep_core::query::RowQuery;
use turnkeep_core::store::Store;

/// Rows of one page.
const PAGE: u32 = 1_000;
/// How often the small rows are read until they all are of one moment.
const TRIES: u32 = 8;

/// What of a session can change, as it was at one revision.
pub(super) struct Moment {
    pub(super) row: SessionRow,
    runs: Vec<Row>,
    streams: Vec<StreamRow>,
    records: Vec<Row>,
    /// What it is read for: named in errors.
    operation: &'static str,
}

impl Moment {
    pub(super) async fn of(
        store: &dyn Store,
        workspace: &WorkspaceId,
        session: &SessionRef,
        operation: &'static str,
    ) -> Result<Self> {
        let mut row = session_row(store, workspace, session, operation).await?;
        for _ in 0..TRIES {
            let mut moment =
                Self { row, runs: Vec::new(), streams: Vec::new(), records: Vec::new(), operation };
            let mut query = rows_of(workspace, session, &[RowKind::Run, RowKind::Stream, RowKind::Record]);
            loop {
                let page = store.rows(&query).await?;
                for row in page.items {
                    match row {
                        Row::Run(_) => moment.runs.push(row),
                        Row::Record(_) => moment.records.push(row),
                        Row::Stream(stream) => moment.streams.push(stream),
                        Row::Session(_) | Row::Entry(_) | Row::Event { .. } => {}
                    }
                }
                query.cursor = page.next;
                if query.cursor.is_none() {
                    break;
                }
            }
            row = session_row(store, workspace, session, operation).await?;
            if row.revision == moment.row.revision {
                return Ok(moment);
            }
        }
        let message = format!("the session moves too fast for the {operation}; wait until its run is over");
        Err(Error::new(ErrorKind::StaleLeaf, message).with("session", &session.id).with_operation(operation))
    }

    /// How many entries it has.
    pub(super) fn entries(&self) -> u64 {
        self.row.head.map_or(0, |head| u64::from(head.get()))
    }

    /// Every row, in the order in which rows are restored.
    pub(super) fn walk<'a>(&'a self, store: &'a dyn Store) -> Walk<'a> {
        Walk { moment: self, store, at: Step::Image }
    }

    fn moved(&self, message: String) -> Error {
        Error::new(ErrorKind::StaleLeaf, message).with("session", &self.row.id).with_operation(self.operation)
    }
}

/// A walk over the rows of a moment, page by page.
pub(super) struct Walk<'a> {
    moment: &'a Moment,
    store: &'a dyn Store,
    at: Step,
}

enum Step {
    Image,
    Entries { query: Box<RowQuery>, read: u64 },
    Small,
    Events { query: Box<RowQuery>, reached: BTreeMap<StreamName, Reach> },
    Records,
    Over,
}

/// Of one stream: the last event read, and the one to reach.
struct Reach {
    last: u64,
    head: u64,
}

impl Walk<'_> {
    /// The next rows; `None` when there are no more. A page may be empty.
    ///
    /// # Errors
    /// `StaleLeaf` when events of the moment were dropped meanwhile; `NotFound` when the session was deleted; whatever
    /// the store answers.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Row>>> {
        let moment = self.moment;
        let (workspace, session) = (&moment.row.workspace, moment.row.session_ref());
        let (rows, then) = match std::mem::replace(&mut self.at, Step::Over) {
            Step::Image => {
                let query = Box::new(rows_of(workspace, &session, &[RowKind::Entry]));
                (vec![Row::Session(SessionImage::from(&moment.row))], Step::Entries { query, read: 0 })
            }
            Step::Entries { query, read } => self.entries(query, read).await?,
            Step::Small => {
                let mut rows = moment.runs.clone();
                rows.extend(moment.streams.iter().cloned().map(Row::Stream));
                let reach = |stream: &StreamRow| Reach { last: stream.floor, head: stream.head };
                let reached: BTreeMap<_, _> =
                    moment.streams.iter().map(|stream| (stream.name.clone(), reach(stream))).collect();
                let query = Box::new(rows_of(workspace, &session, &[RowKind::Event]));
                let then = if reached.is_empty() { Step::Records } else { Step::Events { query, reached } };
                (rows, then)
            }
            Step::Events { query, reached } => self.events(query, reached).await?,
            Step::Records => (moment.records.clone(), Step::Over),
            Step::Over => return Ok(None),
        };
        self.at = then;
        Ok(Some(rows))
    }

    async fn entries(&self, mut query: Box<RowQuery>, mut read: u64) -> Result<(Vec<Row>, Step)> {
        let moment = self.moment;
        let whole = moment.entries();
        if read >= whole {
            return Ok((Vec::new(), Step::Small));
        }
        let mut page = self.store.rows(&query).await?;
        let within = |row: &Row| matches!(row, Row::Entry(entry) if moment.row.head >= Some(entry.number));
        page.items.retain(within);
        read += page.items.len() as u64;
        query.cursor = page.next;
        if query.cursor.is_none() && read != whole {
            return Err(Error::new(ErrorKind::Corrupt, "entries are missing; verify the store")
                .with("session", &moment.row.id)
                .with("expected", whole)
                .with("observed", read)
                .with_operation(moment.operation));
        }
        Ok((page.items, Step::Entries { query, read }))
    }

    async fn events(
        &self,
        mut query: Box<RowQuery>,
        mut reached: BTreeMap<StreamName, Reach>,
    ) -> Result<(Vec<Row>, Step)> {
        let operation = self.moment.operation;
        let dropped =
            || self.moment.moved(format!("events were dropped during the {operation}; begin it again"));
        let mut page = self.store.rows(&query).await?;
        let mut gap = false;
        page.items.retain(|row| {
            let Row::Event { stream, event } = row else { return false };
            // Streams that began later, and events that came later, are not of that moment.
            let Some(reach) = reached.get_mut(stream).filter(|reach| event.number <= reach.head) else {
                return false;
            };
            gap |= event.number != reach.last + 1;
            reach.last = event.number;
            true
        });
        query.cursor = page.next;
        let over = query.cursor.is_none();
        if gap || (over && reached.values().any(|reach| reach.last != reach.head)) {
            return Err(dropped());
        }
        Ok((page.items, if over { Step::Records } else { Step::Events { query, reached } }))
    }
}

pub(super) fn rows_of(workspace: &WorkspaceId, session: &SessionRef, kinds: &[RowKind]) -> RowQuery {
    let mut query = RowQuery::session(workspace.clone(), session.clone());
    query.kinds = kinds.to_vec();
    query.limit = PAGE;
    query
}

async fn session_row(
    store: &dyn Store,
    workspace: &WorkspaceId,
    session: &SessionRef,
    operation: &'static str,
) -> Result<SessionRow> {
    let key = SessionKey { workspace: workspace.clone(), id: session.id.clone() };
    store.session(&key).await?.filter(|row| row.incarnation == session.incarnation).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "there is no such session")
            .with("session", &session.id)
            .with_operation(operation)
    })
}
