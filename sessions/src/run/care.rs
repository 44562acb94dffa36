//! What happens to a run whose beginning nobody waited for to the end.

use tokio::sync::watch;
use turnkeep_core::commit::{Commit, LeaseGrant};
use turnkeep_core::error::Result;
use turnkeep_core::id::{RunId, SessionRef, TurnId};
use turnkeep_core::model::RunState;
use turnkeep_core::{Fence, Receipt};

use super::close::{Closing, Verdict, closed_by_others};
use super::takeup::wait_ops;
use crate::base::{Base, Repeat};
use crate::keeper::Queue;
use crate::lease::granted;
use crate::session::{Absorbed, Session, Unfinished};

/// Closes a run if the future that began it is dropped while its commit is under way; one that waited waits again.
///
/// Whether the commit landed is then unknown; repeating it with its request id tells, and lets it land once.
#[derive(Debug)]
pub(crate) struct AdmissionCare {
    session: Session,
    run: RunId,
    turn: TurnId,
    grant: LeaseGrant,
    waited: Option<RunState>,
    commit: Option<(Commit, usize)>,
}

impl AdmissionCare {
    pub(crate) fn prepare(session: &Session, run: RunId, turn: TurnId, grant: LeaseGrant) -> Self {
        Self { session: session.clone(), run, turn, grant, waited: None, commit: None }
    }

    /// The run waited in this state before.
    pub(crate) fn waited(mut self, state: Option<RunState>) -> Self {
        self.waited = state;
        self
    }

    /// The commit is about to be made; `first` is where its ops begin.
    pub(crate) fn arm(mut self, commit: &Commit, first: usize) -> Box<dyn Unfinished> {
        self.commit = Some((commit.clone(), first));
        Box::new(self)
    }
}

impl Unfinished for AdmissionCare {
    fn finished(&mut self) {
        self.commit = None;
    }
}

impl Drop for AdmissionCare {
    fn drop(&mut self) {
        let Some((commit, first)) = self.commit.take() else { return };
        let base = self.session.workspace().base().clone();
        let (run, turn, grant) = (self.run.clone(), self.turn.clone(), self.grant.clone());
        let reference = self.session.session_ref().clone();
        let queue = self.session.workspace().keeper().queue_handle();
        let waited = self.waited;
        let ending = end_in_background(&queue, base.clone(), async move {
            let landed = base.commit(commit).await?;
            let fences = granted(std::slice::from_ref(&grant), &landed.receipt, first)?;
            Ok(match waited {
                Some(state) => Ending::WaitAgain { session: reference, run, turn, state, fences },
                None => Ending::Close(Box::new(dropped(reference, run, turn, fences, None))),
            })
        });
        self.session.await_close(ending);
    }
}

/// A run whose handle is gone.
pub(crate) fn dropped(
    session: SessionRef,
    run: RunId,
    turn: TurnId,
    fences: Vec<Fence>,
    tail: Option<String>,
) -> Closing {
    Closing {
        session,
        run,
        turn: Some(turn),
        verdict: Verdict::dropped(),
        drafts: Vec::new(),
        usage: None,
        partial: None,
        tail,
        streamed: false,
        claims: Vec::new(),
        fences,
    }
}

/// What becomes of a run whose handle is gone.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// It is over.
    Close(Box<Closing>),
    /// It goes on waiting for a person.
    WaitAgain { session: SessionRef, run: RunId, turn: TurnId, state: RunState, fences: Vec<Fence> },
}

impl Ending {
    async fn commit(self, base: &Base) -> Result<(SessionRef, Receipt)> {
        match self {
            Self::Close(closing) => {
                let session = closing.session.clone();
                Ok((session, closing.commit(base).await?.receipt))
            }
            Self::WaitAgain { session, run, turn, state, fences } => {
                let mut commit = Commit::new(base.workspace().clone())
                    .request(base.request_in_session(Repeat::default(), &session)?);
                commit.ops = wait_ops(&session, &run, &turn, state, &fences, base.now())?;
                commit.fences = fences;
                Ok((session, base.commit(commit).await?.receipt))
            }
        }
    }
}

/// Ends a run in the background. The receiver tells when it is done and which leaf it left.
pub(crate) fn end_in_background(
    queue: &Queue,
    base: Base,
    ending: impl Future<Output = Result<Ending>> + Send + 'static,
) -> watch::Receiver<Absorbed> {
    let (tell, told) = watch::channel(Absorbed::Pending);
    queue.queue(async move {
        let absorbed = match ending.await {
            Ok(ending) => absorb(&base, ending).await,
            Err(_) => Absorbed::Nothing,
        };
        tell.send_replace(absorbed);
    });
    told
}

/// Tries until the store had its say; what it does not take is left to recovery.
async fn absorb(base: &Base, ending: Ending) -> Absorbed {
    const TRIES: u32 = 5;
    for tried in 0..TRIES {
        match ending.clone().commit(base).await {
            Ok((session, receipt)) => {
                let mark = receipt.session(&session);
                return mark.map_or(Absorbed::Nothing, |mark| Absorbed::Leaf(mark.leaf));
            }
            Err(error) if closed_by_others(&error) => return Absorbed::Nothing,
            Err(_) => base.sleep(std::time::Duration::from_millis(20 << tried)).await,
        }
    }
    Absorbed::Nothing
}
