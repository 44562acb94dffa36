//! A store that fails as told, for testing what a host does then.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use turnkeep_core::commit::{Commit, Op, Receipt};
use turnkeep_core::dice::Dice;
use turnkeep_core::model::{Entry, Event, LeaseKey, LeaseView, Record, Row, Run, SessionRow};
use turnkeep_core::query::{
    EntryQuery, EventQuery, Mark, Page, RecordQuery, RowQuery, RunQuery, Scope, SearchHit, SearchQuery,
    SessionQuery,
};
use turnkeep_core::{Error, ErrorKind, Maintenance, Result, SessionKey, Store, StoreInfo};

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: it goes through.
    Pass,
    /// Nothing is done; the caller is answered this error.
    Before(ErrorKind),
    /// It is done, and the caller is answered this error all the same, such as `CommitUnknown` or `Io`. What the store
    /// refuses is answered as the store says.
    After(ErrorKind),
    /// It is done after this time, by the clock of tokio, which a test can stop. Needs a tokio runtime with a clock.
    Delay(Duration),
    /// Its future is polled so many times and then dropped; if it was not done by then, the caller is answered
    /// `CommitUnknown`, for a read `Io`. Polled 0 times it never begins.
    Drop {
        /// The last poll.
        polls: usize,
    },
    /// The answer never comes: the caller has to give up by itself.
    Silence {
        /// Whether it is done.
        done: bool,
    },
}

/// A call, before it is made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Call<'a> {
    /// `Store::commit`.
    Commit(&'a Commit),
    /// `Store::session`.
    Session(&'a SessionKey),
    /// `Store::sessions`.
    Sessions(&'a SessionQuery),
    /// `Store::entries`.
    Entries(&'a EntryQuery),
    /// `Store::runs`.
    Runs(&'a RunQuery),
    /// `Store::events`.
    Events(&'a EventQuery),
    /// `Store::records`.
    Records(&'a RecordQuery),
    /// `Store::lease`.
    Lease(&'a LeaseKey),
    /// `Store::search`.
    Search(&'a SearchQuery),
    /// `Store::rows`.
    Rows(&'a RowQuery),
    /// `Store::changes`.
    Changes(&'a Scope),
}

/// A commit that came by, and what became of it.
#[derive(Clone, Debug)]
pub struct Noted {
    /// The commit.
    pub commit: Commit,
    /// What was to happen to it.
    pub fault: Fault,
    /// Whether it was done, as far as the wrapper saw: `None` when its future was dropped under way, and while it is
    /// still under way.
    pub done: Option<bool>,
}

type Plan = Box<dyn FnMut(&Call<'_>) -> Fault + Send>;

/// A store that does what another one does, and fails as told: by a script, by a rule, or as a seed draws it. Nothing
/// depends on chance or time, so a test fails the same way every time.
///
/// A script meets the next commits in turn; reads, and commits that only renew leases, pass by it, because nobody knows
/// when a heartbeat comes. Without a script for a call, the rule is asked.
///
/// What a host's own retry has to do, tested: the first commit is applied and its answer lost, and repeating it with
/// the same request id lands once.
///
/// ```
/// # use std::sync::Arc;
/// # use turnkeep_core::{ErrorKind, Store, WorkspaceId};
/// # use turnkeep_memory::MemoryStore;
/// # use turnkeep_sessions::testing::{Fault, FaultStore};
/// # use turnkeep_sessions::{Message, WorkspaceOptions};
/// # async fn example() -> turnkeep_core::Result<()> {
/// let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
/// let ws = WorkspaceOptions::default().open(store.clone(), WorkspaceId::new("w")?).await?;
/// let session = ws.sessions().create().await?;
///
/// // The library repeats an unknown commit by itself, so this one stays unknown for longer than it tries.
/// store.next([Fault::After(ErrorKind::CommitUnknown); 4]);
/// let lost = session.append([Message::user("pay the bill")]).request_id("bill-7").await;
/// assert_eq!(lost.unwrap_err().kind(), ErrorKind::CommitUnknown);
///
/// // The host tries again later, with the same id: it is there once.
/// session.append([Message::user("pay the bill")]).request_id("bill-7").await?;
/// assert_eq!(session.info().await?.messages, 1);
/// # Ok(()) }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub struct FaultStore {
    inner: Arc<dyn Store>,
    state: Mutex<State>,
}

struct State {
    script: VecDeque<Fault>,
    plan: Option<Plan>,
    log: Vec<Noted>,
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl FaultStore {
    /// A store that fails at nothing yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> Self {
        let state = State { script: VecDeque::new(), plan: None, log: Vec::new() };
        Self { inner, state: Mutex::new(state) }
    }

    /// What happens to the next commits, one each.
    pub fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state().script.extend(faults);
    }

    /// What happens to every call that no script meets. Replaces the rule before.
    pub fn when(&self, rule: impl FnMut(&Call<'_>) -> Fault + Send + 'static) {
        self.state().plan = Some(Box::new(rule));
    }

    /// Lets so many of a hundred commits fail, in ways that a seed draws: refused as busy, unknown before or after they
    /// are done, or dropped at one of their first polls. The nth commit of one seed always meets the same.
    pub fn seeded(&self, seed: u64, percent: u8) {
        let mut dice = Dice::new(seed);
        self.when(move |call| {
            let Call::Commit(commit) = call else { return Fault::Pass };
            if is_heartbeat(commit) {
                return Fault::Pass;
            }
            let drawn = dice.next();
            if drawn % 100 >= u64::from(percent) {
                return Fault::Pass;
            }
            match (drawn >> 8) % 4 {
                0 => Fault::Before(ErrorKind::Busy),
                1 => Fault::Before(ErrorKind::CommitUnknown),
                2 => Fault::After(ErrorKind::CommitUnknown),
                _ => Fault::Drop { polls: usize::from((drawn >> 16) as u8 % 3) },
            }
        });
    }

    /// Fails at nothing any more.
    pub fn heal(&self) {
        let mut state = self.state();
        state.script.clear();
        state.plan = None;
    }

    /// Every commit that came by so far, in the order in which they came.
    #[must_use]
    pub fn log(&self) -> Vec<Noted> {
        self.state().log.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, call: &Call<'_>) -> Fault {
        let mut state = self.state();
        if let Call::Commit(commit) = call
            && !is_heartbeat(commit)
            && let Some(fault) = state.script.pop_front()
        {
            return fault;
        }
        state.plan.as_mut().map_or(Fault::Pass, |plan| plan(call))
    }

    /// A read, as its fault has it.
    async fn read<T>(&self, call: Call<'_>, read: impl Future<Output = Result<T>>) -> Result<T> {
        match self.fault(&call) {
            Fault::Pass => read.await,
            Fault::Before(kind) => Err(told(kind)),
            Fault::After(kind) => {
                read.await?;
                Err(told(kind))
            }
            Fault::Delay(time) => {
                tokio::time::sleep(time).await;
                read.await
            }
            Fault::Drop { polls } => polled(read, polls).await.unwrap_or_else(|| Err(told(ErrorKind::Io))),
            Fault::Silence { done } => {
                if done {
                    let _ = read.await;
                }
                pending().await
            }
        }
    }
}

/// Nobody knows when a heartbeat comes, so no script may count on it.
fn is_heartbeat(commit: &Commit) -> bool {
    commit.ops.iter().all(|op| matches!(op, Op::RenewLease { .. }))
}

fn told(kind: ErrorKind) -> Error {
    Error::new(kind, "a test asked for this failure")
}

/// Polls a future at most so often and drops it. `None` if it was not done by then.
async fn polled<F: Future>(future: F, most: usize) -> Option<F::Output> {
    if most == 0 {
        return None;
    }
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(move |task| {
        polls += 1;
        match future.as_mut().poll(task) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls >= most => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for FaultStore {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let fault = self.fault(&Call::Commit(&commit));
        let at = {
            let mut state = self.state();
            state.log.push(Noted { commit: commit.clone(), fault, done: None });
            state.log.len() - 1
        };
        let note = |done: bool| {
            if let Some(noted) = self.state().log.get_mut(at) {
                noted.done = Some(done);
            }
        };
        let made = async {
            let answer = self.inner.commit(commit).await;
            // What the store itself does not know, nobody knows.
            if !matches!(&answer, Err(error) if error.kind() == ErrorKind::CommitUnknown) {
                note(answer.is_ok());
            }
            answer
        };
        match fault {
            Fault::Pass => made.await,
            Fault::Before(kind) => {
                note(false);
                Err(told(kind))
            }
            Fault::After(kind) => {
                made.await?;
                Err(told(kind))
            }
            Fault::Delay(time) => {
                tokio::time::sleep(time).await;
                made.await
            }
            Fault::Drop { polls } => {
                let answer = polled(made, polls).await;
                if polls == 0 {
                    note(false);
                }
                answer.unwrap_or_else(|| Err(told(ErrorKind::CommitUnknown)))
            }
            Fault::Silence { done } => {
                if done {
                    let _ = made.await;
                } else {
                    note(false);
                }
                pending().await
            }
        }
    }

    async fn session(&self, key: &SessionKey) -> Result<Option<SessionRow>> {
        self.read(Call::Session(key), self.inner.session(key)).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionRow>> {
        self.read(Call::Sessions(query), self.inner.sessions(query)).await
    }

    async fn entries(&self, query: &EntryQuery) -> Result<Page<Entry>> {
        self.read(Call::Entries(query), self.inner.entries(query)).await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Page<Run>> {
        self.read(Call::Runs(query), self.inner.runs(query)).await
    }

    async fn events(&self, query: &EventQuery) -> Result<Page<Event>> {
        self.read(Call::Events(query), self.inner.events(query)).await
    }

    async fn records(&self, query: &RecordQuery) -> Result<Page<Record>> {
        self.read(Call::Records(query), self.inner.records(query)).await
    }

    async fn lease(&self, key: &LeaseKey) -> Result<Option<LeaseView>> {
        self.read(Call::Lease(key), self.inner.lease(key)).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<Page<SearchHit>> {
        self.read(Call::Search(query), self.inner.search(query)).await
    }

    async fn rows(&self, query: &RowQuery) -> Result<Page<Row>> {
        self.read(Call::Rows(query), self.inner.rows(query)).await
    }

    async fn changes(&self, scope: &Scope, since: Mark) -> Result<Mark> {
        self.read(Call::Changes(scope), self.inner.changes(scope, since)).await
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        self.inner.maintenance()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
