//! The one way in which a handle writes.

use std::sync::Arc;

use tokio::sync::watch;
use turnkeep_core::commit::{Commit, Guard, Op, Receipt};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryNo, RunId, SessionRef};
use turnkeep_core::{Fence, Timestamp, mutant};

use super::Session;
use crate::base::Repeat;
use crate::lease::Hold;
use crate::recovery::Moved;

/// What became of a run that was dropped and is being closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absorbed {
    /// Not done yet.
    Pending,
    /// Nothing was written, or nobody knows.
    Nothing,
    /// The leaf moved by our own close, and nobody else's.
    Leaf(Option<EntryNo>),
}

/// A write to be made.
pub(crate) struct Plan<F> {
    ops: F,
    repeat: Repeat,
    /// The lease that must still be held. Without one, that of the run the handle executes is used.
    hold: Option<Arc<Hold>>,
    /// Whether the session's lease matters.
    exclusive: bool,
    /// Whether the leaf must be as the handle knows it.
    guards_leaf: bool,
    /// Whether a repeat needs a request id to be safe.
    requests: bool,
    /// What else must be so.
    guards: Vec<Guard>,
    /// Told of the commit just before it is made, and answers with what must happen if nobody waits for its end.
    arm: Option<Arm>,
}

type Arm = Box<dyn FnOnce(&Commit, usize) -> Box<dyn Unfinished> + Send>;

/// Something to do if the future of a write is dropped while the commit is under way.
pub(crate) trait Unfinished: Send {
    /// The write ended and its answer was received.
    fn finished(&mut self);
}

impl<F: Fn(Timestamp) -> Result<Vec<Op>>> Plan<F> {
    pub(crate) fn new(ops: F) -> Self {
        Self {
            ops,
            repeat: Repeat::default(),
            hold: None,
            exclusive: true,
            guards_leaf: true,
            requests: true,
            guards: Vec::new(),
            arm: None,
        }
    }

    /// Makes a repeat safe with an id of the host.
    pub(crate) fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }

    /// Requires this lease.
    pub(crate) fn hold(mut self, hold: Arc<Hold>) -> Self {
        self.hold = Some(hold);
        self
    }

    /// Needs no lease and guards no leaf.
    pub(crate) fn shared(mut self) -> Self {
        self.exclusive = false;
        self.guards_leaf = false;
        self
    }

    /// Depends on no leaf: nothing of it continues the conversation.
    pub(crate) fn at_any_leaf(mut self) -> Self {
        self.guards_leaf = false;
        self
    }

    /// Is safe to repeat as it is, without a request id.
    pub(crate) fn safe_by_itself(mut self) -> Self {
        self.requests = false;
        self
    }

    /// Requires something else.
    pub(crate) fn guard(mut self, guard: Guard) -> Self {
        self.guards.push(guard);
        self
    }

    /// Takes care of a commit that nobody waits for any more.
    pub(crate) fn arm(
        mut self,
        arm: impl FnOnce(&Commit, usize) -> Box<dyn Unfinished> + Send + 'static,
    ) -> Self {
        self.arm = Some(Box::new(arm));
        self
    }
}

/// What a write answered.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) receipt: Receipt,
    /// Where the ops of the plan begin in the receipt.
    pub(crate) first: usize,
    /// Whether an earlier call with the same request made the change.
    pub(crate) earlier: bool,
    /// The session that changed. Another one, if an earlier call made a lazy session of its own for the same request.
    pub(crate) session: SessionRef,
}

impl Session {
    /// Makes a write: guarded by the known leaf, fenced by the lease of the run that this handle executes, and
    /// repeatable. A lazy session is stored with it.
    pub(crate) async fn write<F>(&self, plan: Plan<F>) -> Result<Written>
    where
        F: Fn(Timestamp) -> Result<Vec<Op>>,
    {
        let _writing = self.inner.writing.lock().await;
        self.settle_closing().await;
        let base = self.workspace().base();
        let ops = (plan.ops)(base.now())?;
        let reference = self.session_ref();
        let (leaf, unborn, fences) = {
            let known = self.known();
            // A lease that was given back protects nothing any more, and the session may be free.
            let own = known.hold.as_ref().filter(|hold| hold.is_held() || hold.is_lost());
            let hold = plan.hold.as_ref().or(own);
            let fences: Vec<Fence> = match hold {
                Some(hold) if plan.exclusive => {
                    hold.check().map_err(|error| error.with("session", self.id()))?;
                    hold.fences().to_vec()
                }
                _ => Vec::new(),
            };
            (known.leaf, known.unborn.clone(), fences)
        };
        // What needs no lease moves no leaf, and must not hide from the next append that others moved it.
        let follows = plan.exclusive || unborn.is_some() || mutant::is("writes/a-rename-hides-others");
        let mut commit = Commit::new(base.workspace().clone());
        commit.fences = fences;
        let first = usize::from(unborn.is_some());
        commit.request = match &unborn {
            Some(_) => Some(base.request_in_workspace(plan.repeat, Some(reference.clone()))?),
            None if plan.requests => Some(base.request_in_session(plan.repeat, reference)?),
            None => None,
        };
        match unborn {
            Some(new) => commit.ops.push(Op::CreateSession(new)),
            None if plan.guards_leaf => commit.guards.push(Guard::Leaf { session: reference.clone(), leaf }),
            None => {}
        }
        commit.guards.extend(plan.guards);
        commit.ops.extend(ops);
        let mut care = plan.arm.map(|arm| arm(&commit, first));
        let landed = base.commit(commit).await;
        if let Some(care) = &mut care {
            care.finished();
        }
        let landed = match landed {
            Ok(landed) => landed,
            Err(error) => return Err(self.understand(error, first == 1, plan.hold.as_ref()).await),
        };
        let mut written =
            Written { receipt: landed.receipt, first, earlier: landed.earlier, session: reference.clone() };
        if landed.earlier {
            // It tells of an older leaf than the handle may know, and maybe of another session.
            if first == 1
                && let Some(mark) = written.receipt.sessions.first()
            {
                written.session = mark.session.clone();
            }
            return Ok(written);
        }
        let mut known = self.known();
        known.unborn = None;
        if let Some(mark) = written.receipt.session(reference).filter(|_| follows) {
            known.leaf = mark.leaf;
        }
        drop(known);
        Ok(written)
    }

    /// Draws the conclusions of a refusal.
    async fn understand(&self, error: Error, was_unborn: bool, hold: Option<&Arc<Hold>>) -> Error {
        match error.kind() {
            ErrorKind::LeaseLost => {
                let own = self.known().hold.clone();
                if let Some(hold) = hold.or(own.as_ref()) {
                    hold.lose();
                }
                error
            }
            // A first write whose future was dropped may have stored the session after all.
            ErrorKind::AlreadyExists if was_unborn => match self.info().await {
                Ok(_) => {
                    self.known().unborn = None;
                    Error::new(
                        ErrorKind::StaleLeaf,
                        "an earlier write of this handle stored the session; reload it, look, and write again",
                    )
                    .with("session", self.id())
                }
                Err(_) => error,
            },
            _ => error,
        }
    }

    /// Waits for the close of a run of this handle that was dropped, and takes over the leaf that it left.
    pub(crate) async fn settle_closing(&self) {
        let closing = self.known().closing.clone();
        let Some(mut closing) = closing else { return };
        let absorbed = match closing.wait_for(|state| *state != Absorbed::Pending).await {
            Ok(state) => *state,
            Err(_) => Absorbed::Nothing,
        };
        let mut known = self.known();
        known.closing = None;
        if let Absorbed::Leaf(leaf) = absorbed {
            known.leaf = leaf;
        }
    }

    /// Takes over a leaf that a recovery of ours left, if the handle knew the one before.
    pub(crate) fn advance(&self, known: Option<EntryNo>, moved: Moved) {
        let mut state = self.known();
        if known == moved.before && state.leaf == known {
            state.leaf = moved.after;
        }
    }

    /// This handle executes a run from now on.
    pub(crate) fn execute(&self, run: RunId, hold: Arc<Hold>) {
        let mut known = self.known();
        known.run = Some(run);
        known.hold = Some(hold);
    }

    /// The lease under which this handle writes.
    pub(crate) fn own_hold(&self) -> Option<Arc<Hold>> {
        self.known().hold.clone().filter(|hold| hold.is_held() || hold.is_lost())
    }

    /// Writes under a lease from now on, unless this handle executes a run.
    pub(super) fn protect(&self, hold: Arc<Hold>) -> Result<()> {
        hold.check()?;
        let mut known = self.known();
        if let Some(run) = &known.run {
            return Err(Error::new(
                ErrorKind::ActiveRun,
                "this handle executes a run, which has a lease of its own",
            )
            .with("session", self.id())
            .with("run", run));
        }
        known.hold = Some(hold);
        Ok(())
    }

    /// The run is over, or waits.
    pub(crate) fn rest(&self, run: &RunId) {
        let mut known = self.known();
        if known.run.as_ref() == Some(run) {
            known.run = None;
            known.hold = None;
        }
    }

    /// The run was dropped; writes wait for its close.
    pub(crate) fn await_close(&self, closing: watch::Receiver<Absorbed>) {
        self.known().closing = Some(closing);
    }
}
