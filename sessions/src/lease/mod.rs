//! Leases: exclusive work on sessions and on named things, across processes.

mod hold;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use turnkeep_core::commit::{Commit, LeaseGrant, Op, Outcome, Receipt, Takeover};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::LeaseId;
use turnkeep_core::model::{Channel, LeaseKey, LeaseName, LeasePurpose, LeaseView};
use turnkeep_core::{Fence, SessionRef};

pub(crate) use hold::Hold;
pub use hold::LossSignal;

use crate::base::{Base, Repeat, fence_of, millis};
use crate::claims;
use crate::state::{channel_digest, records};
use crate::workspace::Workspace;

/// The first pause between two tries for a lease that somebody else holds.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Leases that are taken together at most: the receipt of the commit names each.
const TOGETHER: usize = 50;

/// The leases of a workspace.
#[derive(Clone, Debug)]
pub struct Leases {
    workspace: Workspace,
}

impl Leases {
    pub(crate) fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }

    /// Takes leases together, all or none, if nobody else holds one of them. At most 50.
    ///
    /// They are taken in sorted order, each once, and renewed in the background until the [`Lease`] is released,
    /// dropped or lost. A lease that expired, or whose owner is proven dead, is taken over.
    ///
    /// # Errors
    /// `LeaseHeld` names who holds it and for how long; `Invalid` without a name; `TooLarge` for too many.
    pub async fn try_acquire(
        &self,
        names: impl IntoIterator<Item = LeaseName>,
        purpose: LeasePurpose,
    ) -> Result<Lease> {
        let names: BTreeSet<LeaseName> = names.into_iter().collect();
        if names.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "name at least one lease"));
        }
        if names.len() > TOGETHER {
            let message = format!("{} leases; at most {TOGETHER} are taken together", names.len());
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        match self.take(&names, purpose, Takeover::IfExpired).await {
            Err(error) if error.kind() == ErrorKind::LeaseHeld => {
                self.take(&names, purpose, Takeover::IfOwnerDead).await
            }
            taken => taken,
        }
    }

    /// As [`try_acquire`](Self::try_acquire), but waits up to `patience` while somebody else holds one of them.
    ///
    /// # Errors
    /// `LeaseHeld` when the patience is used up.
    pub async fn acquire(
        &self,
        names: impl IntoIterator<Item = LeaseName>,
        purpose: LeasePurpose,
        patience: Duration,
    ) -> Result<Lease> {
        let names: Vec<LeaseName> = names.into_iter().collect();
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            match self.try_acquire(names.iter().cloned(), purpose).await {
                Err(error) if error.kind() == ErrorKind::LeaseHeld => {
                    let Some(left) = patience.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
                    else {
                        return Err(error);
                    };
                    self.workspace.base().sleep(pause.min(left)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                taken => return taken,
            }
        }
    }

    /// A lease as everybody may see it; `None` if it was never taken.
    ///
    /// # Errors
    /// Whatever the store answers.
    pub async fn view(&self, name: LeaseName) -> Result<Option<LeaseView>> {
        let base = self.workspace.base();
        base.store().lease(&LeaseKey { workspace: base.workspace().clone(), name }).await
    }

    async fn take(
        &self,
        names: &BTreeSet<LeaseName>,
        purpose: LeasePurpose,
        takeover: Takeover,
    ) -> Result<Lease> {
        let base = self.workspace.base();
        let ttl = base.lease_ttl();
        let grants: Vec<LeaseGrant> = names
            .iter()
            .map(|name| base.grant(name.clone(), purpose, ttl, takeover))
            .collect::<Result<_>>()?;
        let mut commit = Commit::new(base.workspace().clone())
            .request(base.request_in_workspace(Repeat::default(), None)?);
        for grant in &grants {
            commit = commit.op(Op::AcquireLease(grant.clone()));
        }
        let abandoned = Abandoned::arm(&self.workspace, &commit, &grants);
        let landed = base.commit(commit).await;
        abandoned.disarm();
        let fences = granted(&grants, &landed?.receipt, 0)?;
        let hold = Hold::start(self.workspace.keeper(), base, fences, ttl);
        Ok(Lease { workspace: self.workspace.clone(), hold })
    }
}

/// The fences of grants whose ops begin at `first` in a commit.
pub(crate) fn granted(grants: &[LeaseGrant], receipt: &Receipt, first: usize) -> Result<Vec<Fence>> {
    grants
        .iter()
        .enumerate()
        .map(|(at, grant)| match receipt.outcomes.get(first + at) {
            Some(Outcome::Lease { epoch, .. }) => Ok(fence_of(grant, *epoch)),
            _ => Err(Error::new(ErrorKind::Corrupt, "the receipt of the commit names no lease")),
        })
        .collect()
}

/// One or several leases that this handle holds. Dropping it gives them back in the background, as
/// [`release`](Self::release) does.
#[derive(Debug)]
pub struct Lease {
    workspace: Workspace,
    hold: std::sync::Arc<Hold>,
}

impl Lease {
    /// The proofs of holding, one per lease in sorted order, for commits of one's own.
    #[must_use]
    pub fn fences(&self) -> &[Fence] {
        self.hold.fences()
    }

    pub(crate) fn hold(&self) -> std::sync::Arc<Hold> {
        self.hold.clone()
    }

    /// Tells when one of them is lost.
    #[must_use]
    pub fn signal(&self) -> LossSignal {
        self.hold.signal()
    }

    /// Whether one of them is lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.hold.is_lost()
    }

    /// Moves the expiry from now on, without waiting for the background.
    ///
    /// # Errors
    /// `LeaseLost` when somebody took one over; the loss signal fires then too.
    pub async fn renew(&self) -> Result<()> {
        self.hold.check()?;
        let base = self.workspace.base();
        let ttl_ms = millis(base.lease_ttl());
        let mut commit = Commit::new(base.workspace().clone());
        for fence in self.hold.fences() {
            commit = commit.op(Op::RenewLease { fence: fence.clone(), ttl_ms });
        }
        match base.commit(commit).await {
            Ok(_) => Ok(()),
            Err(error) => {
                if matches!(error.kind(), ErrorKind::LeaseLost | ErrorKind::NotFound) {
                    self.hold.lose();
                }
                Err(error)
            }
        }
    }

    /// Gives them back. A tool call that was claimed under them and is neither completed nor failed is interrupted first:
    /// nobody knows how far it came, and a person decides, as after the end of a run.
    ///
    /// # Errors
    /// `LeaseLost` when somebody took one over meanwhile.
    pub async fn release(self) -> Result<()> {
        give_back(self.workspace.base(), &self.hold).await?;
        self.hold.given();
        Ok(())
    }
}

impl Lease {
    /// As if the process had died here; see [`crate::testing::abandon_lease`].
    pub(crate) fn abandon(self) -> std::sync::Arc<dyn turnkeep_core::Store> {
        self.hold.given();
        self.workspace.store().clone()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.hold.is_held() {
            self.hold.given();
            let base = self.workspace.base().clone();
            let hold = self.hold.clone();
            self.workspace.keeper().queue(async move {
                // Nobody is left to be told; an unreleased lease expires.
                let _ = give_back(&base, &hold).await;
            });
        }
    }
}

/// Gives leases back, and leaves nothing that is said to run under them.
async fn give_back(base: &Base, hold: &Hold) -> Result<()> {
    let fences = hold.fences();
    for fence in fences.iter().filter(|_| hold.has_claims()) {
        if let LeaseName::Session(session) = &fence.name {
            records::again(|| claims::interrupt_left_behind(base, session, fences)).await?;
        }
    }
    release(base, fences).await
}

pub(crate) async fn release(base: &Base, fences: &[Fence]) -> Result<()> {
    let mut commit = Commit::new(base.workspace().clone());
    for fence in fences {
        commit = commit.op(Op::ReleaseLease { fence: fence.clone() });
    }
    base.commit(commit).await.map(drop)
}

/// Gives leases back that a dropped future may have taken: the commit is repeated to learn what became of it.
struct Abandoned<'a> {
    workspace: &'a Workspace,
    commit: Option<(Commit, Vec<LeaseGrant>)>,
}

impl<'a> Abandoned<'a> {
    fn arm(workspace: &'a Workspace, commit: &Commit, grants: &[LeaseGrant]) -> Self {
        Self { workspace, commit: Some((commit.clone(), grants.to_vec())) }
    }

    fn disarm(mut self) {
        self.commit = None;
    }
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if let Some((commit, grants)) = self.commit.take() {
            let base = self.workspace.base().clone();
            self.workspace.keeper().queue(async move {
                if let Ok(landed) = base.commit(commit).await
                    && let Ok(fences) = granted(&grants, &landed.receipt, 0)
                {
                    let _ = release(&base, &fences).await;
                }
            });
        }
    }
}

/// The name of the lease of a session.
#[must_use]
pub fn session_lease(session: &SessionRef) -> LeaseName {
    LeaseName::Session(session.clone())
}

/// The name of the lease of an identity in an external channel, such as a chat room: whoever holds it deals with what
/// comes in from there, in whatever process, whether or not the channel has a session yet.
///
/// Within one process nothing is needed to keep two writes to one session apart: clones of a [`Session`](crate::Session)
/// are one handle, whose writes take turns.
///
/// # Errors
/// None that a channel can cause.
pub fn channel_lease(channel: &Channel) -> Result<LeaseName> {
    named_lease(format!("channel/{}", channel_digest(channel)))
}

/// The name of a lease that belongs to no session.
///
/// # Errors
/// `Invalid` or `TooLarge` when the text is no id.
pub fn named_lease(name: impl AsRef<str>) -> Result<LeaseName> {
    LeaseId::new(name).map(LeaseName::Named)
}
