//! What happens to a run whose beginning nobody waited for to the end.

use tokio::sync::watch;
use turnkeep_core::commit::{Commit, LeaseGrant};
use turnkeep_core::error::Result;
use turnkeep_core::id::{RunId, SessionRef, TurnId};

use super::close::{Closing, Verdict, closed_by_others};
use crate::base::Base;
use crate::keeper::Queue;
use crate::lease::granted;
use crate::session::{Absorbed, Session, Unfinished};

/// Closes a run if the future that began it is dropped while its commit is under way.
///
/// Whether the commit landed is then unknown; repeating it with its request id tells, and lets it land once.
#[derive(Debug)]
pub(crate) struct AdmissionCare {
    session: Session,
    run: RunId,
    turn: TurnId,
    grant: LeaseGrant,
    commit: Option<(Commit, usize)>,
}

impl AdmissionCare {
    pub(crate) fn prepare(session: &Session, run: RunId, turn: TurnId, grant: LeaseGrant) -> Self {
        Self { session: session.clone(), run, turn, grant, commit: None }
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
        let closing = run_close(&queue, base.clone(), async move {
            let landed = base.commit(commit).await?;
            let fences = granted(std::slice::from_ref(&grant), &landed.receipt, first)?;
            Ok(dropped(reference, run, turn, fences))
        });
        self.session.await_close(closing);
    }
}

/// A run whose handle is gone.
pub(crate) fn dropped(
    session: SessionRef,
    run: RunId,
    turn: TurnId,
    fences: Vec<turnkeep_core::Fence>,
) -> Closing {
    Closing {
        session,
        run,
        turn: Some(turn),
        verdict: Verdict::dropped(),
        drafts: Vec::new(),
        usage: None,
        partial: None,
        streamed: false,
        fences,
    }
}

/// Closes a run in the background. The receiver tells when it is done and which leaf it left.
pub(crate) fn run_close(
    queue: &Queue,
    base: Base,
    closing: impl Future<Output = Result<Closing>> + Send + 'static,
) -> watch::Receiver<Absorbed> {
    let (tell, told) = watch::channel(Absorbed::Pending);
    queue.queue(async move {
        let absorbed = match closing.await {
            Ok(closing) => absorb(&base, closing).await,
            Err(_) => Absorbed::Nothing,
        };
        tell.send_replace(absorbed);
    });
    told
}

/// Tries until the store had its say; what it does not take is left to recovery.
async fn absorb(base: &Base, closing: Closing) -> Absorbed {
    const TRIES: u32 = 5;
    for tried in 0..TRIES {
        match closing.clone().commit(base).await {
            Ok((receipt, _)) => {
                let mark = receipt.session(&closing.session);
                return mark.map_or(Absorbed::Nothing, |mark| Absorbed::Leaf(mark.leaf));
            }
            Err(error) if closed_by_others(&error) => return Absorbed::Nothing,
            Err(_) => base.sleep(std::time::Duration::from_millis(20 << tried)).await,
        }
    }
    Absorbed::Nothing
}
