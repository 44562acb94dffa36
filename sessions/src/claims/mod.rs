//! Claims of tool calls: whoever claims a key executes the tool, everybody else reads what came of it.
//!
//! A claim lives under the session's lease. One that is running under an earlier holding of that lease belongs to
//! somebody who is gone: it is interrupted. A tool that only looks may then be tried again at once; one that changes
//! something only when a person says so, because nobody knows how far it came.

mod claim;
mod record;
mod state;

use turnkeep_core::commit::{Commit, Op};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{Collection, RecordKey, SessionRef, TurnId};
use turnkeep_core::model::collection;
use turnkeep_core::query::{OwnerFilter, RecordQuery};
use turnkeep_core::{Cursor, Fence, Page, mutant};

pub use claim::{Claim, ClaimTool, Claiming};
pub use record::ClaimRecord;
pub use state::{ClaimState, Effect};

use crate::awaitable::awaitable;
use crate::base::{Base, Repeat};
use crate::session::{Plan, Session};

/// Claims that one commit interrupts at most. More are interrupted in effect, and by the next recovery.
const AT_ONCE: u32 = 500;

/// The claims of a session.
#[derive(Clone, Debug)]
pub struct Claims {
    session: Session,
}

/// A list of claims; await it.
#[derive(Debug)]
#[must_use = "nothing is read until this is awaited"]
pub struct ListClaims {
    session: Session,
    query: Result<RecordQuery>,
}

impl Session {
    /// The claims of its tool calls.
    #[must_use]
    pub fn claims(&self) -> Claims {
        Claims { session: self.clone() }
    }
}

impl Claims {
    /// Claims a tool call by a key, unique in the workspace, before the tool is executed. Await it, or say more first;
    /// see [`ClaimTool`]. Within a run, [`Run::claim`](crate::Run::claim) also records the run.
    ///
    /// # Errors
    /// On await: `Invalid` when this handle neither executes a run nor writes under a lease; `LeaseLost` when somebody
    /// took over.
    pub fn claim(&self, key: impl AsRef<str>) -> ClaimTool {
        let hold = self.session.own_hold().ok_or_else(|| {
            let message = "a claim needs the session's lease: begin a run, or write under a lease";
            Error::new(ErrorKind::Invalid, message).with("session", self.session.id())
        });
        ClaimTool::new(self.session.clone(), key.as_ref(), hold)
    }

    /// The claim with this key, whichever session it belongs to.
    ///
    /// # Errors
    /// `Invalid` or `TooLarge` for a text that can be no key.
    pub async fn get(&self, key: impl AsRef<str>) -> Result<Option<ClaimRecord>> {
        find(self.session.workspace().base(), &RecordKey::new(key)?).await
    }

    /// The claims of this session, in the order in which they were made.
    pub fn list(&self) -> ListClaims {
        let owner = OwnerFilter::Session(self.session.session_ref().clone());
        ListClaims { session: self.session.clone(), query: query(self.session.workspace().base(), owner) }
    }

    /// Lets an interrupted tool call be claimed once more: a person's decision, because it may have had its effect.
    /// Executes nothing.
    ///
    /// # Errors
    /// `NotFound` when this session has no such claim; `VersionConflict` when it is not interrupted; `LeaseHeld` while
    /// somebody else works on the session.
    pub async fn request_retry(&self, key: impl AsRef<str>) -> Result<()> {
        self.decide(key.as_ref(), ClaimState::RetryRequested).await
    }

    /// Gives an interrupted tool call up: it is never executed again. Executes nothing, and makes no result up.
    ///
    /// # Errors
    /// As [`request_retry`](Self::request_retry).
    pub async fn abandon(&self, key: impl AsRef<str>) -> Result<()> {
        self.decide(key.as_ref(), ClaimState::Abandoned).await
    }

    /// Gives every interrupted tool call up, or those of one turn. Answers how many.
    ///
    /// # Errors
    /// `LeaseHeld` while somebody else works on the session; `VersionConflict` when one was decided meanwhile.
    pub async fn abandon_interrupted(&self, turn: Option<&TurnId>) -> Result<u32> {
        let (mut given_up, mut cursor) = (0, None);
        loop {
            let mut list = self.list().state(ClaimState::Interrupted).limit(AT_ONCE);
            if let Some(cursor) = cursor.take() {
                list = list.cursor(cursor);
            }
            let page = list.await?;
            let ops = page
                .items
                .iter()
                .filter(|record| turn.is_none_or(|turn| record.turn.as_ref() == Some(turn)))
                .map(|record| record.moved(ClaimState::Abandoned, |_| {}))
                .collect::<Result<Vec<Op>>>()?;
            if !ops.is_empty() {
                given_up += u32::try_from(ops.len()).unwrap_or(u32::MAX);
                self.session.write(Plan::new(move |_| Ok(ops.clone())).at_any_leaf()).await?;
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(given_up);
            }
        }
    }

    async fn decide(&self, key: &str, to: ClaimState) -> Result<()> {
        let mine = self.session.session_ref();
        let found = self.get(key).await?.filter(|record| record.session == *mine);
        let record = found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "the session has no claim with this key")
                .with("session", self.session.id())
                .with("key", key)
        })?;
        let op = record.moved(to, |_| {})?;
        self.session.write(Plan::new(move |_| Ok(vec![op.clone()])).at_any_leaf()).await.map(drop)
    }
}

impl ListClaims {
    /// Only in this state.
    pub fn state(mut self, state: ClaimState) -> Self {
        self.query = self.query.and_then(|mut query| {
            query.status = Some(state.status()?);
            Ok(query)
        });
        self
    }

    /// At most this many in one page; 100 by default.
    pub fn limit(mut self, limit: u32) -> Self {
        if let Ok(query) = &mut self.query {
            query.limit = limit;
        }
        self
    }

    /// Where a page before ended.
    pub fn cursor(mut self, cursor: Cursor) -> Self {
        if let Ok(query) = &mut self.query {
            query.cursor = Some(cursor);
        }
        self
    }

    async fn go(self) -> Result<Page<ClaimRecord>> {
        if !self.session.is_stored() {
            return Ok(Page::empty());
        }
        let page = self.session.workspace().base().store().records(&self.query?).await?;
        let items = page.items.into_iter().map(ClaimRecord::read).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next, total: page.total })
    }
}
awaitable!(ListClaims => Result<Page<ClaimRecord>>);

fn query(base: &Base, owner: OwnerFilter) -> Result<RecordQuery> {
    let mut query = RecordQuery::new(base.workspace().clone(), Collection::new(collection::TOOL_CLAIMS)?);
    query.owner = owner;
    Ok(query)
}

async fn find(base: &Base, key: &RecordKey) -> Result<Option<ClaimRecord>> {
    let mut query = query(base, OwnerFilter::Any)?;
    query.key = Some(key.clone());
    query.limit = 1;
    base.store().records(&query).await?.items.into_iter().next().map(ClaimRecord::read).transpose()
}

/// Whether a claim that is said to run belongs to an earlier holder of the lease that one holds.
fn interrupted_in_effect(record: &ClaimRecord, mine: &SessionRef, epoch: u64) -> bool {
    record.state == ClaimState::Running && record.session == *mine && record.epoch != epoch
}

/// The claims that are said to run: of a session, or of all sessions.
pub(crate) async fn running(base: &Base, session: Option<&SessionRef>) -> Result<Vec<ClaimRecord>> {
    let owner = session.cloned().map_or(OwnerFilter::Any, OwnerFilter::Session);
    let mut query = query(base, owner)?;
    query.status = Some(ClaimState::Running.status()?);
    query.limit = AT_ONCE;
    base.store().records(&query).await?.items.into_iter().map(ClaimRecord::read).collect()
}

/// The ops that interrupt claims, for whoever holds the lease of their session.
pub(crate) fn interrupt_ops(claims: &[ClaimRecord]) -> Result<Vec<Op>> {
    if mutant::is("claims/left-running") {
        return Ok(Vec::new());
    }
    claims.iter().map(|claim| claim.moved(ClaimState::Interrupted, |_| {})).collect()
}

/// Interrupts what is said to run in a session, under its lease, and gives the lease back.
pub(crate) async fn interrupt_left_behind(
    base: &Base,
    session: &SessionRef,
    fences: Vec<Fence>,
) -> Result<Vec<ClaimRecord>> {
    let claims = running(base, Some(session)).await?;
    let mut commit =
        Commit::new(base.workspace().clone()).request(base.request_in_session(Repeat::default(), session)?);
    commit.ops = interrupt_ops(&claims)?;
    commit.ops.extend(fences.iter().map(|fence| Op::ReleaseLease { fence: fence.clone() }));
    commit.fences = fences;
    base.commit(commit).await?;
    Ok(claims)
}
