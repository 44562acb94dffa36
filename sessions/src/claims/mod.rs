//! Claims of tool calls: whoever claims a key executes the tool, everybody else reads what came of it.
//!
//! A claim lives under the session's lease. One that is running under an earlier holding of that lease belongs to
//! somebody who is gone: it is interrupted. A tool that only looks may then be tried again at once; one that changes
//! something only when a person says so, because nobody knows how far it came.

mod claim;
mod record;
mod state;

use std::collections::BTreeSet;

use turnkeep_core::commit::{Commit, Op};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{RecordKey, SessionRef, TurnId};
use turnkeep_core::model::{Record, collection};
use turnkeep_core::query::RecordQuery;
use turnkeep_core::{Fence, Page, mutant};

pub use claim::{Claim, ClaimTool, Claiming};
pub use record::ClaimRecord;
pub use state::{ClaimState, Effect};

use crate::awaitable::awaitable;
use crate::base::{Base, Repeat};
use crate::paged::{Asked, paged};
use crate::session::{Plan, Session};
use crate::state::records;
use claim::epoch_of;

/// Claims of one page of a walk.
const PAGE: u32 = 1_000;

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
    state: Option<ClaimState>,
    page: Asked,
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

    /// The claim with this key, whichever session it belongs to, as it is recorded: one whose executor is gone is said to
    /// run until a recovery, a person or somebody who claims it finds that out.
    ///
    /// # Errors
    /// `Invalid` or `TooLarge` for a text that can be no key.
    pub async fn get(&self, key: impl AsRef<str>) -> Result<Option<ClaimRecord>> {
        find(self.session.workspace().base(), &RecordKey::new(key)?).await
    }

    /// The claims of this session, in the order in which they were made.
    pub fn list(&self) -> ListClaims {
        ListClaims { session: self.session.clone(), state: None, page: Asked::default() }
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
        let mut given_up = 0;
        for state in [ClaimState::Interrupted, ClaimState::Running] {
            let mut cursor = None;
            loop {
                let mut list = self.list().state(state).limit(records::AT_ONCE);
                list.page.cursor = cursor.take();
                let page = list.await?;
                let ops = page
                    .items
                    .into_iter()
                    .map(|record| self.in_effect(record))
                    .filter(|record| record.state == ClaimState::Interrupted)
                    .filter(|record| turn.is_none_or(|turn| record.turn.as_ref() == Some(turn)))
                    .map(|record| record.moved(ClaimState::Abandoned, |_| {}))
                    .collect::<Result<Vec<Op>>>()?;
                if !ops.is_empty() {
                    given_up += u32::try_from(ops.len()).unwrap_or(u32::MAX);
                    self.session.write(Plan::new(move |_| Ok(ops.clone())).at_any_leaf()).await?;
                }
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok(given_up)
    }

    async fn decide(&self, key: &str, to: ClaimState) -> Result<()> {
        let mine = self.session.session_ref();
        let found = self.get(key).await?.filter(|record| record.session == *mine);
        let record = found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "the session has no claim with this key")
                .with("session", self.session.id())
                .with("key", key)
        })?;
        let op = self.in_effect(record).moved(to, |_| {})?;
        self.session.write(Plan::new(move |_| Ok(vec![op.clone()])).at_any_leaf()).await.map(drop)
    }

    /// A claim as it stands for whoever may write to the session now. The commit is refused if that is not us.
    fn in_effect(&self, record: ClaimRecord) -> ClaimRecord {
        let mine = self.session.session_ref();
        let epoch = self.session.own_hold().and_then(|hold| epoch_of(&hold, mine).ok());
        record.in_effect(mine, epoch)
    }
}

impl ListClaims {
    /// Only in this state.
    pub fn state(mut self, state: ClaimState) -> Self {
        self.state = Some(state);
        self
    }

    async fn go(self) -> Result<Page<ClaimRecord>> {
        let Self { session, state, page } = self;
        let status = state.map(ClaimState::status).transpose()?;
        let page = records::owned(&session, collection::TOOL_CLAIMS, |query| {
            query.status = status;
            (query.order, query.limit, query.cursor) = page.parts();
        })
        .await?;
        Ok(Page { items: read_all(page.items)?, next: page.next, total: page.total })
    }
}
paged!(ListClaims.page);
awaitable!(ListClaims => Result<Page<ClaimRecord>>);

fn read_all(records: Vec<Record>) -> Result<Vec<ClaimRecord>> {
    records.into_iter().map(ClaimRecord::read).collect()
}

async fn find(base: &Base, key: &RecordKey) -> Result<Option<ClaimRecord>> {
    records::by_key(base, collection::TOOL_CLAIMS, key.clone()).await?.map(ClaimRecord::read).transpose()
}

/// The claims of a session that are said to run, as many as one commit may change.
pub(crate) async fn running(base: &Base, session: &SessionRef) -> Result<Vec<ClaimRecord>> {
    let status = ClaimState::Running.status()?;
    let narrow = |query: &mut RecordQuery| {
        query.status = Some(status);
        query.limit = records::AT_ONCE;
    };
    read_all(records::owned_by(base, session, collection::TOOL_CLAIMS, narrow).await?.items)
}

/// The sessions with claims that are said to run.
pub(crate) async fn sessions_at_work(base: &Base) -> Result<BTreeSet<SessionRef>> {
    let mut query = records::query(base, collection::TOOL_CLAIMS)?;
    query.status = Some(ClaimState::Running.status()?);
    query.limit = PAGE;
    let mut sessions = BTreeSet::new();
    loop {
        let page = base.store().records(&query).await?;
        sessions.extend(page.items.into_iter().filter_map(|record| record.owner));
        query.cursor = page.next;
        if query.cursor.is_none() {
            return Ok(sessions);
        }
    }
}

/// The ops that interrupt claims, for whoever holds the lease of their session.
pub(crate) fn interrupt_ops(claims: &[ClaimRecord]) -> Result<Vec<Op>> {
    if mutant::is("claims/left-running") {
        return Ok(Vec::new());
    }
    claims.iter().map(|claim| claim.moved(ClaimState::Interrupted, |_| {})).collect()
}

/// Interrupts what is said to run in a session, under its lease if somebody else could have it.
pub(crate) async fn interrupt_left_behind(
    base: &Base,
    session: &SessionRef,
    fences: &[Fence],
) -> Result<Vec<ClaimRecord>> {
    let mut interrupted = Vec::new();
    loop {
        let claims = running(base, session).await?;
        let last = claims.len() < records::AT_ONCE as usize || mutant::is("claims/left-running");
        let mut commit = Commit::new(base.workspace().clone())
            .request(base.request_in_session(Repeat::default(), session)?);
        commit.ops = interrupt_ops(&claims)?;
        commit.fences = fences.to_vec();
        if !commit.ops.is_empty() {
            base.commit(commit).await?;
        }
        interrupted.extend(claims);
        if last {
            return Ok(interrupted);
        }
    }
}

/// Interrupts what the last commit of a holder had no room for, `named` being what it had. The lease is given back by
/// then, so that they count as interrupted in any case; whoever comes next may be faster.
pub(crate) async fn interrupt_rest(base: &Base, session: &SessionRef, named: usize) -> Vec<ClaimRecord> {
    if named < records::AT_ONCE as usize {
        return Vec::new();
    }
    interrupt_left_behind(base, session, &[]).await.unwrap_or_default()
}
