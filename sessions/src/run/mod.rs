//! The handle of a run: what a host does between a person's message and the model's answer.

mod begin;
mod care;
pub(crate) mod close;
mod error;
mod finish;
mod intent;
pub(crate) mod partial;
mod takeup;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turnkeep_core::commit::{Fingerprint, NewEvent, Op, Outcome, RequestId, RunPatch};
use turnkeep_core::digest::FieldDigest;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EventKind, RunId, StreamName, TurnId};
use turnkeep_core::model::{RunState, RunStates, stream};
use turnkeep_core::{Payload, Timestamp, mutant};

pub use begin::{Admission, BeginRun};
pub use error::RunError;
pub use finish::Complete;
pub use intent::Intent;
pub use takeup::TakeUp;
pub(crate) use takeup::turn_of;

use crate::awaitable::awaitable;
use crate::base::Repeat;
use crate::claims::{self, ClaimRecord, ClaimTool};
use crate::draft::{Draft, meaning};
use crate::lease::{Hold, LossSignal};
use crate::redact::Tail;
use crate::session::{Appended, Plan, Session, Written, append_ops, settle_titles};
use crate::state::ModelRequest;

/// A run that this handle executes.
///
/// Its lease is renewed in the background; [`signal`](Self::signal) tells when it is lost, and every later write is
/// refused then. A run that is dropped unfinished is closed as `interrupted` in the background.
#[derive(Debug)]
pub struct Run {
    session: Session,
    id: RunId,
    turn: TurnId,
    local: Mutex<Local>,
}

#[derive(Debug)]
struct Local {
    hold: Arc<Hold>,
    stage: Stage,
    /// The number of the next piece of streamed text; `None` if it has to be looked up.
    next_piece: Option<u64>,
    /// The end of that text, as long as a redactor cannot judge it.
    tail: Tail,
}

/// Where the run stands, as this handle knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Pending,
    Running,
    Cancelling,
    Waiting,
    Over,
}

/// What a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingFor {
    /// A person's approval.
    Approval,
    /// A person's input.
    Input,
}

impl Run {
    pub(crate) fn new(
        session: Session,
        id: RunId,
        turn: TurnId,
        hold: Arc<Hold>,
        stage: Stage,
        goes_on: bool,
    ) -> Self {
        // One that goes on may have streamed text before.
        let next_piece = (!goes_on).then_some(1);
        let local = Local { hold, stage, next_piece, tail: Tail::default() };
        Self { session, id, turn, local: Mutex::new(local) }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// The turn that it executes.
    #[must_use]
    pub fn turn(&self) -> &TurnId {
        &self.turn
    }

    /// Its session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The run as it is stored now.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn info(&self) -> Result<turnkeep_core::model::Run> {
        self.session.runs().get(&self.id).await
    }

    /// Tells when the lease is lost: somebody took the session over or deleted it. Cancel the work then.
    #[must_use]
    pub fn signal(&self) -> LossSignal {
        self.local().hold.signal()
    }

    /// Ends when the lease is lost; for `select!` beside the work.
    pub async fn lost(&self) {
        self.signal().lost().await;
    }

    /// Whether the lease is lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.local().hold.is_lost()
    }

    /// Appends entries of this run, such as a model's words with tool calls, or the results of tools. Await it.
    ///
    /// # Errors
    /// On await: `LeaseLost` when somebody took over; `StaleLeaf` when the leaf was moved; `RunState` when the run is
    /// over or waits.
    pub fn append<D: Into<Draft>>(&self, drafts: impl IntoIterator<Item = D>) -> RunAppend<'_> {
        RunAppend {
            run: self,
            drafts: drafts.into_iter().map(Into::into).collect(),
            usage: None,
            request: Ok(None),
        }
    }

    /// Keeps a piece of text as it streams in. The first MiB of it is shown if the run is never completed, and it is never
    /// replayed. Needs no
    /// request id: a repeat of the newest piece changes nothing.
    ///
    /// A redactor of the workspace holds the end back until it can judge it, by default up to the end of the line; a
    /// process that is killed loses that much.
    ///
    /// # Errors
    /// `LeaseLost` when somebody took over; `Invalid` for an empty piece; `RunState` when the run is over or waits.
    pub async fn stream(&self, text: &str) -> Result<()> {
        partial::refuse_empty(text)?;
        let redaction = self.session.workspace().base().redaction();
        let (settled, tail) = self.local().tail.add(redaction, text);
        if !settled.is_empty() {
            self.keep_piece(&settled).await?;
        } else {
            self.at_work()?;
        }
        self.local().tail = tail;
        Ok(())
    }

    /// Stores a piece of streamed text.
    async fn keep_piece(&self, text: &str) -> Result<()> {
        let (hold, _) = self.at_work()?;
        let known = self.local().next_piece;
        let next = match known {
            Some(next) => next,
            None => self.next_piece().await?,
        };
        let event = NewEvent {
            kind: EventKind::new(partial::PIECE)?,
            run: Some(self.id.clone()),
            at: self.session.workspace().now(),
            payload: partial::piece(text)?,
        };
        let op = Op::AppendEvents {
            session: self.session.session_ref().clone(),
            stream: partial::stream_of(&self.turn)?,
            expect_next: Some(next),
            events: vec![event],
        };
        // Unknown until the answer is there: a dropped future may have appended it.
        self.local().next_piece = None;
        let plan = Plan::new(move |_| Ok(vec![op.clone()])).hold(hold).at_any_leaf().safe_by_itself();
        self.session.write(plan).await?;
        self.local().next_piece = next.checked_add(1);
        Ok(())
    }

    /// Claims a tool call by a key, unique in the workspace, before the tool is executed: one caller wins, the others
    /// read what came of it. Await it, or say more first; see [`ClaimTool`].
    ///
    /// # Errors
    /// On await: `LeaseLost` when somebody took over; `RunState` when the run is over or waits.
    pub fn claim(&self, key: impl AsRef<str>) -> ClaimTool {
        let hold = self.at_work().map(|(hold, _)| hold);
        ClaimTool::new(self.session.clone(), key.as_ref(), hold).of_run(self.id.clone(), self.turn.clone())
    }

    /// Notes something that happened in the run, in the log of the session's runs. Answers the number of the event. The
    /// kinds of turnkeep's own events begin with `run_`.
    ///
    /// # Errors
    /// `LeaseLost` when somebody took over; `RunState` when the run is over or waits; `Invalid` for a kind of ours.
    pub async fn note(&self, kind: &str, payload: Payload) -> Result<u64> {
        if kind.starts_with(close::OWN_EVENTS) {
            let message =
                "events whose kind begins with `run_` tell of the run's own life; choose another kind";
            return Err(Error::new(ErrorKind::Invalid, message).with("kind", kind));
        }
        let (session, id, kind) =
            (self.session.session_ref().clone(), self.id.clone(), EventKind::new(kind)?);
        let ops = move |now| {
            let event = NewEvent {
                kind: kind.clone(),
                run: Some(id.clone()).filter(|_| !mutant::is("runs/note-of-no-run")),
                at: now,
                payload: payload.clone(),
            };
            let (session, stream) = (session.clone(), StreamName::new(stream::RUNS)?);
            Ok(vec![Op::AppendEvents { session, stream, expect_next: None, events: vec![event] }])
        };
        let written = self.work(ops, Repeat::default(), false).await?;
        match written.receipt.outcomes.get(written.first) {
            Some(Outcome::Events { last, .. }) => Ok(*last),
            _ => Err(Error::new(ErrorKind::Corrupt, "the receipt of the note names no event")),
        }
    }

    /// Says how far it is, how full the context is, or which model it uses by now.
    ///
    /// # Errors
    /// `LeaseLost` when somebody took over; `RunState` when the run is over or waits.
    pub async fn patch(&self, patch: RunPatch) -> Result<()> {
        let op = Op::PatchRun { session: self.session.session_ref().clone(), run: self.id.clone(), patch };
        self.work(move |_| Ok(vec![op.clone()]), Repeat::default(), false).await.map(drop)
    }

    /// Notes in the [audit log](crate::audit) which phase of its execution the run is in, such as `calling the model`.
    /// Stores nothing; without a log it does nothing.
    pub fn phase(&self, phase: &'static str) {
        self.session.workspace().audit().phase(self.session.id(), &self.id, phase);
    }

    /// Keeps what a request to a model consumed: as an event, and in the counters of the run and its session.
    ///
    /// # Errors
    /// `LeaseLost` when somebody took over; `RunState` when the run is over or waits.
    pub async fn add_usage(&self, request: impl Into<ModelRequest> + Send) -> Result<()> {
        let (session, run, request) = (self.session.session_ref(), &self.id, request.into());
        let ops = move |now| request.ops(session, Some(run), now);
        self.work(ops, Repeat::default(), false).await.map(drop)
    }

    /// Records that the run was asked to stop, while it still winds down.
    ///
    /// # Errors
    /// `LeaseLost` when somebody took over; `RunState` when the run is over or waits.
    pub async fn cancelling(&self) -> Result<()> {
        let (session, id) = (self.session.session_ref().clone(), self.id.clone());
        let from = RunStates::of(&[RunState::Running]);
        let op = Op::TransitionRun { session, run: id, from, to: RunState::Cancelling, error: None };
        self.work(move |_| Ok(vec![op.clone()]), Repeat::default(), false).await?;
        self.local().stage = Stage::Cancelling;
        Ok(())
    }

    /// Lets the run wait for a person and gives the lease back: nothing has to live until the answer comes. Dropping
    /// the handle leaves the run waiting. Go on with [`resume`](Self::resume), or later, in any process, with
    /// [`Session::resume_run`].
    ///
    /// # Errors
    /// `LeaseLost` when somebody took over; `RunState` when the run is over or waits already.
    pub async fn wait_for(&self, what: WaitingFor) -> Result<()> {
        if let Some(rest) = self.tail() {
            self.keep_piece(&rest).await?;
            self.local().tail = Tail::default();
        }
        let (hold, _) = self.at_work()?;
        let state = match what {
            WaitingFor::Approval => RunState::WaitingApproval,
            WaitingFor::Input => RunState::WaitingInput,
        };
        let (session, id, turn) = (self.session.session_ref().clone(), self.id.clone(), self.turn.clone());
        let fences = hold.fences().to_vec();
        let left = self.claims_left().await?;
        let named = left.len();
        // Nobody executes a tool while the run waits: the lease that protects a claim is given back.
        let ops = move |now| {
            let mut ops = claims::interrupt_ops(&left)?;
            ops.extend(takeup::wait_ops(&session, &id, &turn, state, &fences, now)?);
            Ok(ops)
        };
        self.work(ops, Repeat::default(), false).await?;
        hold.given();
        self.local().stage = Stage::Waiting;
        self.session.rest(&self.id);
        self.interrupt_rest(named).await;
        Ok(())
    }

    /// Goes on after waiting: takes the lease again.
    ///
    /// # Errors
    /// `LeaseHeld` when somebody else works on the session; `StaleLeaf` when it went on meanwhile; `RunState` when the
    /// run does not wait (any more).
    pub async fn resume(&self) -> Result<()> {
        if self.local().stage != Stage::Waiting {
            return Err(self.not_at_work("only a run that waits can be resumed"));
        }
        let waited = self.info().await?.state;
        let hold = takeup::take_up(&self.session, &self.id, self.turn.clone(), None, Some(waited)).await?;
        let mut local = self.local();
        local.hold = hold;
        local.stage = Stage::Running;
        Ok(())
    }

    /// The end of a streamed text that nothing follows any more, if it was held back.
    fn tail(&self) -> Option<String> {
        self.local().tail.end(self.session.workspace().base().redaction())
    }

    /// The claims of the session that are still said to run, as many as one commit may change.
    async fn claims_left(&self) -> Result<Vec<ClaimRecord>> {
        if !self.local().hold.has_claims() {
            return Ok(Vec::new());
        }
        claims::running(self.session.workspace().base(), self.session.session_ref()).await
    }

    /// Interrupts what the commit that gave the lease back had no room for.
    async fn interrupt_rest(&self, named: usize) {
        claims::interrupt_rest(self.session.workspace().base(), self.session.session_ref(), named).await;
    }

    /// A write of a run at work; the first one also says that it runs. One that `continues` the conversation depends on
    /// the leaf.
    async fn work<F>(&self, ops: F, repeat: Repeat, continues: bool) -> Result<Written>
    where
        F: Fn(Timestamp) -> Result<Vec<Op>>,
    {
        match self.work_once(&ops, repeat.clone(), continues).await {
            // An earlier write whose answer was lost has said so already.
            Err(error) if error.kind() == ErrorKind::RunState && self.local().stage == Stage::Pending => {
                if self.info().await?.state != RunState::Running {
                    return Err(error);
                }
                self.local().stage = Stage::Running;
                self.work_once(&ops, repeat, continues).await
            }
            written => written,
        }
    }

    async fn work_once<F>(&self, ops: &F, repeat: Repeat, continues: bool) -> Result<Written>
    where
        F: Fn(Timestamp) -> Result<Vec<Op>>,
    {
        let (hold, stage) = self.at_work()?;
        let (session, id) = (self.session.session_ref().clone(), self.id.clone());
        let starts = stage == Stage::Pending;
        let plan = Plan::new(|now| {
            let mut all = Vec::new();
            if starts {
                let from = RunStates::of(&[RunState::Pending]);
                let (session, run) = (session.clone(), id.clone());
                all.push(Op::TransitionRun { session, run, from, to: RunState::Running, error: None });
            }
            all.extend(ops(now)?);
            Ok(all)
        });
        let plan = if continues { plan } else { plan.at_any_leaf() };
        let mut written = self.session.write(plan.repeat(repeat).hold(hold)).await?;
        written.first += usize::from(starts);
        let mut local = self.local();
        if local.stage == Stage::Pending {
            local.stage = Stage::Running;
        }
        Ok(written)
    }

    /// The lease of a run that is at work.
    fn at_work(&self) -> Result<(Arc<Hold>, Stage)> {
        let (hold, stage) = {
            let local = self.local();
            (local.hold.clone(), local.stage)
        };
        match stage {
            Stage::Over => Err(self.not_at_work("the run is over")),
            Stage::Waiting => Err(self.not_at_work("the run waits; resume it first")),
            Stage::Pending | Stage::Running | Stage::Cancelling => {
                hold.check().map_err(|error| error.with("run", &self.id))?;
                Ok((hold, stage))
            }
        }
    }

    fn not_at_work(&self, message: &str) -> Error {
        Error::new(ErrorKind::RunState, message).with("session", self.session.id()).with("run", &self.id)
    }

    /// The number that the next piece of text gets, as the store knows it.
    async fn next_piece(&self) -> Result<u64> {
        let newest = self.session.newest_event(partial::stream_of(&self.turn)?.as_str()).await?;
        Ok(newest.saturating_add(1))
    }

    fn local(&self) -> MutexGuard<'_, Local> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Entries of a run to be appended; await it.
#[derive(Debug)]
#[must_use = "nothing is appended until this is awaited"]
pub struct RunAppend<'r> {
    run: &'r Run,
    drafts: Vec<Draft>,
    usage: Option<ModelRequest>,
    request: Result<Option<RequestId>>,
}

impl RunAppend<'_> {
    /// Keeps what the request to the model consumed, in the same commit.
    pub fn usage(mut self, request: impl Into<ModelRequest>) -> Self {
        self.usage = Some(request.into());
        self
    }

    /// Makes the append safe to repeat from anywhere.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request = RequestId::host(id).map(Some);
        self
    }

    async fn go(self) -> Result<Appended> {
        let request = self.request?;
        if self.drafts.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "there is nothing to append"));
        }
        let (mut drafts, run) = (self.drafts, self.run);
        settle_titles(&run.session, &mut drafts).await?;
        // Not the digest of the commit: only the first write of a run says that it runs.
        let fingerprint = request
            .is_some()
            .then(|| {
                let digest = FieldDigest::new("run-append/1").text(run.id.as_str());
                let redaction = run.session.workspace().base().redaction();
                Ok(meaning(digest, &drafts, redaction)?.finish())
            })
            .transpose()?
            .map(Fingerprint::from_bytes);
        let usage = self.usage;
        let written = run
            .work(
                move |now| {
                    let session = run.session.session_ref();
                    let mut ops = append_ops(session, &drafts, now, Some(&run.id), Some(&run.turn))?;
                    if let Some(usage) = &usage {
                        ops.extend(usage.ops(session, Some(&run.id), now)?);
                    }
                    Ok(ops)
                },
                Repeat { id: request, fingerprint },
                true,
            )
            .await?;
        Ok(Appended::read(&written, written.first))
    }
}
awaitable!(RunAppend<'r> => Result<Appended>);
