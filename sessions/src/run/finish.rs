//! The ends of a run.

use std::sync::Arc;

use turnkeep_core::commit::{Fingerprint, RequestId};
use turnkeep_core::digest::FieldDigest;
use turnkeep_core::error::{ErrorKind, Result};
use turnkeep_core::model::RunState;
use turnkeep_core::mutant;

use super::care::{Ending, dropped, end_in_background};
use super::close::{Closing, Verdict};
use super::{Run, RunError, Stage, partial};
use crate::awaitable::awaitable;
use crate::base::Repeat;
use crate::draft::{Compaction, Draft, meaning};
use crate::lease::Hold;
use crate::session::{Plan, settle_titles};
use crate::state::ModelRequest;

/// How often the end of a run is tried again because one of its tools ended at the same time.
const CLAIM_TRIES: u32 = 20;

/// The completion of a run; await it.
#[derive(Debug)]
#[must_use = "nothing is completed until this is awaited"]
pub struct Complete<'r> {
    run: &'r Run,
    drafts: Vec<Draft>,
    usage: Option<ModelRequest>,
    stop_reason: Option<String>,
    request: Result<Option<RequestId>>,
}

impl Run {
    /// Completes the run: its last entries, the completed state, the end of the turn, the event and the release of
    /// the lease are one commit. Await it.
    ///
    /// A refusal leaves the run as it was; it can be completed or failed again.
    ///
    /// # Errors
    /// On await: `LeaseLost` when somebody took over; `RunState` when it is over already; `StaleLeaf` when the leaf was
    /// moved; `Invalid` or `TooLarge` before anything is written.
    pub fn complete<D: Into<Draft>>(&self, drafts: impl IntoIterator<Item = D>) -> Complete<'_> {
        Complete {
            run: self,
            drafts: drafts.into_iter().map(Into::into).collect(),
            usage: None,
            stop_reason: None,
            request: Ok(None),
        }
    }

    /// Ends the run with an error. Its input is kept and not replayed; nothing is made up. Text that was streamed is
    /// kept for display only.
    ///
    /// # Errors
    /// `LeaseLost` when somebody took over; `RunState` when it is over already.
    pub async fn fail(&self, error: RunError) -> Result<()> {
        self.session.workspace().audit().error(self.session.id(), &self.id, &error);
        self.close(Verdict::failed(error), Vec::new(), None, Repeat::default()).await
    }

    /// Ends the run without the answer that a guardrail rejected: say why, and do not append the answer. Text that was
    /// streamed of it is dropped, shown nowhere and never replayed. What was done before stays, and is replayed: the
    /// input, and every tool call with its result, because their effects are real. The run is completed, with the
    /// reason as its error; its turn is incomplete. An input that is itself rejected is for [`fail`](Self::fail).
    ///
    /// # Errors
    /// `LeaseLost` when somebody took over; `RunState` when it is over already.
    pub async fn reject(&self, reason: RunError) -> Result<()> {
        self.session.workspace().audit().error(self.session.id(), &self.id, &reason);
        self.close(Verdict::rejected(reason), Vec::new(), None, Repeat::default()).await
    }

    /// Ends the run as cancelled by a person, also one that waits. Text that was streamed is kept for display only.
    ///
    /// # Errors
    /// `LeaseLost` when somebody took over; `RunState` when it is over already.
    pub async fn cancel(&self) -> Result<()> {
        self.close(Verdict::cancelled(), Vec::new(), None, Repeat::default()).await
    }

    async fn close(
        &self,
        verdict: Verdict,
        drafts: Vec<Draft>,
        usage: Option<ModelRequest>,
        repeat: Repeat,
    ) -> Result<()> {
        let hold = self.closable(&verdict)?;
        let completed = verdict.to == RunState::Completed;
        let streamed = self.local().next_piece != Some(1);
        let base = self.session.workspace().base();
        let shown = if streamed && !completed {
            partial::read(base, self.session.session_ref(), &self.turn).await?
        } else {
            None
        };
        let tail = if completed { None } else { self.tail() };
        let mut closing = Closing {
            session: self.session.session_ref().clone(),
            run: self.id.clone(),
            turn: Some(self.turn.clone()),
            verdict,
            drafts,
            usage,
            partial: partial::with_tail(base, shown.filter(|text| !text.is_empty()), tail),
            tail: None,
            streamed,
            claims: Vec::new(),
            fences: hold.as_ref().map(|hold| hold.fences().to_vec()).unwrap_or_default(),
        };
        let mut tried = 0;
        loop {
            closing.claims = self.claims_left().await?;
            let written = self.write_end(closing.clone(), repeat.clone(), hold.as_ref()).await;
            match written {
                // A tool of this run came to its end in that moment.
                Err(error)
                    if error.kind() == ErrorKind::VersionConflict
                        && !closing.claims.is_empty()
                        && tried < CLAIM_TRIES =>
                {
                    tried += 1;
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        if let Some(hold) = hold {
            hold.given();
        }
        self.local().stage = Stage::Over;
        self.session.rest(&self.id);
        self.interrupt_rest(closing.claims.len()).await;
        Ok(())
    }

    async fn write_end(&self, closing: Closing, repeat: Repeat, hold: Option<&Arc<Hold>>) -> Result<()> {
        // A verdict alone must not fail because the leaf is elsewhere.
        let continues = !closing.drafts.is_empty();
        let mut plan = Plan::new(move |now| closing.ops(now)).repeat(repeat);
        if let Some(hold) = hold {
            plan = plan.hold(hold.clone());
        }
        self.session.write(if continues { plan } else { plan.at_any_leaf() }).await?;
        if let (true, Some(leaf)) = (mutant::is("runs/compact-by-themselves"), self.session.leaf()) {
            self.session.append([Compaction::new("what was said", leaf)]).await?;
        }
        Ok(())
    }

    /// The lease under which the run is closed; none for one that waits, which can be given up as it is.
    fn closable(&self, verdict: &Verdict) -> Result<Option<Arc<Hold>>> {
        let waits = self.local().stage == Stage::Waiting;
        if waits && verdict.to != RunState::Completed { Ok(None) } else { Ok(Some(self.at_work()?.0)) }
    }

    /// As if the process had died here: the lease is neither renewed nor released, and nothing is closed. For tests of
    /// recovery, together with dropping the store; see [`crate::testing::abandon`].
    pub(crate) fn abandon(self) {
        let mut local = self.local();
        local.hold.given();
        local.stage = Stage::Over;
        drop(local);
        self.session.rest(&self.id);
    }
}

impl Complete<'_> {
    /// Keeps what the request to the model consumed, in the same commit.
    pub fn usage(mut self, request: impl Into<ModelRequest>) -> Self {
        self.usage = Some(request.into());
        self
    }

    /// Why the model stopped, as the provider says.
    pub fn stop_reason(mut self, reason: impl Into<String>) -> Self {
        self.stop_reason = Some(reason.into());
        self
    }

    /// Makes the completion safe to repeat from anywhere.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request = RequestId::host(id).map(Some);
        self
    }

    async fn go(mut self) -> Result<()> {
        let id = self.request?;
        settle_titles(&self.run.session, &mut self.drafts).await?;
        // Not the digest of the commit: which tools it interrupts depends on the moment.
        let mut digest = FieldDigest::new("run-complete/1").text(self.run.id.as_str());
        digest = digest.maybe(self.stop_reason.as_deref());
        let redaction = self.run.session.workspace().base().redaction();
        let fingerprint = id
            .is_some()
            .then(|| Ok(Fingerprint::from_bytes(meaning(digest, &self.drafts, redaction)?.finish())))
            .transpose()?;
        let repeat = Repeat { id, fingerprint };
        self.run.close(Verdict::completed(self.stop_reason), self.drafts, self.usage, repeat).await
    }
}
awaitable!(Complete<'r> => Result<()>);

impl Drop for Run {
    /// Closes an unfinished run as `interrupted`, in the background. One that waits for a person goes on waiting.
    fn drop(&mut self) {
        let (hold, stage) = {
            let local = self.local();
            (local.hold.clone(), local.stage)
        };
        let at_work = matches!(stage, Stage::Pending | Stage::Running | Stage::Cancelling);
        if !at_work || !hold.is_held() {
            return;
        }
        hold.given();
        let workspace = self.session.workspace();
        let closing = dropped(
            self.session.session_ref().clone(),
            self.id.clone(),
            self.turn.clone(),
            hold.fences().to_vec(),
            self.tail(),
        );
        let queue = workspace.keeper().queue_handle();
        let ending = Ending::Close(Box::new(closing));
        let told = end_in_background(&queue, workspace.base().clone(), async { Ok(ending) });
        self.session.rest(&self.id);
        self.session.await_close(told);
    }
}
