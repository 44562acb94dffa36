//! The handle of one session.

mod append;
mod latest;
mod messages;
mod turns;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use turnkeep_core::commit::{NewSession, Op, SessionPatch};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryNo, RunId, SessionId, SessionRef};
use turnkeep_core::model::{SessionRow, Title, TitleSource, collection};
use turnkeep_core::query::Mark;
use turnkeep_core::query::Scope;

pub use append::{Append, Appended};
pub(crate) use append::{append_ops, displayed, settle_titles};
pub use latest::Latest;
pub use messages::{History, Messages, StoredMessage};
pub use turns::{EndOfTurn, Turn};
pub(crate) use write::{Absorbed, Plan, Unfinished, Written};

use crate::lease::{Hold, Lease, session_lease};
use crate::message::Message;
use crate::run::{BeginRun, TakeUp};
use crate::runs::Runs;
use crate::state::{self, ChannelTools, Inbox, Lineage, Responses, SessionCapabilities, SessionUsage};
use crate::workspace::Workspace;

/// One session. Clones are the same handle: they share the leaf they know and the run they execute.
///
/// Every append is guarded by the leaf that the handle knows. If another process was first, it is refused with
/// `StaleLeaf`; [`reload`](Self::reload), look, and append again.
#[derive(Clone, Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    workspace: Workspace,
    reference: SessionRef,
    /// Lets one write of this handle at a time know its leaf.
    writing: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

/// What the handle knows of the session.
#[derive(Debug)]
struct Known {
    leaf: Option<EntryNo>,
    /// The session, while nothing of it is stored yet.
    unborn: Option<NewSession>,
    /// The lease of the run that this handle executes.
    hold: Option<Arc<Hold>>,
    /// That run.
    run: Option<RunId>,
    /// A dropped run of this handle that is being closed.
    closing: Option<watch::Receiver<Absorbed>>,
}

impl Session {
    pub(crate) fn of_row(workspace: Workspace, row: &SessionRow) -> Self {
        Self::with(workspace, row.session_ref(), row.path.leaf, None)
    }

    pub(crate) fn unborn(workspace: Workspace, new: NewSession) -> Self {
        let reference = SessionRef { id: new.id.clone(), incarnation: new.incarnation };
        Self::with(workspace, reference, None, Some(new))
    }

    pub(crate) fn with(
        workspace: Workspace,
        reference: SessionRef,
        leaf: Option<EntryNo>,
        unborn: Option<NewSession>,
    ) -> Self {
        let known = Known { leaf, unborn, hold: None, run: None, closing: None };
        let writing = tokio::sync::Mutex::new(());
        Self { inner: Arc::new(Inner { workspace, reference, writing, known: Mutex::new(known) }) }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.inner.reference.id
    }

    /// This life of it, for commits and queries of one's own.
    #[must_use]
    pub fn session_ref(&self) -> &SessionRef {
        &self.inner.reference
    }

    /// Its workspace.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        &self.inner.workspace
    }

    /// The entry that the next append of this handle continues, as the handle knows it.
    #[must_use]
    pub fn leaf(&self) -> Option<EntryNo> {
        self.known().leaf
    }

    /// Whether anything of it is stored. A lazy session is stored with its first write.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.known().unborn.is_none()
    }

    /// The session as it is stored now: title, counts, preview, usage, active run. Leaves the known leaf as it is.
    ///
    /// # Errors
    /// `NotFound` when it was deleted or nothing of it is stored yet.
    pub async fn info(&self) -> Result<SessionRow> {
        let base = self.workspace().base();
        let key = turnkeep_core::SessionKey { workspace: base.workspace().clone(), id: self.id().clone() };
        match base.store().session(&key).await? {
            Some(mut row) if row.incarnation == self.session_ref().incarnation => {
                state::forget_deleted(base, std::slice::from_mut(&mut row)).await?;
                Ok(row)
            }
            _ => Err(Error::new(ErrorKind::NotFound, "the session is not there (any more)")
                .with("session", self.id())),
        }
    }

    /// Takes over the leaf as it is stored now, and lets go of a run whose lease was lost.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn reload(&self) -> Result<SessionRow> {
        let _writing = self.inner.writing.lock().await;
        self.settle_closing().await;
        let row = self.info().await?;
        let mut known = self.known();
        known.leaf = row.path.leaf;
        known.unborn = None;
        if known.hold.as_ref().is_some_and(|hold| !hold.is_held()) {
            known.hold = None;
            known.run = None;
        }
        Ok(row)
    }

    /// The mark of now: another one later means that something of the session moved.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn changes(&self, since: Mark) -> Result<Mark> {
        let base = self.workspace().base();
        let scope =
            Scope::Session { workspace: base.workspace().clone(), session: self.session_ref().clone() };
        base.store().changes(&scope, since).await
    }

    /// Begins a run: the message, the run, its request and the lease are durable, in one commit, before a model is
    /// called.
    ///
    /// Await it, or set more first; see [`BeginRun`].
    pub fn begin_run(&self, message: Message) -> BeginRun {
        BeginRun::new(self.clone(), message)
    }

    /// Tries a failed, cancelled, interrupted or rejected run again: a new run with the next attempt number, for the same
    /// request and with the same input. Refused with `VersionConflict` if it is not the newest attempt.
    pub fn retry_run(&self, run: RunId) -> BeginRun {
        BeginRun::retry(self.clone(), run)
    }

    /// Goes on with a run that waits for a person: it takes the lease again.
    pub fn resume_run(&self, run: RunId) -> TakeUp {
        TakeUp::resume(self.clone(), run)
    }

    /// Takes a failed, cancelled or interrupted run up again, explicitly, as a new turn of the same run.
    pub fn reopen_run(&self, run: RunId) -> TakeUp {
        TakeUp::reopen(self.clone(), run)
    }

    /// Its runs and what is known of them.
    #[must_use]
    pub fn runs(&self) -> Runs {
        Runs::new(self.clone())
    }

    /// Moves the leaf: the next append continues `to`, which must lie on a path, or begins anew with `None`. The branch
    /// that was left stays. Guarded like an append.
    ///
    /// # Errors
    /// `StaleLeaf` when another writer was first; `NotFound` for an unknown entry; `LeaseHeld` while a run executes.
    pub async fn move_leaf(&self, to: Option<EntryNo>) -> Result<()> {
        let op = Op::MoveLeaf { session: self.session_ref().clone(), to };
        self.write(Plan::new(move |_| Ok(vec![op.clone()]))).await.map(drop)
    }

    /// Gives it a display name; a blank one takes it away. Works while somebody else executes a run in it; see
    /// [`Draft::title`](crate::Draft::title) for a title that is also kept in the order of entries.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted; `TooLarge` above 4 KiB.
    pub async fn rename(&self, title: impl Into<String>) -> Result<()> {
        let title = Title { text: title.into(), source: TitleSource::Manual };
        self.patch(SessionPatch { title: Some(displayed(title)), ..SessionPatch::default() }).await
    }

    /// Keeps it at the top of lists, or not.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn pin(&self, pinned: bool) -> Result<()> {
        self.patch(SessionPatch { pinned: Some(pinned), ..SessionPatch::default() }).await
    }

    /// Puts it away, or brings it back.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted.
    pub async fn archive(&self, archived: bool) -> Result<()> {
        self.patch(SessionPatch { archived: Some(archived), ..SessionPatch::default() }).await
    }

    /// Changes several things said of it in one commit. Needs no lease: people write to running sessions.
    ///
    /// # Errors
    /// `NotFound` when the session was deleted, or for a project that is not there; `Invalid` for the channel of a
    /// session that is bound to one.
    pub async fn patch(&self, patch: SessionPatch) -> Result<()> {
        if let Some(Some(project)) = &patch.project {
            state::refuse_unknown(self.workspace().base(), project).await?;
        }
        let unbound = match &patch.channel {
            Some(_) => Some(state::refuse_if_bound(self).await?),
            None => None,
        };
        let op = Op::PatchSession { session: self.session_ref().clone(), patch };
        let plan = Plan::new(move |_| Ok(vec![op.clone()])).shared();
        self.write(unbound.into_iter().fold(plan, Plan::guard)).await.map(drop)
    }

    /// What it may do, and who changed that.
    #[must_use]
    pub fn capabilities(&self) -> SessionCapabilities {
        SessionCapabilities::new(self.clone())
    }

    /// The tools that its channel offers.
    #[must_use]
    pub fn channel_tools(&self) -> ChannelTools {
        ChannelTools::new(self.clone())
    }

    /// What people want the run at work to heed.
    #[must_use]
    pub fn guidance(&self) -> Inbox {
        Inbox::new(self.clone(), collection::GUIDANCE)
    }

    /// What people answered to a run that asked.
    #[must_use]
    pub fn approvals(&self) -> Inbox {
        Inbox::new(self.clone(), collection::APPROVALS)
    }

    /// Wishes of people that a run should stop.
    #[must_use]
    pub fn cancel_requests(&self) -> Inbox {
        Inbox::new(self.clone(), collection::CANCEL_REQUESTS)
    }

    /// Writes under a lease that was taken before, alone or together with others, until it is given back. A run takes a
    /// lease of its own, so give this one back before you begin one.
    ///
    /// # Errors
    /// `LeaseLost` when it is not held any more; `ActiveRun` when this handle executes a run; `Invalid` when the lease
    /// does not name this session.
    pub fn write_under(&self, lease: &Lease) -> Result<()> {
        let name = session_lease(self.session_ref());
        if !lease.fences().iter().any(|fence| fence.name == name) {
            return Err(Error::new(ErrorKind::Invalid, "the lease does not name this session")
                .with("session", self.id()));
        }
        self.protect(lease.hold())
    }

    /// What requests to models consumed.
    #[must_use]
    pub fn usage(&self) -> SessionUsage {
        SessionUsage::new(self.clone())
    }

    /// Where the provider's own conversation stands.
    #[must_use]
    pub fn lineage(&self) -> Lineage {
        Lineage::new(self.clone())
    }

    /// What a provider runs for it in the background, and the native items that came of it.
    #[must_use]
    pub fn responses(&self) -> Responses {
        Responses::new(self.clone())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.inner.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run that this handle executes.
    #[must_use]
    pub fn executing(&self) -> Option<RunId> {
        self.known().run.clone()
    }
}
