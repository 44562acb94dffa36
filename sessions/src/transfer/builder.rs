//! Builds a session that stays hidden until it is complete: in slices, under its lease, sealed at the end. Imports and
//! forks alike; what a dead builder left is taken over by the next one with the same request.

use turnkeep_core::commit::{
    Commit, Fence, Fingerprint, LeaseGrant, NewSession, Op, Outcome, Receipt, Request, RequestId,
    SessionPatch, Takeover,
};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryNo, Incarnation, LeaseToken, SessionId, SessionKey, SessionRef, WorkspaceId};
use turnkeep_core::limits::SLICE_ROWS;
use turnkeep_core::model::{LeaseName, LeasePurpose, Profile, RestoreState, Row, SessionRow, SessionState};
use turnkeep_core::query::SessionQuery;
use turnkeep_core::rules::{copied, fold_row};
use turnkeep_core::store::Store;

use crate::entropy::Entropy;

/// Bytes of payloads and texts of one slice.
const SLICE_BYTES: usize = 8 * 1024 * 1024;
/// How long a builder may pause between two slices. A dead one is taken over at once where that can be known.
const LEASE_MS: u64 = 15_000;
/// How often a beginning is tried again after it met what somebody else left.
const TRIES: u32 = 4;

/// Where a session is built.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) workspace: &'a WorkspaceId,
    pub(crate) entropy: &'a dyn Entropy,
    /// What is done, for errors: `import`, `fork`.
    pub(crate) operation: &'static str,
}

/// How a build begins.
pub(crate) enum Begun<'a> {
    /// Somebody was here: this much is there already.
    Building(Box<Builder<'a>>, RestoreState),
    /// An earlier build with the same request is complete.
    Complete(SessionRef),
    /// A session that was not built by this request has the id.
    Taken(Box<SessionRow>),
}

/// Adds rows to a session that nobody sees yet.
pub(crate) struct Builder<'a> {
    site: Site<'a>,
    session: SessionRef,
    fence: Fence,
    /// What is in the store, and the digest over it.
    built: RestoreState,
    slice: Vec<Row>,
    bytes: usize,
    most_bytes: usize,
}

/// Begins to build a session, or takes over what a dead builder left.
///
/// # Errors
/// `LeaseHeld` when somebody is building it right now; whatever the store answers.
pub(crate) async fn begin<'a>(
    site: Site<'a>,
    id: &SessionId,
    profile: &Profile,
    request: &RequestId,
    meant: Fingerprint,
) -> Result<Begun<'a>> {
    let key = SessionKey { workspace: site.workspace.clone(), id: id.clone() };
    for _ in 0..TRIES {
        let session = SessionRef { id: id.clone(), incarnation: Incarnation::from_bytes(site.random()?) };
        let grant = site.grant(&session, Takeover::IfOwnerDead)?;
        let request = Request::in_workspace(request.clone()).fingerprint(meant).owned_by(session.clone());
        let commit = Commit::new(site.workspace.clone())
            .request(request)
            .op(Op::CreateSession(NewSession {
                id: id.clone(),
                incarnation: session.incarnation,
                state: SessionState::Restoring,
                profile: profile.clone(),
            }))
            .op(Op::AcquireLease(grant.clone()));
        match site.store.commit(commit).await {
            Ok(receipt) if !receipt.replayed => {
                let fence = fence(&grant, receipt.outcomes.get(1))?;
                let builder = Builder::new(site, session, fence, RestoreState::default());
                return Ok(Begun::Building(Box::new(builder), RestoreState::default()));
            }
            Ok(receipt) => {
                if let Some(begun) = again(site, &receipt).await? {
                    return Ok(begun);
                }
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if let Some(row) = site.store.session(&key).await? {
                    return Ok(Begun::Taken(Box::new(row)));
                }
                // What is half built holds the id.
                discard(site, id).await?;
            }
            Err(error) => return Err(error.with_operation(site.operation)),
        }
    }
    Err(Error::new(ErrorKind::Busy, "others keep making and removing a session with this id")
        .with("session", id)
        .with_operation(site.operation))
}

/// Removes what is half built under an id, if whoever built it is gone.
///
/// # Errors
/// `LeaseHeld` when somebody is building it right now; whatever the store answers.
pub(crate) async fn discard(site: Site<'_>, id: &SessionId) -> Result<()> {
    if let Some(row) = site.restoring(id).await? {
        let session = row.session_ref();
        let fence = site.take_over(&session).await?;
        Builder::new(site, session, fence, RestoreState::default()).abandon().await?;
    }
    Ok(())
}

/// What became of the build that a receipt tells of, which is taken over if it is not complete. `None` if it is gone.
///
/// # Errors
/// `LeaseHeld` when somebody is building it right now; whatever the store answers.
pub(crate) async fn again<'a>(site: Site<'a>, receipt: &Receipt) -> Result<Option<Begun<'a>>> {
    let Some(earlier) = receipt.sessions.first().map(|mark| mark.session.clone()) else {
        return Err(Error::new(ErrorKind::Corrupt, "the receipt of the first commit names no session")
            .with_operation(site.operation));
    };
    let key = SessionKey { workspace: site.workspace.clone(), id: earlier.id.clone() };
    match site.store.session(&key).await? {
        Some(row) if row.incarnation == earlier.incarnation => return Ok(Some(Begun::Complete(earlier))),
        Some(row) => return Ok(Some(Begun::Taken(Box::new(row)))),
        None => {}
    }
    let here = |row: &SessionRow| row.incarnation == earlier.incarnation;
    if !site.restoring(&earlier.id).await?.is_some_and(|row| here(&row)) {
        return Ok(None);
    }
    let fence = site.take_over(&earlier).await?;
    // Read again: the former builder may have written until it was taken over from.
    let built = site.restoring(&earlier.id).await?.filter(here).map(|row| row.restore.unwrap_or_default());
    let builder = Builder::new(site, earlier, fence, built.unwrap_or_default());
    match built {
        Some(built) => Ok(Some(Begun::Building(Box::new(builder), built))),
        None => {
            // Sealed or removed in that moment: what was taken is the lease of a session in use, or of none.
            let _ = builder.leave().await;
            Ok(None)
        }
    }
}

impl Site<'_> {
    fn random<const N: usize>(&self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.entropy.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn grant(&self, session: &SessionRef, takeover: Takeover) -> Result<LeaseGrant> {
        Ok(LeaseGrant {
            name: LeaseName::Session(session.clone()),
            owner: self.store.info().owner,
            token: LeaseToken::from_bytes(self.random()?),
            purpose: LeasePurpose::Fork,
            ttl_ms: LEASE_MS,
            takeover,
        })
    }

    /// The session with this id, if it is half built.
    async fn restoring(&self, id: &SessionId) -> Result<Option<SessionRow>> {
        let mut query = SessionQuery::new(self.workspace.clone());
        query.state = SessionState::Restoring;
        query.audience = turnkeep_core::query::AudienceFilter::Any;
        query.order = turnkeep_core::query::SessionOrder::Id;
        // In bytewise order the id itself comes before all that begin with it.
        query.id_prefix = Some(id.as_str().to_owned());
        query.limit = 1;
        Ok(self.store.sessions(&query).await?.items.into_iter().find(|row| row.id == *id))
    }

    /// Takes the lease of a builder that is dead, or that paused for longer than it may.
    async fn take_over(&self, session: &SessionRef) -> Result<Fence> {
        let mut refused = None;
        for takeover in [Takeover::IfOwnerDead, Takeover::IfExpired] {
            let grant = self.grant(session, takeover)?;
            let commit = Commit::new(self.workspace.clone()).op(Op::AcquireLease(grant.clone()));
            match self.store.commit(commit).await {
                Ok(receipt) => return fence(&grant, receipt.outcomes.first()),
                Err(error) if error.kind() == ErrorKind::LeaseHeld => refused = Some(error),
                Err(error) => return Err(error.with_operation(self.operation)),
            }
        }
        Err(refused
            .unwrap_or_else(|| Error::new(ErrorKind::LeaseHeld, "somebody else builds this session"))
            .with_operation(self.operation))
    }
}

fn fence(grant: &LeaseGrant, outcome: Option<&Outcome>) -> Result<Fence> {
    let Some(Outcome::Lease { epoch, .. }) = outcome else {
        return Err(Error::new(ErrorKind::Corrupt, "the receipt of the first commit names no lease"));
    };
    Ok(Fence { name: grant.name.clone(), owner: grant.owner, token: grant.token, epoch: *epoch })
}

impl<'a> Builder<'a> {
    fn new(site: Site<'a>, session: SessionRef, fence: Fence, built: RestoreState) -> Self {
        let most_bytes = SLICE_BYTES.min(site.store.info().limits.commit_bytes);
        Self { site, session, fence, built, slice: Vec::new(), bytes: 0, most_bytes }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.site.store
    }

    pub(crate) fn workspace(&self) -> &WorkspaceId {
        self.site.workspace
    }

    /// The session as it stands.
    pub(crate) async fn row(&self) -> Result<SessionRow> {
        let row = self.site.restoring(&self.session.id).await?;
        row.filter(|row| row.incarnation == self.session.incarnation).ok_or_else(|| {
            Error::new(ErrorKind::LeaseLost, "somebody removed the session while it was built")
                .with("session", &self.session.id)
        })
    }

    /// Adds a row; writes a slice when it is full.
    pub(crate) async fn push(&mut self, row: Row) -> Result<()> {
        let bytes = size(&row);
        let full =
            self.slice.len() >= SLICE_ROWS as usize || self.bytes.saturating_add(bytes) > self.most_bytes;
        if full && !self.slice.is_empty() {
            self.flush().await?;
        }
        self.bytes += bytes;
        self.slice.push(row);
        Ok(())
    }

    /// Writes what is left of the slice at hand.
    pub(super) async fn flush(&mut self) -> Result<()> {
        if self.slice.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.slice);
        self.bytes = 0;
        for row in &rows {
            self.built.digest = fold_row(&self.built.digest, row);
        }
        self.built.rows += rows.len() as u64;
        let commit = Commit::new(self.site.workspace.clone())
            .fence(self.fence.clone())
            .op(Op::RenewLease { fence: self.fence.clone(), ttl_ms: LEASE_MS })
            .op(Op::Restore { session: self.session.clone(), rows });
        self.site.store.commit(commit).await.map_err(|error| error.with_operation(self.site.operation))?;
        Ok(())
    }

    /// Copies the entries after `after` up to `through` from another session.
    pub(crate) async fn copy(
        &mut self,
        from: &SessionRef,
        after: Option<EntryNo>,
        through: EntryNo,
    ) -> Result<()> {
        let commit = Commit::new(self.site.workspace.clone())
            .fence(self.fence.clone())
            .op(Op::RenewLease { fence: self.fence.clone(), ttl_ms: LEASE_MS })
            .op(Op::CopyEntries { from: from.clone(), to: self.session.clone(), after, through });
        self.site.store.commit(commit).await.map_err(|error| error.with_operation(self.site.operation))?;
        let count = through.get() - after.map_or(0, EntryNo::get);
        self.built = RestoreState { rows: self.built.rows + u64::from(count), digest: copied(from, through) };
        Ok(())
    }

    /// Writes what is left, and puts the session into use, with a last change of what is said of it.
    pub(crate) async fn seal(
        mut self,
        leaf: Option<EntryNo>,
        patch: Option<SessionPatch>,
    ) -> Result<SessionRef> {
        self.flush().await?;
        let RestoreState { rows, digest } = self.built;
        let mut commit = Commit::new(self.site.workspace.clone())
            .fence(self.fence.clone())
            .op(Op::SealSession { session: self.session.clone(), leaf, rows, digest });
        if let Some(patch) = patch {
            commit = commit.op(Op::PatchSession { session: self.session.clone(), patch });
        }
        let commit = commit.op(Op::ReleaseLease { fence: self.fence });
        self.site.store.commit(commit).await.map_err(|error| error.with_operation(self.site.operation))?;
        Ok(self.session)
    }

    /// Removes what was built.
    pub(crate) async fn abandon(self) -> Result<()> {
        let commit = Commit::new(self.site.workspace.clone())
            .fence(self.fence)
            .op(Op::DeleteSession { session: self.session, force: false });
        self.site.store.commit(commit).await.map_err(|error| error.with_operation(self.site.operation))?;
        Ok(())
    }

    /// The proof that this builder is the one, for giving it back when nobody waits for the build any more.
    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    /// After an error: what can be tried again later is left for the next try; all else is removed. Neither hides the
    /// error itself.
    pub(crate) async fn give_up(self, error: &Error) {
        let later = error.is_retryable() || error.kind() == ErrorKind::Full;
        let _ = if later { self.leave().await } else { self.abandon().await };
    }

    /// Lets go of what was built, so that the next try can go on with it at once.
    pub(crate) async fn leave(self) -> Result<()> {
        let commit = Commit::new(self.site.workspace.clone()).op(Op::ReleaseLease { fence: self.fence });
        self.site.store.commit(commit).await?;
        Ok(())
    }
}

/// Bytes of a row that count towards the limit of a commit.
fn size(row: &Row) -> usize {
    let payload = |payload: &turnkeep_core::Payload| payload.as_str().len();
    match row {
        Row::Session(image) => image.profile.meta.as_ref().map_or(0, payload) + 1024,
        Row::Entry(entry) => payload(&entry.payload) + entry.text.as_ref().map_or(0, String::len),
        Row::Run(run) => {
            let parts = [&run.error, &run.progress, &run.context_usage].into_iter().flatten();
            parts.map(payload).sum::<usize>() + 1024
        }
        Row::Stream(_) => 0,
        Row::Event { event, .. } => payload(&event.payload),
        Row::Record(record) => payload(&record.payload),
    }
}
