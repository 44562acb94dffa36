//! Doing things that a clause takes for granted: a refusal ends it.

use turnkeep_core::commit::{Fence, LeaseGrant, NewEntry, NewRun, Op, Put};
use turnkeep_core::model::{
    ForkKind, ForkOrigin, LeasePurpose, Profile, RunState, RunStates, SessionState, Version,
};
use turnkeep_core::query::SessionQuery;
use turnkeep_core::{Commit, EntryNo, Error, ErrorKind, Outcome as Done, Receipt, RunId, SessionRef};

use super::{Kit, user};
use crate::verdict::{Outcome, Stop};

impl Kit {
    /// Makes a commit that the contract allows.
    #[track_caller]
    pub(crate) fn apply(&self, commit: Commit) -> impl Future<Output = Outcome<Receipt>> + Send {
        let place = std::panic::Location::caller();
        async move {
            self.store.commit(commit).await.map_err(|error| {
                Stop::fail(format!("the commit at {}:{} was refused: {error}", place.file(), place.line()))
            })
        }
    }

    /// Makes a commit that the contract refuses with this kind.
    #[track_caller]
    pub(crate) fn refused(
        &self,
        commit: Commit,
        kind: ErrorKind,
    ) -> impl Future<Output = Outcome<Error>> + Send {
        let place = std::panic::Location::caller();
        async move {
            let at = format!("the commit at {}:{}", place.file(), place.line());
            Ok(ensure_refused!(self.store.commit(commit).await, kind, "{at}"))
        }
    }

    /// Creates an empty session.
    #[track_caller]
    pub(crate) fn create(&self, id: &str) -> impl Future<Output = Outcome<SessionRef>> + Send {
        let session = self.life(id);
        let applied = self.apply(self.commit().op(Op::CreateSession(self.new_session(&session))));
        async move { applied.await.map(|_| session) }
    }

    /// Appends entries and gives their numbers.
    #[track_caller]
    pub(crate) fn append(
        &self,
        session: &SessionRef,
        entries: Vec<NewEntry>,
    ) -> impl Future<Output = Outcome<Vec<EntryNo>>> + Send {
        let applied = self.apply(self.appending(session, entries));
        async move { applied.await.map(|receipt| receipt.entries(0).collect()) }
    }

    /// The commit that appends entries.
    pub(crate) fn appending(&self, session: &SessionRef, entries: Vec<NewEntry>) -> Commit {
        self.commit().op(Op::Append { session: session.clone(), entries })
    }

    /// Appends one message and gives its number.
    #[track_caller]
    pub(crate) fn say(
        &self,
        session: &SessionRef,
        text: &str,
    ) -> impl Future<Output = Outcome<EntryNo>> + Send {
        let appended = self.append(session, vec![user(text)]);
        async move {
            let numbers = appended.await?;
            numbers.first().copied().ok_or_else(|| Stop::fail("the receipt of an append names no number"))
        }
    }

    /// Deletes a session.
    #[track_caller]
    pub(crate) fn delete(&self, session: &SessionRef) -> impl Future<Output = Outcome<Receipt>> + Send {
        self.apply(self.commit().op(Op::DeleteSession { session: session.clone(), force: false }))
    }

    /// Writes a record and gives its version.
    #[track_caller]
    pub(crate) fn put(&self, record: Put) -> impl Future<Output = Outcome<Version>> + Send {
        let applied = self.apply(self.commit().op(Op::PutRecord(record)));
        async move {
            match applied.await?.outcomes.first() {
                Some(Done::Record { version, .. }) => Ok(*version),
                other => Err(Stop::fail(format!("the receipt of a put names no version: {other:?}"))),
            }
        }
    }

    /// Starts a run.
    #[track_caller]
    pub(crate) fn start(
        &self,
        session: &SessionRef,
        run: NewRun,
    ) -> impl Future<Output = Outcome<Receipt>> + Send {
        self.apply(self.commit().op(Op::StartRun { session: session.clone(), run }))
    }

    /// The op that moves a run that is active to a state.
    pub(crate) fn moving(&self, session: &SessionRef, run: &RunId, to: RunState) -> Op {
        Op::TransitionRun {
            session: session.clone(),
            run: run.clone(),
            from: RunStates::ACTIVE,
            to,
            error: None,
        }
    }

    /// Takes a session's lease and gives the fence that proves it.
    #[track_caller]
    pub(crate) fn acquire(
        &self,
        session: &SessionRef,
        ttl_ms: u64,
    ) -> impl Future<Output = Outcome<Fence>> + Send {
        self.acquire_as(self.session_grant(session, ttl_ms))
    }

    /// Takes a lease and gives the fence that proves it.
    #[track_caller]
    pub(crate) fn acquire_as(&self, grant: LeaseGrant) -> impl Future<Output = Outcome<Fence>> + Send {
        let applied = self.apply(self.commit().op(Op::AcquireLease(grant.clone())));
        async move {
            let receipt = applied.await?;
            fence_of(&grant, receipt.outcomes.first())
        }
    }

    /// Gives a lease back.
    #[track_caller]
    pub(crate) fn release(&self, fence: &Fence) -> impl Future<Output = Outcome<Receipt>> + Send {
        self.apply(self.commit().op(Op::ReleaseLease { fence: fence.clone() }))
    }

    /// Begins a restoring session and takes its lease.
    pub(crate) async fn begin_restore(&self, id: &str, profile: Profile) -> Outcome<(SessionRef, Fence)> {
        let session = self.life(id);
        let mut new = self.new_session(&session);
        new.state = SessionState::Restoring;
        new.profile = profile;
        let mut grant = self.session_grant(&session, 60_000);
        grant.purpose = LeasePurpose::Fork;
        let begun = self.commit().op(Op::CreateSession(new)).op(Op::AcquireLease(grant.clone()));
        let receipt = self.apply(begun).await?;
        let fence = fence_of(&grant, receipt.outcomes.get(1))?;
        Ok((session, fence))
    }

    /// Puts a restoring session into use with the count and digest that the store itself reports.
    pub(crate) async fn seal(
        &self,
        session: &SessionRef,
        fence: &Fence,
        leaf: Option<EntryNo>,
    ) -> Outcome<Receipt> {
        let query = SessionQuery { state: SessionState::Restoring, ..self.list() };
        let row = self.sessions(query).await?.into_iter().find(|row| row.id == session.id);
        let restore = row.and_then(|row| row.restore);
        let restore = restore.ok_or_else(|| Stop::fail("the restoring session is not listed as such"))?;
        let seal = self
            .commit()
            .fence(fence.clone())
            .op(Op::SealSession {
                session: session.clone(),
                leaf,
                rows: restore.rows,
                digest: restore.digest,
            })
            .op(Op::ReleaseLease { fence: fence.clone() });
        self.apply(seal).await
    }

    /// Forks a session at an entry, all in slices of at most 1,000.
    pub(crate) async fn fork(&self, parent: &SessionRef, id: &str, at: EntryNo) -> Outcome<SessionRef> {
        let origin = ForkOrigin { kind: ForkKind::Message, boundary: at, seed_length: at.get() };
        let profile = Profile { parent: Some(parent.id.clone()), fork: Some(origin), ..Profile::default() };
        let (child, fence) = self.begin_restore(id, profile).await?;
        let mut after = None;
        while after != Some(at) {
            let done = after.map_or(0, EntryNo::get);
            let through = EntryNo::new(at.get().min(done.saturating_add(1_000))).unwrap_or(at);
            let slice = Op::CopyEntries { from: parent.clone(), to: child.clone(), after, through };
            self.apply(self.commit().fence(fence.clone()).op(slice)).await?;
            after = Some(through);
        }
        let entries =
            self.walk(turnkeep_core::query::EntryQuery { before: at.next(), ..self.every_entry(parent) });
        let leaf = entries.await?.iter().rfind(|entry| entry.on_path).map(|entry| entry.number);
        self.seal(&child, &fence, leaf).await?;
        Ok(child)
    }
}

/// The fence that the outcome of an acquisition gives.
pub(crate) fn fence_of(grant: &LeaseGrant, outcome: Option<&Done>) -> Outcome<Fence> {
    match outcome {
        Some(Done::Lease { epoch, .. }) => {
            Ok(Fence { name: grant.name.clone(), owner: grant.owner, token: grant.token, epoch: *epoch })
        }
        other => Err(Stop::fail(format!("the receipt of an acquisition names no epoch: {other:?}"))),
    }
}
