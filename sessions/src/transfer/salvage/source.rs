//! Reading rows around those that are damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use turnkeep_core::error::Result;
use turnkeep_core::id::{Collection, RunId, SessionRef, StreamName, WorkspaceId};
use turnkeep_core::model::{Record, Row, RowKind, Run, StreamRow, collection, stream};
use turnkeep_core::query::{Cursor, Order, OwnerFilter, Page, RecordQuery, RowQuery, RunQuery};
use turnkeep_core::store::Store;

use super::{CANNOT, Loss, is_damage};
use crate::transfer::moment::rows_of;

/// Rows of one page.
pub(super) const PAGE: u32 = 500;

/// Reads a list as far as it goes: in pages, then one by one up to what is damaged. Answers whether it ended well.
async fn as_far_as_it_goes<T, F>(
    mut page: impl FnMut(u32, Option<Cursor>) -> F,
    into: &mut Vec<T>,
) -> Result<bool>
where
    F: Future<Output = Result<Page<T>>>,
{
    let (mut limit, mut cursor) = (PAGE, None);
    loop {
        match page(limit, cursor.clone()).await {
            Ok(found) => {
                into.extend(found.items);
                cursor = found.next;
                if cursor.is_none() {
                    return Ok(true);
                }
            }
            Err(error) if is_damage(&error) && limit > 1 => limit = 1,
            Err(error) if is_damage(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

async fn rows(store: &dyn Store, query: RowQuery, into: &mut Vec<Row>) -> Result<bool> {
    let page = |limit, cursor| {
        let query = RowQuery { limit, cursor, ..query.clone() };
        async move { store.rows(&query).await }
    };
    as_far_as_it_goes(page, into).await
}

/// The runs of a session. Beside a damaged one, from both ends, and those that entries name.
pub(super) async fn runs(
    store: &dyn Store,
    workspace: &WorkspaceId,
    session: &SessionRef,
    named: &BTreeSet<RunId>,
    loss: &mut Loss<'_>,
) -> Result<Vec<Run>> {
    let mut found = Vec::new();
    let whole = rows(store, rows_of(workspace, session, &[RowKind::Run]), &mut found).await?;
    let mut runs: BTreeMap<u32, Run> = BTreeMap::new();
    let mut keep = |run: Run| drop(runs.insert(run.number, run));
    for row in found {
        if let Row::Run(run) = row {
            keep(run);
        }
    }
    if !whole {
        let mut query = RunQuery::new(workspace.clone());
        query.session = Some(session.clone());
        query.order = Order::Descending;
        let page = |limit, cursor| {
            let query = RunQuery { limit, cursor, ..query.clone() };
            async move { store.runs(&query).await }
        };
        let mut later = Vec::new();
        as_far_as_it_goes(page, &mut later).await?;
        later.into_iter().for_each(&mut keep);
        for id in named {
            let mut query = RunQuery::new(workspace.clone());
            query.session = Some(session.clone());
            query.id = Some(id.clone());
            match store.runs(&query).await {
                Ok(page) => page.items.into_iter().for_each(&mut keep),
                Err(error) if is_damage(&error) => loss.note(format!("run {id}"), CANNOT),
                Err(error) => return Err(error),
            }
        }
        loss.note("runs that cannot be read, and those between them that nothing names", CANNOT);
    }
    let mut kept = Vec::new();
    for run in runs.into_values() {
        if loss.sound(&Row::Run(run.clone())) {
            kept.push(run);
        }
    }
    Ok(kept)
}

/// The streams of a session, by name.
pub(super) async fn streams(
    store: &dyn Store,
    workspace: &WorkspaceId,
    session: &SessionRef,
    loss: &mut Loss<'_>,
) -> Result<BTreeMap<StreamName, Option<StreamRow>>> {
    let mut found = Vec::new();
    let whole = rows(store, rows_of(workspace, session, &[RowKind::Stream]), &mut found).await?;
    let mut streams = BTreeMap::new();
    for row in found {
        if let Row::Stream(row) = row {
            streams.insert(row.name.clone(), Some(row));
        }
    }
    if !whole {
        loss.note("the row of an event stream", CANNOT);
        // Their events may still be there, and say the name themselves.
        let mut events = Vec::new();
        rows(store, rows_of(workspace, session, &[RowKind::Event]), &mut events).await?;
        let seen = events.into_iter().filter_map(|row| match row {
            Row::Event { stream, .. } => Some(stream),
            _ => None,
        });
        let known = [stream::RUNS, stream::CAPABILITIES, stream::RESPONSE_ITEMS, stream::USAGE];
        for name in seen.chain(known.into_iter().filter_map(|name| StreamName::new(name).ok())) {
            streams.entry(name).or_insert(None);
        }
    }
    Ok(streams)
}

/// Records of a session, or those that nobody owns. Beside a damaged one, collection by collection from both ends.
pub(super) async fn records(
    store: &dyn Store,
    workspace: &WorkspaceId,
    owner: Option<&SessionRef>,
    loss: &mut Loss<'_>,
) -> Result<Vec<Record>> {
    let query = match owner {
        Some(session) => rows_of(workspace, session, &[RowKind::Record]),
        None => RowQuery::unowned(workspace.clone()),
    };
    let mut found = Vec::new();
    let whole = rows(store, query, &mut found).await?;
    let mut records = BTreeMap::new();
    let mut keep = |record: Record| {
        drop(records.insert((record.collection.clone(), record.key.clone()), record));
    };
    let mut collections: BTreeSet<Collection> =
        KNOWN.iter().filter_map(|name| Collection::new(*name).ok()).collect();
    for row in found {
        if let Row::Record(record) = row {
            collections.insert(record.collection.clone());
            keep(record);
        }
    }
    if !whole {
        loss.note("a record", CANNOT);
        for collection in collections {
            for order in [Order::Ascending, Order::Descending] {
                let mut query = RecordQuery::new(workspace.clone(), collection.clone());
                query.owner = owner.map_or(OwnerFilter::Unowned, |owner| OwnerFilter::Session(owner.clone()));
                query.order = order;
                let page = |limit, cursor| {
                    let query = RecordQuery { limit, cursor, ..query.clone() };
                    async move { store.records(&query).await }
                };
                let mut found = Vec::new();
                as_far_as_it_goes(page, &mut found).await?;
                found.into_iter().for_each(&mut keep);
            }
        }
    }
    let mut kept = Vec::new();
    for record in records.into_values() {
        if loss.sound(&Row::Record(record.clone())) {
            kept.push(record);
        }
    }
    Ok(kept)
}

/// The collections that are written by this software.
const KNOWN: [&str; 12] = [
    collection::INTENTS,
    collection::TOOL_CLAIMS,
    collection::LINEAGE,
    collection::RESPONSE_RUNS,
    collection::RESPONSE_TURNS,
    collection::BINDINGS,
    collection::PROJECTS,
    collection::CAPABILITIES,
    collection::CHANNEL_TOOLS,
    collection::GUIDANCE,
    collection::APPROVALS,
    collection::CANCEL_REQUESTS,
];
