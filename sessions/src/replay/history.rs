//! The conversation as people had it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use turnkeep_core::error::Result;
use turnkeep_core::id::{EntryKind, EntryNo, SessionRef, WorkspaceId};
use turnkeep_core::model::{Entry, Visibility, VisibilitySet, entry_kind};
use turnkeep_core::mutant;
use turnkeep_core::query::{Cursor, DEFAULT_LIMIT, EntryQuery, Order, Page, PathTo};
use turnkeep_core::store::Store;

use super::fetch::session_row;
use crate::message::Message;

/// Which part of a history to read. Bounds are exclusive.
#[derive(Clone, Debug)]
pub struct HistoryQuery {
    /// Only the path of the leaf (the default), or all branches.
    pub all_branches: bool,
    /// Also what is not part of the original conversation: summaries, messages for models and machinery.
    pub internal: bool,
    /// Only numbers above this.
    pub after: Option<EntryNo>,
    /// Only numbers below this.
    pub before: Option<EntryNo>,
    /// The order.
    pub order: Order,
    /// At most this many, unfinished texts not counted.
    pub limit: u32,
    /// Where to go on.
    pub cursor: Option<Cursor>,
}

impl Default for HistoryQuery {
    fn default() -> Self {
        Self {
            all_branches: false,
            internal: false,
            after: None,
            before: None,
            order: Order::Ascending,
            limit: DEFAULT_LIMIT,
            cursor: None,
        }
    }
}

/// One message of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryItem {
    /// The entry, as it is stored.
    pub entry: Entry,
    /// The message in it; `None` if the entry holds none that can be read.
    pub message: Option<Message>,
}

impl HistoryItem {
    /// An entry with the message that it holds, if it holds one.
    #[must_use]
    pub fn new(entry: Entry) -> Self {
        let message = Message::from_entry(&entry).ok();
        Self { entry, message }
    }

    /// Whether it is text that was never finished: shown, never replayed.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.entry.visibility == Visibility::Partial
    }

    /// Whether it is part of the original conversation, and not made for models or machinery.
    #[must_use]
    pub fn is_original(&self) -> bool {
        self.entry.kind.as_str() == entry_kind::MESSAGE && self.entry.visibility != Visibility::Internal
    }
}

/// Reads the conversation as people had it: messages of every run, however it ended, also those that a compaction
/// stands for, and unfinished texts where they were broken off. A walk over pages keeps to the leaf that it began
/// with.
///
/// # Errors
/// `NotFound` when this life of the session is over; `Invalid` for a limit of 0 or a cursor of another query;
/// whatever the store answers.
pub async fn history(
    store: &dyn Store,
    workspace: &WorkspaceId,
    session: &SessionRef,
    query: &HistoryQuery,
) -> Result<Page<HistoryItem>> {
    let mut entries = EntryQuery::new(workspace.clone(), session.clone());
    entries.kinds = vec![EntryKind::new(entry_kind::MESSAGE)?];
    entries.visibility = VisibilitySet::only(Visibility::Conversation);
    if query.internal {
        entries.visibility = VisibilitySet::COMMITTED;
        for kind in [entry_kind::CUSTOM_MESSAGE, entry_kind::COMPACTION, entry_kind::BRANCH_SUMMARY] {
            entries.kinds.push(EntryKind::new(kind)?);
        }
    }
    entries.after = query.after;
    entries.before = query.before;
    entries.order = query.order;
    entries.limit = mutant::either("history/only-the-first", 1, query.limit);
    if query.all_branches {
        entries.visibility = entries.visibility.with(Visibility::Partial);
        entries.cursor = query.cursor.clone();
        let page = store.entries(&entries).await?;
        let items = page.items.into_iter().map(HistoryItem::new).collect();
        return Ok(Page { items, next: page.next, total: page.total });
    }
    let binding = (workspace, session, query.internal, query.after, query.before, query.order);
    let start = match &query.cursor {
        Some(cursor) => Some(cursor.open::<Position>(&binding)?),
        None => None,
    };
    let leaf = match start {
        Some(position) => position.leaf,
        None => match session_row(store, workspace, session).await?.path.leaf {
            Some(leaf) => leaf,
            None => return Ok(Page::empty()),
        },
    };
    if let Some(position) = start {
        if query.order.from_newest() {
            entries.before = Some(position.edge);
        } else {
            entries.after = Some(position.edge);
        }
    }
    entries.path = Some(PathTo::Entry(leaf));
    let page = store.entries(&entries).await?;
    let edge = match (&page.next, query.order) {
        (None, _) => None,
        (Some(_), Order::Latest) => page.items.first().map(|entry| entry.number),
        (Some(_), _) => page.items.last().map(|entry| entry.number),
    };
    let mut beside = entries.clone();
    if let Some(edge) = edge {
        if query.order.from_newest() {
            beside.after = Some(edge);
        } else {
            beside.before = Some(edge);
        }
    }
    let mut items = page.items;
    partials(store, beside, leaf, &mut items).await?;
    items.sort_by_key(|entry| entry.number);
    if query.order == Order::Descending {
        items.reverse();
    }
    let next = match edge {
        Some(edge) => Some(Cursor::seal(&binding, &Position { leaf, edge })?),
        None => None,
    };
    Ok(Page { items: items.into_iter().map(HistoryItem::new).collect(), next, total: None })
}

/// Where a walk goes on.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Position {
    leaf: EntryNo,
    /// The last message of the page before.
    edge: EntryNo,
}

/// Adds the unfinished texts of a range that follow an entry of the path. They lie on no path themselves.
async fn partials(
    store: &dyn Store,
    mut beside: EntryQuery,
    leaf: EntryNo,
    items: &mut Vec<Entry>,
) -> Result<()> {
    beside.path = None;
    beside.order = Order::Ascending;
    beside.visibility = VisibilitySet::only(Visibility::Partial);
    beside.limit = DEFAULT_LIMIT;
    let mut on_path: HashMap<EntryNo, bool> = items.iter().map(|entry| (entry.number, true)).collect();
    loop {
        let page = store.entries(&beside).await?;
        for partial in page.items {
            let belongs = match partial.parent {
                None => true,
                Some(parent) => match on_path.get(&parent) {
                    Some(known) => *known,
                    None => {
                        let lies = lies_on(store, &beside, leaf, parent).await?;
                        on_path.insert(parent, lies);
                        lies
                    }
                },
            };
            if belongs {
                items.push(partial);
            }
        }
        beside.cursor = page.next;
        if beside.cursor.is_none() {
            return Ok(());
        }
    }
}

/// Whether an entry lies on the path of the leaf.
async fn lies_on(store: &dyn Store, like: &EntryQuery, leaf: EntryNo, number: EntryNo) -> Result<bool> {
    if number > leaf {
        return Ok(false);
    }
    let mut query = EntryQuery::new(like.workspace.clone(), like.session.clone());
    query.path = Some(PathTo::Entry(leaf));
    query.after = EntryNo::new(number.get() - 1);
    query.before = number.next();
    query.limit = 1;
    Ok(!store.entries(&query).await?.items.is_empty())
}
