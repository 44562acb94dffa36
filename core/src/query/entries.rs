//! Reading entries.

use serde::Serialize;

use crate::error::Result;
use crate::id::{EntryKey, EntryKind, EntryNo, Role, RunId, SessionRef, TurnId, WorkspaceId};
use crate::model::{Visibility, VisibilitySet};
use crate::query::{Cursor, DEFAULT_LIMIT, Order};

/// A path: an entry, its parent, and so on to the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PathTo {
    /// The path of the session's leaf, as it is when the query runs.
    Leaf,
    /// The path of this entry, which must lie on one.
    Entry(EntryNo),
}

/// Which entries to read. Every filter narrows. By number, which is also the order of a path.
#[derive(Clone, Debug, Serialize)]
pub struct EntryQuery {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The session; `NotFound` if this life of it is over.
    pub session: SessionRef,
    /// Only the entries of a path.
    pub path: Option<PathTo>,
    /// Only numbers above this.
    pub after: Option<EntryNo>,
    /// Only numbers below this.
    pub before: Option<EntryNo>,
    /// Only these kinds; empty means all.
    pub kinds: Vec<EntryKind>,
    /// Only these roles; empty means all, also entries without one.
    pub roles: Vec<Role>,
    /// Only what these may see.
    pub visibility: VisibilitySet,
    /// Only of this run.
    pub run: Option<RunId>,
    /// Only of this turn.
    pub turn: Option<TurnId>,
    /// Only the entry with this key.
    pub key: Option<EntryKey>,
    /// The order.
    pub order: Order,
    /// At most this many.
    #[serde(skip)]
    pub limit: u32,
    /// Where to go on.
    #[serde(skip)]
    pub cursor: Option<Cursor>,
}

impl EntryQuery {
    /// Every entry of a session but partials, ascending.
    #[must_use]
    pub fn new(workspace: WorkspaceId, session: SessionRef) -> Self {
        Self {
            workspace,
            session,
            path: None,
            after: None,
            before: None,
            kinds: Vec::new(),
            roles: Vec::new(),
            visibility: VisibilitySet::COMMITTED,
            run: None,
            turn: None,
            key: None,
            order: Order::Ascending,
            limit: DEFAULT_LIMIT,
            cursor: None,
        }
    }

    /// Whether an entry fits every filter but the path. The one place that says what the filters mean.
    #[must_use]
    pub fn admits(&self, entry: &crate::model::Entry) -> bool {
        self.after.is_none_or(|after| entry.number > after)
            && self.before.is_none_or(|before| entry.number < before)
            && (self.kinds.is_empty() || self.kinds.contains(&entry.kind))
            && (self.roles.is_empty() || entry.role.as_ref().is_some_and(|role| self.roles.contains(role)))
            && self.sees(entry.visibility)
            && self.run.as_ref().is_none_or(|run| entry.run.as_ref() == Some(run))
            && self.turn.as_ref().is_none_or(|turn| entry.turn.as_ref() == Some(turn))
            && self.key.as_ref().is_none_or(|key| entry.key.as_ref() == Some(key))
    }

    /// The lowest and the highest number that bounds, key and a cursor's position leave; `None` when nothing is left.
    /// `keyed` finds the entry with a key. For backends.
    ///
    /// # Errors
    /// What `keyed` answers.
    pub fn number_range(
        &self,
        position: Option<EntryNo>,
        keyed: impl FnOnce(&EntryKey) -> Result<Option<EntryNo>>,
    ) -> Result<Option<(EntryNo, EntryNo)>> {
        let (mut above, mut below) = (self.after, self.before);
        if self.order.from_newest() {
            below = [below, position].into_iter().flatten().min();
        } else {
            above = above.max(position);
        }
        let low = above.map_or(Some(EntryNo::FIRST), EntryNo::next);
        let high = below.map_or(Some(EntryNo::MAX), |below| EntryNo::new(below.get().saturating_sub(1)));
        let (Some(mut low), Some(mut high)) = (low, high) else { return Ok(None) };
        if let Some(key) = &self.key {
            let Some(number) = keyed(key)? else { return Ok(None) };
            low = low.max(number);
            high = high.min(number);
        }
        Ok((low <= high).then_some((low, high)))
    }

    fn sees(&self, visibility: Visibility) -> bool {
        self.visibility.contains(visibility)
    }
}
