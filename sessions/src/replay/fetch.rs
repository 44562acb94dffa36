//! Reads just the part of a history that is replayed.

use std::collections::{HashMap, HashSet};

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryKind, EntryNo, RunId, SessionKey, SessionRef, WorkspaceId};
use turnkeep_core::model::{Entry, RunState, SessionRow};
use turnkeep_core::mutant;
use turnkeep_core::query::{EntryQuery, Order, PathTo, RunQuery};
use turnkeep_core::store::Store;

use super::build::{KINDS, build, compaction_message, first_kept, select};
use super::{Replay, ReplayPolicy};

/// Entries of the first page. Each page is twice as large as the one before, so that a short tail is cheap, a long
/// history takes few pages, and at most as much is read in vain as is replayed.
const FIRST_PAGE: u32 = 64;
/// Entries of the largest page.
const LARGEST_PAGE: u32 = 4096;
/// How far before the first kept entry a call is looked for whose result was kept. A result whose call is not found
/// there is left out, so that a result without any call cannot make every replay read the whole history.
const PAIR_WINDOW: usize = 1024;

/// Reads the path of a session's leaf as a model may be shown it again.
///
/// The leaf is the one that the session has when this begins. Cost follows what is replayed: the path is read
/// backwards until the latest compaction, and then to the first entry that it keeps.
///
/// # Errors
/// `NotFound` when this life of the session is over; `Invalid` when a call is unanswered and the policy says to
/// refuse; whatever the store answers.
pub async fn replay(
    store: &dyn Store,
    workspace: &WorkspaceId,
    session: &SessionRef,
    policy: &ReplayPolicy,
) -> Result<Replay> {
    let row = session_row(store, workspace, session).await?;
    let Some(leaf) = row.path.leaf else { return Ok(Replay::default()) };
    let mut reader = Reader {
        store,
        workspace,
        session,
        leaf,
        newest_first: Vec::new(),
        runs: HashMap::new(),
        asked: HashSet::new(),
        before: None,
        page: FIRST_PAGE,
        at_root: false,
    };
    let mut checked = 0;
    let mut compaction = None;
    while compaction.is_none() && !reader.at_root {
        reader.read_page(None).await?;
        reader.look_up_runs(policy).await?;
        compaction = reader
            .newest_first
            .iter()
            .skip(checked)
            .find(|entry| compaction_message(entry, &reader.runs, policy).is_some())
            .map(|entry| (entry.number, first_kept(entry)));
        checked = reader.newest_first.len();
    }
    if let Some((number, kept)) = compaction {
        let first = kept.unwrap_or(number).min(number);
        while !reader.at_root && reader.oldest().is_some_and(|oldest| oldest > first) {
            reader.read_page(Some(first)).await?;
        }
        reader.look_up_runs(policy).await?;
        let enough = reader.newest_first.len() + PAIR_WINDOW;
        reader.page = FIRST_PAGE;
        while !reader.at_root && reader.newest_first.len() < enough && reader.misses_calls(policy) {
            reader.read_page(None).await?;
            reader.look_up_runs(policy).await?;
        }
    }
    let Reader { newest_first: mut entries, runs, .. } = reader;
    entries.reverse();
    build(&entries, &runs, policy)
}

/// The row of this life of a session.
pub(super) async fn session_row(
    store: &dyn Store,
    workspace: &WorkspaceId,
    session: &SessionRef,
) -> Result<SessionRow> {
    let key = SessionKey { workspace: workspace.clone(), id: session.id.clone() };
    store
        .session(&key)
        .await?
        .filter(|row| row.incarnation == session.incarnation)
        .ok_or_else(|| Error::new(ErrorKind::NotFound, "no such session").with("session", &session.id))
}

struct Reader<'a> {
    store: &'a dyn Store,
    workspace: &'a WorkspaceId,
    session: &'a SessionRef,
    leaf: EntryNo,
    newest_first: Vec<Entry>,
    runs: HashMap<RunId, RunState>,
    /// Runs that were looked for, found or not.
    asked: HashSet<RunId>,
    /// Everything from here on was read.
    before: Option<EntryNo>,
    page: u32,
    at_root: bool,
}

impl Reader<'_> {
    /// The oldest number that was read.
    fn oldest(&self) -> Option<EntryNo> {
        self.before
    }

    /// Reads the page before what is there, not beyond `first`.
    async fn read_page(&mut self, first: Option<EntryNo>) -> Result<()> {
        let mut query = EntryQuery::new(self.workspace.clone(), self.session.clone());
        query.path = mutant::either("replay/all-branches", None, Some(PathTo::Entry(self.leaf)));
        query.kinds = KINDS.into_iter().map(EntryKind::new).collect::<Result<_>>()?;
        query.order = Order::Descending;
        query.limit = self.page;
        query.before = self.before;
        query.after = first.and_then(|first| EntryNo::new(first.get() - 1));
        self.page = self.page.saturating_mul(2).min(LARGEST_PAGE);
        let page = self.store.entries(&query).await?;
        let ended = page.next.is_none();
        self.before = page.items.last().map(|entry| entry.number).or(self.before);
        self.newest_first.extend(page.items);
        if ended {
            match first {
                // Everything down to `first` is here, whether or not that entry itself is a message.
                Some(first) => {
                    self.before = Some(first);
                    self.at_root = first == EntryNo::FIRST;
                }
                None => self.at_root = true,
            }
        }
        Ok(())
    }

    /// Reads the states of the runs that the entries name and that are not known yet.
    async fn look_up_runs(&mut self, policy: &ReplayPolicy) -> Result<()> {
        let mut wanted: HashSet<RunId> = self
            .newest_first
            .iter()
            .filter_map(|entry| entry.run.as_ref())
            .filter(|run| !self.asked.contains(*run) && policy.own_run.as_ref() != Some(run))
            .cloned()
            .collect();
        self.asked.extend(wanted.iter().cloned());
        // The newest runs are most likely the ones; once a page names none that is wanted, ask one by one.
        let mut query = RunQuery::new(self.workspace.clone());
        query.session = Some(self.session.clone());
        query.order = Order::Descending;
        while wanted.len() > 4 {
            query.limit = u32::try_from(wanted.len()).unwrap_or(u32::MAX).clamp(64, LARGEST_PAGE);
            let page = self.store.runs(&query).await?;
            let before = wanted.len();
            for run in page.items {
                if wanted.remove(&run.id) {
                    self.runs.insert(run.id, run.state);
                }
            }
            query.cursor = page.next;
            if query.cursor.is_none() || wanted.len() == before {
                break;
            }
        }
        for run in wanted {
            let mut query = RunQuery::new(self.workspace.clone());
            query.session = Some(self.session.clone());
            query.id = Some(run);
            query.limit = 1;
            for run in self.store.runs(&query).await?.items {
                self.runs.insert(run.id, run.state);
            }
        }
        Ok(())
    }

    fn misses_calls(&self, policy: &ReplayPolicy) -> bool {
        let mut entries = self.newest_first.clone();
        entries.reverse();
        select(&entries, &self.runs, policy).misses_calls
    }
}
