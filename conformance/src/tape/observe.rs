//! Reading all that a store shows of a tape's workspace.

use std::collections::{BTreeMap, BTreeSet};

use turnkeep_core::commit::Outcome as Done;
use turnkeep_core::model as core;
use turnkeep_core::query::{
    EntryQuery, OwnerFilter, PathTo, RecordQuery, RunQuery, SessionOrder, SessionQuery,
};
use turnkeep_core::{EntryNo, ErrorKind, Order, OwnerId, Receipt, SessionRef, Timestamp};

use super::look::{End, Look, Owned, Pages, Target};
use super::mind::{Answer, Handle, Made, Mind};
use super::names;
use super::ops::{Hold, Life};
use super::view::{EntryView, LeaseView, RecordView, RowView, RunView, SessionView, StreamView, View};
use crate::kit::{Kit, name};
use crate::verdict::{Outcome, Stop};

/// What turns the ids of a store back into the names of a tape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    lives: BTreeMap<SessionRef, Life>,
    ids: BTreeSet<String>,
    pub(crate) handles: BTreeMap<OwnerId, Handle>,
    /// Times follow the clock of the suite.
    pub(crate) clock: bool,
}

impl Names {
    pub(crate) fn new<'a>(lives: impl Iterator<Item = &'a Life>, clock: bool) -> Self {
        let mut names = Self { clock, ..Self::default() };
        for life in lives {
            names.ids.insert(life.id().to_owned());
            names.lives.insert(names::session(life), life.clone());
        }
        names
    }

    fn life(&self, session: &SessionRef) -> Life {
        self.lives.get(session).cloned().unwrap_or_else(|| Life(format!("unknown life of {}", session.id)))
    }

    fn time(&self, time: Timestamp) -> i64 {
        if self.clock { time.as_millis() } else { 0 }
    }

    /// A receipt as an answer.
    pub(crate) fn answer(&self, receipt: &Receipt) -> Answer<core::Version> {
        let made = receipt.outcomes.iter().enumerate().map(|(at, done)| match done {
            Done::Done => Made::Plain,
            Done::Skipped => Made::Skipped,
            Done::Entries(_) => Made::Entries(receipt.entries(at).map(EntryNo::get).collect()),
            Done::Run { number, attempt } => Made::Run { number: *number, attempt: *attempt },
            Done::Events { first, last } => Made::Events { first: *first, last: *last },
            Done::Record { version, ordinal } => Made::Record { version: *version, ordinal: *ordinal },
            Done::Lease { epoch, expires_at } => {
                Made::Lease { epoch: *epoch, expires_at: self.time(*expires_at) }
            }
        });
        let moved = receipt.sessions.iter().map(|mark| {
            let numbers = (mark.revision, mark.head.map(EntryNo::get), mark.leaf.map(EntryNo::get));
            (self.life(&mark.session), numbers)
        });
        Answer { made: made.collect(), moved: moved.collect(), replayed: receipt.replayed }
    }

    /// All that a client sees.
    pub(crate) async fn observe(&self, kit: &Kit) -> Outcome<View> {
        let mut view = View::default();
        for id in &self.ids {
            if let Some(row) = kit.find(id).await? {
                view.sessions.insert(id.clone(), self.session(kit, &row).await?);
            }
        }
        let hidden = SessionQuery { state: core::SessionState::Restoring, ..kit.list_by_id() };
        for row in kit.sessions(hidden).await? {
            let session = row.session_ref();
            let read = kit.store.entries(&kit.every_entry(&session)).await;
            ensure_refused!(read, ErrorKind::NotFound, "entries of a session that is being built");
            let found = view.sessions.insert(
                row.id.as_str().to_owned(),
                SessionView {
                    row: self.row(&row),
                    lease: self.lease(kit, core::LeaseName::Session(session)).await?,
                    ..SessionView::default()
                },
            );
            ensure!(found.is_none(), "a session that is being built is found by its id");
        }
        let recent = kit.sessions(kit.list()).await?;
        view.recent = recent.iter().map(|row| self.life(&row.session_ref()).0).collect();
        for collection in names::COLLECTIONS {
            let records = kit.records(kit.collection(collection)).await?;
            let records = records.iter().map(|record| self.record(record)).collect();
            view.records.insert((*collection).to_owned(), records);
        }
        for lease in names::LEASES {
            if let Some(seen) = self.lease(kit, names::lease(&Hold::Named((*lease).to_owned()))).await? {
                view.named.insert((*lease).to_owned(), seen);
            }
        }
        Ok(view)
    }

    async fn session(&self, kit: &Kit, row: &core::SessionRow) -> Outcome<SessionView> {
        let session = row.session_ref();
        let mut view = SessionView { row: self.row(row), ..SessionView::default() };
        view.entries = kit.walk(kit.every_entry(&session)).await?.into_iter().map(entry).collect();
        let path = EntryQuery { path: Some(PathTo::Leaf), ..kit.every_entry(&session) };
        view.path = kit.walk(path).await?.into_iter().map(|entry| entry.number.get()).collect();
        let newest = EntryQuery { order: Order::Latest, limit: 3, ..kit.committed(&session) };
        let newest = kit.store.entries(&newest).await?.items;
        view.newest = newest.into_iter().map(|entry| entry.number.get()).collect();
        let runs = kit.runs(kit.runs_of(&session)).await?;
        view.runs = runs.into_iter().map(|run| self.run(run)).collect();
        for row in kit.rows(kit.rows_of(&session)).await? {
            if let core::Row::Stream(stream) = row {
                let events = kit.events(kit.stream(&session, stream.name.as_str())).await?;
                let events = events.into_iter().map(|it| (it.number, it.payload.as_str().to_owned()));
                view.streams.push(StreamView {
                    name: stream.name.as_str().to_owned(),
                    head: stream.head,
                    floor: stream.floor,
                    closed: stream.closed,
                    events: events.collect(),
                });
            }
        }
        view.lease = self.lease(kit, core::LeaseName::Session(session)).await?;
        Ok(view)
    }

    fn row(&self, row: &core::SessionRow) -> RowView {
        RowView {
            life: self.life(&row.session_ref()).0,
            restoring: row.state == core::SessionState::Restoring,
            revision: row.revision,
            created_at: self.time(row.created_at),
            updated_at: self.time(row.updated_at),
            head: row.head.map(EntryNo::get),
            leaf: row.path.leaf.map(EntryNo::get),
            active_run: row.active_run.as_ref().map(|run| run.as_str().to_owned()),
            runs: row.runs,
            messages: row.messages,
            preview: row.preview.clone(),
            tokens: row.usage.output_tokens,
            title: row.profile.title.as_ref().map(|title| title.text.clone()),
            pinned: row.profile.pinned,
            archived: row.profile.archived,
            built_rows: row.restore.map(|restore| restore.rows),
        }
    }

    fn run(&self, run: core::Run) -> RunView {
        RunView {
            id: run.id.as_str().to_owned(),
            number: run.number,
            state: run.state.as_str(),
            intent: run.intent.map(|intent| intent.as_str().to_owned()),
            attempt: run.attempt,
            retry_of: run.retry_of.map(|run| run.as_str().to_owned()),
            created_at: self.time(run.created_at),
            updated_at: self.time(run.updated_at),
            finished_at: run.finished_at.map(|time| self.time(time)),
            error: run.error.is_some(),
            progress: run.progress.map(|progress| progress.as_str().to_owned()),
            tokens: run.usage.output_tokens,
        }
    }

    fn record(&self, record: &core::Record) -> RecordView {
        RecordView {
            key: record.key.as_str().to_owned(),
            owner: record.owner.as_ref().map(|owner| self.life(owner).0),
            status: record.status.as_ref().map(|status| status.as_str().to_owned()),
            ordinal: record.ordinal,
            created_at: self.time(record.created_at),
            updated_at: self.time(record.updated_at),
            payload: record.payload.as_str().to_owned(),
        }
    }

    async fn lease(&self, kit: &Kit, lease: core::LeaseName) -> Outcome<Option<LeaseView>> {
        Ok(kit.lease_named(lease).await?.map(|lease| {
            let held = lease.state == core::LeaseState::Held;
            LeaseView {
                held,
                handle: self.handles.get(&lease.owner).copied(),
                epoch: lease.epoch,
                acquired_at: self.time(lease.acquired_at),
                expires_at: self.time(lease.expires_at),
                expired: held.then_some(lease.expired),
                liveness: held.then_some(match lease.liveness {
                    core::Liveness::Alive => "alive",
                    core::Liveness::Dead => "dead",
                    core::Liveness::Unknown => "unknown",
                }),
            }
        }))
    }
}

fn entry(entry: core::Entry) -> EntryView {
    EntryView {
        number: entry.number.get(),
        parent: entry.parent.map(EntryNo::get),
        on_path: entry.on_path,
        kind: entry.kind.as_str().to_owned(),
        role: entry.role.map(|role| role.as_str().to_owned()),
        run: entry.run.map(|run| run.as_str().to_owned()),
        key: entry.key.map(|key| key.as_str().to_owned()),
        visibility: names::visibility(entry.visibility),
        refs: entry.refs.into_iter().map(|reference| reference.entry.get()).collect(),
        text: entry.text,
        payload: entry.payload.as_str().to_owned(),
    }
}

/// No query of a tape has more pages than this.
const MOST_PAGES: usize = 10_000;

/// Reads a query page by page. A refusal comes back as its kind.
macro_rules! pages {
    ($kit:ident.$read:ident($query:expr), $word:expr) => {{
        let mut query = $query;
        let mut pages = Vec::new();
        loop {
            let page = match $kit.store.$read(&query).await {
                Ok(page) => page,
                Err(error) => break Ok(Err(error.kind())),
            };
            pages.push(page.items.into_iter().map($word).collect());
            match page.next {
                None => break Ok(Ok(pages)),
                Some(_) if pages.len() == MOST_PAGES => {
                    break Err(Stop::fail("a query does not end"));
                }
                next => query.cursor = next,
            }
        }
    }};
}

impl Names {
    /// The pages of a look, or why it was refused.
    pub(crate) async fn look(
        &self,
        kit: &Kit,
        mind: &Mind<core::Version>,
        look: &Look,
    ) -> Outcome<Result<Pages, ErrorKind>> {
        let Look { at, order, limit } = look;
        let (order, limit) = (*order, *limit);
        match at {
            Target::Entries { .. } => {
                let query = EntryQuery { order, limit, ..entry_query(kit, mind, at) };
                let word =
                    |entry: core::Entry| format!("{} {}", entry.number, entry.text.unwrap_or_default());
                pages!(kit.entries(query), word)
            }
            Target::Sessions { by_id, pinned, archived, with_messages } => {
                let mut query = kit.list();
                query.order = if *by_id { SessionOrder::Id } else { SessionOrder::RecentFirst };
                (query.pinned, query.archived, query.with_messages) = (*pinned, *archived, *with_messages);
                query.limit = limit;
                pages!(kit.sessions(query), |row: core::SessionRow| self.life(&row.session_ref()).0)
            }
            Target::Runs { session, states, intent } => {
                let mut query = RunQuery::new(kit.workspace.clone());
                query.session = session.as_ref().map(names::session);
                if !states.is_empty() {
                    query.states = core::RunStates::of(states);
                }
                query.intent = intent.as_ref().map(|intent| name(intent));
                (query.order, query.limit) = (order, limit);
                pages!(kit.runs(query), |run: core::Run| {
                    format!("{} {} {}", self.life(&run.session).0, run.id, run.state.as_str())
                })
            }
            Target::Events { session, stream, after, before } => {
                let mut query = kit.stream(&names::session(session), stream);
                (query.after, query.before, query.order, query.limit) = (*after, *before, order, limit);
                pages!(kit.events(query), |event: core::Event| {
                    format!("{} {}", event.number, number_in(event.payload.as_str()))
                })
            }
            Target::Records { collection, owner, status } => {
                let mut query = RecordQuery::new(kit.workspace.clone(), name(collection));
                query.owner = match owner {
                    None => OwnerFilter::Any,
                    Some(Owned::Nobody) => OwnerFilter::Unowned,
                    Some(Owned::By(life)) => OwnerFilter::Session(names::session(life)),
                };
                query.status = status.as_ref().map(|status| name(status));
                (query.order, query.limit) = (order, limit);
                pages!(kit.records(query), |record: core::Record| {
                    format!("{} {}", record.key, number_in(record.payload.as_str()))
                })
            }
        }
    }
}

fn entry_query(kit: &Kit, mind: &Mind<core::Version>, target: &Target) -> EntryQuery {
    let number = |number: u32| EntryNo::new(number);
    match target {
        Target::Entries { session, path, after, before, partials, run, key, kind } => {
            let session = names::session(session);
            let mut query = if *partials { kit.every_entry(&session) } else { kit.committed(&session) };
            query.path = path.as_ref().map(|path| match path {
                End::Leaf => PathTo::Leaf,
                End::At(spot) => PathTo::Entry(number(mind.number(spot)).unwrap_or(EntryNo::MAX)),
            });
            (query.after, query.before) = (after.and_then(number), before.and_then(number));
            query.run = run.as_ref().map(|run| name(run));
            query.key = key.as_ref().map(|key| name(key));
            query.kinds = kind.iter().map(|kind| name(kind)).collect();
            query
        }
        _ => kit.every_entry(&names::session(&Life("none.0".to_owned()))),
    }
}

/// The number in a payload of the suite, or the whole payload if it is none of the suite's.
fn number_in(payload: &str) -> &str {
    let number = payload.strip_prefix("{\"n\":").and_then(|rest| rest.strip_suffix('}'));
    number.unwrap_or(payload)
}
