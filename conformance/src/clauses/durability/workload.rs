//! Work on a disk that remembers, with all that was readable after each commit.

use turnkeep_core::commit::{Op, SessionPatch};
use turnkeep_core::model::{ForkKind, ForkOrigin, Profile, RunState, SessionRow, SessionState};
use turnkeep_core::query::SessionQuery;
use turnkeep_core::{EntryNo, ErrorKind, SessionRef};

use crate::context::Context;
use crate::disk::{Disk, Log, Mark};
use crate::kit::{Kit, Snapshot, event, gather, keyed, name, note, put, run, spawn, user};
use crate::verdict::{Outcome, Stop};

/// All that can be read of the workspace at one moment, what is being built included.
#[derive(Clone, Debug)]
pub(super) struct State {
    snapshot: Snapshot,
    building: Vec<SessionRow>,
    /// Within a group nobody looked, so its mark is not known.
    mark: bool,
}

impl State {
    pub(super) async fn read(kit: &Kit) -> Outcome<Self> {
        let snapshot = kit.snapshot().await?;
        let building = SessionQuery { state: SessionState::Restoring, ..kit.list_by_id() };
        Ok(Self { snapshot, building: kit.sessions(building).await?, mark: true })
    }

    /// What is other than expected; `None` if nothing is.
    pub(super) fn differs(&self, expected: &Self) -> Option<String> {
        let (seen, wanted) = (&self.snapshot, &expected.snapshot);
        let ids = |of: &Snapshot| of.sessions.iter().map(|(row, ..)| row.id.to_string()).collect::<Vec<_>>();
        if ids(seen) != ids(wanted) {
            return Some(format!("sessions are {:?}, not {:?}", ids(seen), ids(wanted)));
        }
        for ((row, rows, lease), (old_row, old_rows, old_lease)) in seen.sessions.iter().zip(&wanted.sessions)
        {
            if row != old_row {
                return Some(format!("the row of session {} differs", row.id));
            }
            if rows != old_rows {
                return Some(format!(
                    "session {} has other rows ({} of {})",
                    row.id,
                    rows.len(),
                    old_rows.len()
                ));
            }
            if lease != old_lease {
                return Some(format!("the lease of session {} differs", row.id));
            }
        }
        if seen.unowned != wanted.unowned {
            return Some("records that nobody owns differ".to_owned());
        }
        if self.building != expected.building {
            return Some("what is being built differs".to_owned());
        }
        (self.mark && expected.mark && seen.mark != wanted.mark)
            .then(|| "the mark of the workspace differs".to_owned())
    }

    /// A session that an append without a fence may go to.
    pub(super) fn free_session(&self) -> Option<&SessionRow> {
        let free = |lease: &Option<_>| lease.is_none();
        let found =
            self.snapshot.sessions.iter().find(|(row, _, lease)| row.active_run.is_none() && free(lease));
        found.map(|(row, ..)| row)
    }
}

/// What was done on a disk, and what each commit made readable.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) log: Log,
    /// After as many commits as its place says.
    pub(super) states: Vec<State>,
}

/// Does commits one by one and looks after each.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) kit: Kit,
    pub(super) disk: Disk,
    states: Vec<State>,
}

impl Recorder {
    /// Opens the site of a context on a disk. Nothing is to be there yet.
    pub(super) async fn new(cx: &Context, disk: &Disk) -> Outcome<Self> {
        let kit = cx.kit_on(disk).await?;
        let empty = State::read(&kit).await?;
        Ok(Self { kit, disk: disk.clone(), states: vec![empty] })
    }

    pub(super) fn recorded(&self) -> Recorded {
        Recorded { log: self.disk.log(), states: self.states.clone() }
    }

    fn commits(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// One commit.
    pub(super) async fn one<T>(&mut self, commit: impl Future<Output = Outcome<T>>) -> Outcome<T> {
        self.disk.mark(Mark::Begun(self.commits() + 1));
        let done = commit.await?;
        self.disk.mark(Mark::Acked(self.commits() + 1));
        self.states.push(State::read(&self.kit).await?);
        Ok(done)
    }

    /// Appends to several sessions at once, so that they share a sync.
    async fn group(&mut self, sessions: &[SessionRef], text: &str) -> Outcome {
        let before = self.states.last().cloned().ok_or_else(|| Stop::error("a recorder without a state"))?;
        let all = self.commits() + sessions.len() as u64;
        self.disk.mark(Mark::Begun(all));
        let mut commits = Vec::new();
        for session in sessions {
            let (kit, session, text) = (self.kit.clone(), session.clone(), text.to_owned());
            commits
                .push(spawn(async move { kit.append(&session, vec![user(&text), user("and more")]).await }));
        }
        gather(commits).await?;
        self.disk.mark(Mark::Acked(all));
        let after = State::read(&self.kit).await?;
        // Which of them came first is told by the order of activity.
        let mut order: Vec<_> = after.snapshot.sessions.iter().enumerate().collect();
        order.retain(|(at, (row, ..))| {
            before.snapshot.sessions.get(*at).is_none_or(|(old, ..)| old.activity != row.activity)
        });
        order.sort_by_key(|(_, (row, ..))| row.activity);
        ensure_eq!(order.len(), sessions.len(), "sessions that a group of appends changed");
        let mut between = State { mark: false, ..before };
        for (at, session) in order.iter().take(sessions.len() - 1) {
            if let Some(place) = between.snapshot.sessions.get_mut(*at) {
                place.clone_from(session);
            }
            self.states.push(between.clone());
        }
        self.states.push(after);
        Ok(())
    }

    async fn fork(&mut self, parent: &SessionRef, id: &str, at: EntryNo) -> Outcome<SessionRef> {
        let kit = self.kit.clone();
        let origin = ForkOrigin { kind: ForkKind::Message, boundary: at, seed_length: at.get() };
        let profile = Profile { parent: Some(parent.id.clone()), fork: Some(origin), ..Profile::default() };
        let (child, fence) = self.one(kit.begin_restore(id, profile)).await?;
        let half = EntryNo::new(at.get() / 2);
        for (after, through) in [(None, half.unwrap_or(at)), (half, at)] {
            let slice = Op::CopyEntries { from: parent.clone(), to: child.clone(), after, through };
            self.one(kit.apply(kit.commit().fence(fence.clone()).op(slice))).await?;
        }
        self.one(kit.seal(&child, &fence, Some(at))).await?;
        Ok(child)
    }

    /// A turn: a run with its messages and events, and what else a host keeps.
    async fn turn(&mut self, session: &SessionRef, id: &str) -> Outcome {
        let kit = self.kit.clone();
        let fence = self.one(kit.acquire(session, 600_000)).await?;
        let begin = kit
            .appending(session, vec![keyed(&format!("turn/{id}/start"), "the question")])
            .fence(fence.clone())
            .op(Op::StartRun { session: session.clone(), run: run(id) })
            .op(Op::PutRecord(put("intents", id, "{\"n\":1}")));
        self.one(kit.apply(begin)).await?;
        let events = Op::AppendEvents {
            session: session.clone(),
            stream: name("notes"),
            expect_next: None,
            events: vec![event("step", 1), event("step", 2)],
        };
        let words = "an answer of some length, over several pages ".repeat(400);
        let reply = kit.appending(session, vec![user(&words)]).fence(fence.clone()).op(events);
        self.one(kit.apply(reply)).await?;
        let end = kit
            .appending(session, vec![note("done")])
            .fence(fence.clone())
            .op(kit.moving(session, &name(id), RunState::Completed))
            .op(Op::ReleaseLease { fence });
        self.one(kit.apply(end)).await?;
        Ok(())
    }

    /// A round of all that a store is used for. Works on the client at hand.
    pub(super) async fn round(&mut self, cx: &Context, round: usize) -> Outcome {
        let kit = self.kit.clone();
        let mut sessions = Vec::new();
        for at in 0..4 {
            sessions.push(self.one(kit.create(&format!("s{round}-{at}"))).await?);
        }
        let first = sessions[0].clone();
        let texts: Vec<_> = (0..12).map(|at| user(&format!("entry {at} of round {round}"))).collect();
        self.one(kit.append(&first, texts)).await?;
        self.group(&sessions, &format!("group of round {round}")).await?;
        self.hand_over(cx).await?;
        let kit = self.kit.clone();
        self.turn(&first, &format!("r{round}")).await?;
        let at = EntryNo::new(9).ok_or_else(|| Stop::error("entry 9"))?;
        self.fork(&first, &format!("f{round}"), at).await?;
        self.one(kit.put(put("settings", "model", &format!("{{\"round\":{round}}}")))).await?;
        let mut owned = put("bindings", &format!("b{round}"), "[1,2]");
        owned.owner = Some(sessions[1].clone());
        self.one(kit.put(owned)).await?;
        let patch = SessionPatch { pinned: Some(true), ..SessionPatch::default() };
        let patch = Op::PatchSession { session: sessions[2].clone(), patch };
        self.one(kit.apply(kit.commit().op(patch))).await?;
        let back = Op::MoveLeaf { session: first.clone(), to: EntryNo::new(5) };
        self.one(
            kit.apply(
                kit.commit()
                    .op(back)
                    .op(Op::Append { session: first.clone(), entries: vec![user("another branch")] }),
            ),
        )
        .await?;
        let many: Vec<_> = (0..120).map(|at| user(&format!("soon gone {at}"))).collect();
        self.one(kit.append(&sessions[3], many)).await?;
        self.one(kit.delete(&sessions[3])).await?;
        self.group(&sessions[..3], &format!("second group of round {round}")).await?;
        let repeat = kit.appending(&first, vec![user("once")]).request(kit.request("again", &first));
        self.one(kit.apply(repeat.clone())).await?;
        // Known already: it changes nothing, so that it is no commit of its own.
        ensure!(kit.apply(repeat).await?.replayed, "a repeated request was done anew");
        Ok(())
    }

    /// Another client goes on, and the one before leaves: what it had not moved out of a log is moved now, and whoever
    /// stays begins the log anew.
    pub(super) async fn hand_over(&mut self, cx: &Context) -> Outcome {
        let next = cx.kit_on(&self.disk).await?;
        let before = std::mem::replace(&mut self.kit, next);
        before.store.close().await?;
        Ok(())
    }

    /// Everybody leaves, and somebody comes back.
    pub(super) async fn restart(&mut self, cx: &Context) -> Outcome {
        self.kit.store.close().await?;
        self.kit = cx.kit_on(&self.disk).await?;
        Ok(())
    }

    /// Purges what was deleted, if the store has such a chore.
    pub(super) async fn purge(&self) -> Outcome {
        if let Some(maintenance) = self.kit.store.maintenance() {
            match maintenance.purge().await {
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                purged => drop(purged?),
            }
        }
        Ok(())
    }
}

/// The usual work: rounds of everything, with clients that come and go.
pub(super) async fn record(cx: &Context, disk: &Disk, rounds: usize) -> Outcome<Recorded> {
    let mut recorder = Recorder::new(cx, disk).await?;
    for round in 0..rounds {
        recorder.round(cx, round).await?;
        if round % 2 == 0 {
            recorder.hand_over(cx).await?;
        } else {
            recorder.purge().await?;
            recorder.restart(cx).await?;
        }
    }
    recorder.purge().await?;
    let kit = recorder.kit.clone();
    let last = recorder.one(kit.create("last")).await?;
    recorder.one(kit.say(&last, "the last word")).await?;
    kit.store.close().await?;
    Ok(recorder.recorded())
}
