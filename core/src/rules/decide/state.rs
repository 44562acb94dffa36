//! The facts as the ops before have changed them, and what is to be written of them.

use std::collections::HashSet;

use crate::commit::SessionMark;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{EntryKey, EntryNo, RunId, SessionRef, StreamName, WorkspaceId};
use crate::model::{Event, LeaseName, LeaseState, Liveness, Run, SessionRow, SessionState, StreamRow};
use crate::mutant;
use crate::rules::{Facts, LeaseRow, Place, SessionChange, Stamp, Write};

/// An overlay: the facts themselves are changed in place, so that a later op sees an earlier one.
pub(super) struct State<'a> {
    pub(super) workspace: &'a WorkspaceId,
    pub(super) facts: Facts,
    pub(super) stamp: Stamp,
    /// The place of the op at work, for births of records.
    pub(super) place: usize,
    /// Leases that this commit has fenced or acquired, and not released since.
    pub(super) held: HashSet<LeaseName>,
    sessions: Vec<(SessionRef, SessionChange)>,
    runs: Vec<(SessionRef, RunId, bool)>,
    leases: Vec<LeaseName>,
    streams: Vec<(SessionRef, StreamName)>,
    deleted: Vec<SessionRef>,
    copies: Vec<Copied>,
    body: Vec<Write>,
    workspace_touched: bool,
}

/// A slice that this commit copies. The backend does it, so the rules do not see its rows.
struct Copied {
    from: SessionRef,
    to: SessionRef,
    through: EntryNo,
}

impl<'a> State<'a> {
    pub(super) fn new(workspace: &'a WorkspaceId, facts: Facts, stamp: Stamp) -> Self {
        Self {
            workspace,
            facts,
            stamp,
            place: 0,
            held: HashSet::new(),
            sessions: Vec::new(),
            runs: Vec::new(),
            leases: Vec::new(),
            streams: Vec::new(),
            deleted: Vec::new(),
            copies: Vec::new(),
            body: Vec::new(),
            workspace_touched: false,
        }
    }

    /// The session, in use or being built; `NotFound` if this life of it is over.
    pub(super) fn any(&self, session: &SessionRef) -> Result<&SessionRow> {
        let same = |row: &&SessionRow| {
            row.incarnation == session.incarnation || mutant::is("sessions/former-life-passes")
        };
        self.facts.sessions.get(&session.id).filter(same).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no such session; it may have been deleted")
                .with("session", &session.id)
        })
    }

    /// The session in use.
    pub(super) fn active(&self, session: &SessionRef) -> Result<&SessionRow> {
        let row = self.any(session)?;
        if row.state == SessionState::Active || mutant::is("restore/work-on-what-is-built") {
            return Ok(row);
        }
        Err(Error::new(ErrorKind::NotFound, "the session is still being built").with("session", &session.id))
    }

    /// The session to be changed. Moves revision, activity and time once per commit.
    pub(super) fn touch(&mut self, session: &SessionRef, change: SessionChange) -> Result<&mut SessionRow> {
        self.any(session)?;
        let known = self.sessions.iter_mut().find(|(known, _)| known == session);
        let first = known.is_none();
        match known {
            Some((_, so_far)) => *so_far = change.max(*so_far),
            None => self.sessions.push((session.clone(), change)),
        }
        let stamp = self.stamp;
        let Some(row) = self.facts.sessions.get_mut(&session.id) else {
            return Err(
                Error::new(ErrorKind::NotFound, "there is no such session").with("session", &session.id)
            );
        };
        if first && change != SessionChange::New {
            row.revision = row.revision.saturating_add(mutant::either("sessions/revision-stays", 0, 1));
            // What is being built keeps the times of its source.
            if row.state == SessionState::Active {
                row.updated_at =
                    mutant::either("times/updated-backwards", stamp.now, row.updated_at.max(stamp.now));
                row.activity = mutant::either("sessions/activity-stays", row.activity, stamp.activity);
            }
        }
        Ok(row)
    }

    /// A new session.
    pub(super) fn insert_session(&mut self, row: SessionRow) {
        self.sessions.push((row.session_ref(), SessionChange::New));
        self.facts.sessions.insert(row.id.clone(), row);
    }

    /// Whether this commit made the session.
    pub(super) fn made_here(&self, session: &SessionRef) -> bool {
        self.sessions.iter().any(|(known, change)| known == session && *change == SessionChange::New)
    }

    /// Whether this commit deletes the session.
    pub(super) fn deleted_here(&self, session: &SessionRef) -> bool {
        self.deleted.contains(session)
    }

    /// Takes a session out of everything that follows and that is to be written.
    pub(super) fn remove_session(&mut self, session: &SessionRef) {
        self.facts.sessions.remove(&session.id);
        self.facts.leases.remove(&LeaseName::Session(session.clone()));
        self.held.remove(&LeaseName::Session(session.clone()));
        self.sessions.retain(|(known, _)| known != session);
        self.runs.retain(|(known, _, _)| known != session);
        self.streams.retain(|(known, _)| known != session);
        self.leases.retain(|name| !matches!(name, LeaseName::Session(known) if known == session));
        for write in &mut self.body {
            // The record may have replaced one that is stored, which would come back.
            if let Write::Record { record } = write
                && record.owner.as_ref() == Some(session)
            {
                let (collection, key) = (record.collection.clone(), record.key.clone());
                *write = Write::DeleteRecord { collection, key };
            }
        }
        self.body.retain(|write| !belongs_to(write, session));
        for record in self.facts.records.values_mut() {
            if record.record.owner.as_ref() == Some(session) {
                record.owner = crate::rules::OwnerState::Gone;
            }
        }
        self.deleted.push(session.clone());
    }

    /// Lets `changes` notice something that moves no session.
    pub(super) fn touch_workspace(&mut self) {
        self.workspace_touched = true;
    }

    /// A row to be written after the sessions.
    pub(super) fn write(&mut self, write: Write) {
        self.body.push(write);
    }

    /// Copies a slice. Its source must be as it was before this commit, because what it adds up to was looked up
    /// then.
    pub(super) fn copy(
        &mut self,
        from: &SessionRef,
        to: &SessionRef,
        after: Option<EntryNo>,
        through: EntryNo,
    ) -> Result<()> {
        let written = self.body.iter().any(|write| match write {
            Write::Entries { session, .. } => session == from,
            Write::Copy { to, .. } => to == from,
            _ => false,
        });
        if written && !mutant::is("fork/of-what-is-being-written") {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a session cannot be copied in the commit that adds entries to it",
            )
            .with("session", &from.id));
        }
        let (from, to) = (from.clone(), to.clone());
        self.copies.push(Copied { from: from.clone(), to: to.clone(), through });
        self.write(Write::Copy { from, to, after, through });
        Ok(())
    }

    /// Whether this commit copies from the session.
    pub(super) fn copied_from(&self, session: &SessionRef) -> bool {
        self.copies.iter().any(|copied| copied.from == *session)
    }

    /// Refuses work that needs to know what a copy in this commit brings along: its keys, places and runs.
    pub(super) fn settled(&self, session: &SessionRef) -> Result<()> {
        if self.copies.iter().any(|copied| copied.to == *session) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the session is copied in this commit; work on it in the next one",
            )
            .with("session", &session.id));
        }
        Ok(())
    }

    /// Keeps the state of a stream for writing.
    pub(super) fn put_stream(&mut self, session: &SessionRef, row: StreamRow) {
        let key = (session.clone(), row.name.clone());
        if !self.streams.contains(&key) {
            self.streams.push(key.clone());
        }
        self.facts.streams.insert(key, row);
    }

    /// Events to be written, in one piece with those before them where the stream is the same.
    pub(super) fn write_events(&mut self, session: &SessionRef, stream: &StreamName, new: Vec<Event>) {
        if let Some(Write::Events { session: of, stream: name, events }) = self.body.last_mut()
            && of == session
            && name == stream
        {
            events.extend(new);
            return;
        }
        self.body.push(Write::Events { session: session.clone(), stream: stream.clone(), events: new });
    }

    /// The entry with a key, those of this commit included.
    pub(super) fn entry_with_key(&self, session: &SessionRef, key: &EntryKey) -> Option<EntryNo> {
        self.facts.keys.get(&(session.clone(), key.clone())).copied()
    }

    /// Where an entry lies, those of this commit included. All slices of a child are of one source, so an entry that
    /// has been copied lies where it lies there.
    pub(super) fn place_of(&self, session: &SessionRef, number: EntryNo) -> Option<Place> {
        let known = self.facts.places.get(&(session.clone(), number));
        let copied = || {
            let slices = self.copies.iter().filter(|copied| copied.to == *session);
            let mut slices = slices.filter(|copied| number <= copied.through);
            slices.find_map(|copied| self.facts.places.get(&(copied.from.clone(), number)))
        };
        known.or_else(copied).copied()
    }

    /// A run; `NotFound` if the session has none with this id.
    pub(super) fn run(&self, session: &SessionRef, run: &RunId) -> Result<&Run> {
        self.facts.runs.get(&(session.clone(), run.clone())).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no such run")
                .with("session", &session.id)
                .with("run", run)
        })
    }

    /// Keeps a run for writing.
    pub(super) fn put_run(&mut self, run: Run, new: bool) {
        let key = (run.session.clone(), run.id.clone());
        if !self.runs.iter().any(|(session, id, _)| *session == key.0 && *id == key.1) {
            self.runs.push((key.0.clone(), key.1.clone(), new));
        }
        self.facts.runs.insert(key, run);
    }

    /// Keeps a lease for writing.
    pub(super) fn put_lease(&mut self, name: LeaseName, row: LeaseRow) {
        if !self.leases.contains(&name) {
            self.leases.push(name.clone());
        }
        // Whoever takes a lease in a commit lives. Whoever is known to be dead stays dead: the lease may be renewed by
        // another handle that has the proof, and still be taken over.
        let known = self.facts.leases.get(&name).filter(|fact| fact.row.owner == row.owner);
        let liveness = known.map_or(Liveness::Alive, |fact| fact.liveness);
        self.facts.leases.insert(name, crate::rules::LeaseFact { row, liveness });
    }

    /// Lets exclusive work on a session pass: its lease is fenced or acquired here, or free, or may be taken.
    ///
    /// A lease that may be taken becomes a tombstone with the next epoch, so that its former holder is refused
    /// afterwards; but not while a run is active, because then recovery has to come first.
    pub(super) fn exclusive(&mut self, session: &SessionRef) -> Result<()> {
        let active_run = self.active(session)?.active_run.clone();
        let name = LeaseName::Session(session.clone());
        if self.held.contains(&name) {
            return Ok(());
        }
        let Some(fact) = self.facts.leases.get(&name) else { return Ok(()) };
        if fact.row.state == LeaseState::Released {
            return Ok(());
        }
        if fact.row.expires_at > self.stamp.now
            && (fact.liveness != Liveness::Dead || mutant::is("exclusive/waits-for-the-dead"))
            && !mutant::is("exclusive/held-session-written")
        {
            return Err(super::leases::held(&name, &fact.row, self.stamp.now));
        }
        if let Some(run) = active_run.filter(|_| !mutant::is("exclusive/no-recovery-first")) {
            return Err(Error::new(
                ErrorKind::ActiveRun,
                "the session has an active run whose owner is gone; recover it first",
            )
            .with("session", &session.id)
            .with("run", run));
        }
        let mut row = fact.row.clone();
        row.state = LeaseState::Released;
        row.epoch = row.epoch.saturating_add(mutant::either("exclusive/tombstone-keeps-epoch", 0, 1));
        self.put_lease(name, row);
        Ok(())
    }

    /// Exclusive work that looks at entries and runs.
    pub(super) fn work_on(&mut self, session: &SessionRef) -> Result<()> {
        self.exclusive(session)?;
        // Runs are written before a slice is copied, so the slice would bring along what happened after it.
        if self.copied_from(session) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the session is copied from in this commit; work on it in the next one",
            )
            .with("session", &session.id));
        }
        self.settled(session)
    }

    /// Lets the builder of a restoring session pass: only with its lease fenced or acquired here.
    pub(super) fn builder(&self, session: &SessionRef) -> Result<()> {
        let row = self.any(session)?;
        if row.state != SessionState::Restoring && !mutant::is("restore/into-what-is-in-use") {
            return Err(Error::new(ErrorKind::Invalid, "only a session that is being built takes this")
                .with("session", &session.id));
        }
        if self.held.contains(&LeaseName::Session(session.clone())) || mutant::is("restore/without-the-lease")
        {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::LeaseLost,
            "building a session needs its lease, fenced or taken in the same commit",
        )
        .with("session", &session.id))
    }

    /// Everything to write, sessions first, and the sessions as they are now.
    pub(super) fn finish(self) -> (Vec<Write>, Vec<SessionMark>) {
        let Self { facts, sessions, runs, leases, streams, deleted, body, workspace_touched, .. } = self;
        let Facts {
            sessions: mut rows,
            runs: mut run_rows,
            leases: mut lease_rows,
            streams: mut stream_rows,
            ..
        } = facts;
        let mut writes =
            Vec::with_capacity(body.len() + sessions.len() + runs.len() + leases.len() + deleted.len() + 2);
        let mut marks = Vec::with_capacity(sessions.len());
        writes.extend(deleted.into_iter().map(|session| Write::DeleteSession { session }));
        for (session, change) in sessions {
            if let Some(row) = rows.remove(&session.id) {
                marks.push(SessionMark {
                    session,
                    revision: row.revision,
                    head: row.head,
                    leaf: row.path.leaf,
                });
                writes.push(Write::Session { row: Box::new(row), change });
            }
        }
        for (session, id, new) in runs {
            if let Some(run) = run_rows.remove(&(session, id)) {
                writes.push(Write::Run { run: Box::new(run), new });
            }
        }
        for key in streams {
            if let Some(row) = stream_rows.remove(&key) {
                writes.push(Write::Stream { session: key.0, row });
            }
        }
        writes.extend(body);
        for name in leases {
            if let Some(fact) = lease_rows.remove(&name) {
                writes.push(Write::Lease { name, row: fact.row });
            }
        }
        if workspace_touched {
            writes.push(Write::TouchWorkspace);
        }
        (writes, marks)
    }
}

fn belongs_to(write: &Write, session: &SessionRef) -> bool {
    match write {
        Write::Segments { session: of, .. }
        | Write::Entries { session: of, .. }
        | Write::Stream { session: of, .. }
        | Write::Events { session: of, .. }
        | Write::DropEvents { session: of, .. }
        | Write::Copy { to: of, .. } => of == session,
        Write::Ordinal { owner, .. } => owner.as_ref() == Some(session),
        Write::Session { .. }
        | Write::DeleteSession { .. }
        | Write::Run { .. }
        | Write::Record { .. }
        | Write::DeleteRecord { .. }
        | Write::Lease { .. }
        | Write::Request(_)
        | Write::TouchWorkspace => false,
    }
}
