//! An engine that keeps a naive store, tells what it is asked, waits at a gate, and fails on demand.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::local::{CommitFailure, CommitterOptions, Engine, GroupCommitter, WriteLock};
use turnkeep_core::model::SessionState;
use turnkeep_core::rules::{Facts, ReadSet, Stamp, Write, WriteSet};
use turnkeep_core::{Commit, Receipt, SessionRef, WorkspaceId};

use crate::kit::{append, at, commit, create, message, session, stamp};
use crate::naive::{Naive, everybody_lives};

/// No test waits longer than this, and none should come near it.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Begin,
    /// The texts of the entries that are written.
    Apply(Vec<String>),
    Commit,
    Rollback,
    Close,
}

/// How a commit of the engine ends; without an order it succeeds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    NothingApplied,
    UnknownButLanded,
    UnknownAndLost,
}

#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) calls: Vec<Call>,
    pub(crate) store: Naive,
    pub(crate) ends: VecDeque<End>,
    /// Writing an entry with this text fails.
    pub(crate) full_at: Option<&'static str>,
    /// Writing an entry with this text panics.
    pub(crate) panic_at: Option<&'static str>,
    /// Look-ups in this workspace fail.
    pub(crate) damaged: Option<WorkspaceId>,
    pub(crate) begin_fails: bool,
    /// Of so many commits of the engine one applies nothing; 0 means that none does.
    pub(crate) fail_every: usize,
    pub(crate) rollback_fails: bool,
    /// Slices of chores that are left; `None` means that they never end.
    pub(crate) chores: Option<u32>,
    /// Slices that are done only when nobody came for a while.
    pub(crate) rests: u32,
    gate_closed: bool,
    at_gate: bool,
}

/// The test's side of an engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control(Arc<(Mutex<Script>, Condvar)>);

impl Control {
    /// An engine with sessions `s0` to `s9`, without chores.
    pub(crate) fn new() -> Self {
        let control = Self::default();
        {
            let mut script = control.script();
            script.chores = Some(0);
            for place in 0..10 {
                let create = commit().op(create(&nth(place), SessionState::Active));
                script.store.commit(&create, &stamp(1)).unwrap();
            }
        }
        control
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.0.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.script().calls.clone()
    }

    pub(crate) fn count(&self, call: &Call) -> usize {
        self.script().calls.iter().filter(|known| *known == call).count()
    }

    /// The texts of the entries of a session that are durable.
    pub(crate) fn texts(&self, session: &SessionRef) -> Vec<String> {
        let script = self.script();
        script.store.life(session).entries.iter().filter_map(|entry| entry.text.clone()).collect()
    }

    /// The engine stops in its next `begin` until the gate is opened.
    pub(crate) fn close_gate(&self) {
        self.script().gate_closed = true;
    }

    pub(crate) fn open_gate(&self) {
        self.script().gate_closed = false;
        self.0.1.notify_all();
    }

    /// Waits until the engine stands at the gate.
    pub(crate) fn wait_at_gate(&self) {
        self.wait_for(|script| script.at_gate);
    }

    /// Waits until something is so.
    pub(crate) fn wait_for(&self, so: impl Fn(&Script) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut script = self.script();
        while !so(&script) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain; so far: {:?}", script.calls);
            script = self.0.1.wait_timeout(script, left).unwrap().0;
        }
    }

    fn pass_gate(&self) {
        let mut script = self.script();
        while script.gate_closed {
            script.at_gate = true;
            self.0.1.notify_all();
            script = self.0.1.wait_timeout(script, PATIENCE).unwrap().0;
        }
        script.at_gate = false;
    }

    fn note(&self, call: Call) {
        self.script().calls.push(call);
        self.0.1.notify_all();
    }

    pub(crate) fn start(&self, options: CommitterOptions) -> GroupCommitter<FakeEngine> {
        GroupCommitter::start(FakeEngine { control: self.clone(), open: None, activity: 10 }, options)
            .unwrap()
    }

    pub(crate) fn committer(&self) -> GroupCommitter<FakeEngine> {
        self.start(CommitterOptions::new("test writer"))
    }

    pub(crate) fn committer_with_lock(&self, lock: WriteLock) -> GroupCommitter<FakeEngine> {
        self.start(CommitterOptions { write_lock: Some(lock), ..CommitterOptions::new("test writer") })
    }
}

/// Session `s0` to `s9`.
pub(crate) fn nth(place: u8) -> SessionRef {
    session(&format!("s{place}"), place + 1)
}

/// One message to the n-th session.
pub(crate) fn say(place: u8, text: &str) -> Commit {
    commit().op(append(&nth(place), vec![message(text)]))
}

#[derive(Debug)]
pub(crate) struct FakeEngine {
    control: Control,
    open: Option<Naive>,
    activity: u64,
}

impl FakeEngine {
    pub(crate) fn control(&self) -> &Control {
        &self.control
    }
}

impl Engine for FakeEngine {
    fn begin(&mut self, _deadline: Instant) -> Result<()> {
        assert!(self.open.is_none(), "one transaction at a time");
        self.control.note(Call::Begin);
        self.control.pass_gate();
        if self.control.script().begin_fails {
            return Err(Error::new(ErrorKind::Busy, "somebody else writes"));
        }
        self.open = Some(self.control.script().store.clone());
        Ok(())
    }

    fn stamp(&mut self) -> Result<Stamp> {
        self.activity += 1;
        Ok(Stamp { now: at(0), ..stamp(self.activity) })
    }

    fn facts(&mut self, workspace: &WorkspaceId, reads: &ReadSet, _stamp: &Stamp) -> Result<Facts> {
        if self.control.script().damaged.as_ref() == Some(workspace) {
            return Err(Error::new(ErrorKind::Corrupt, "a row cannot be read"));
        }
        Ok(self.open.as_ref().unwrap().facts(reads, everybody_lives))
    }

    fn apply(&mut self, writes: &WriteSet) -> Result<()> {
        let texts: Vec<String> = writes
            .writes
            .iter()
            .flat_map(
                |write| if let Write::Entries { entries, .. } = write { entries.as_slice() } else { &[] },
            )
            .filter_map(|entry| entry.text.clone())
            .collect();
        self.control.note(Call::Apply(texts.clone()));
        let (full_at, panic_at) = {
            let script = self.control.script();
            (script.full_at, script.panic_at)
        };
        let holds = |text: Option<&str>| text.is_some_and(|text| texts.iter().any(|known| known == text));
        assert!(!holds(panic_at), "ordered by the test");
        if holds(full_at) {
            return Err(Error::new(ErrorKind::Full, "no room"));
        }
        self.open.as_mut().unwrap().apply(writes);
        Ok(())
    }

    fn commit(&mut self) -> std::result::Result<(), CommitFailure> {
        self.control.note(Call::Commit);
        let open = self.open.take().unwrap();
        let mut script = self.control.script();
        let commits = script.calls.iter().filter(|call| **call == Call::Commit).count();
        if script.fail_every > 0 && commits % script.fail_every == 0 {
            script.ends.push_front(End::NothingApplied);
        }
        let error = |kind| Error::new(kind, "ordered by the test");
        match script.ends.pop_front() {
            None => script.store = open,
            Some(End::NothingApplied) => return Err(CommitFailure::NothingApplied(error(ErrorKind::Full))),
            Some(End::UnknownButLanded) => {
                script.store = open;
                return Err(CommitFailure::Unknown(error(ErrorKind::Io)));
            }
            Some(End::UnknownAndLost) => return Err(CommitFailure::Unknown(error(ErrorKind::Io))),
        }
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        self.open = None;
        self.control.note(Call::Rollback);
        if self.control.script().rollback_fails {
            return Err(Error::new(ErrorKind::Io, "ordered by the test"));
        }
        Ok(())
    }

    fn housekeeping(&mut self, idle: bool) -> bool {
        assert!(self.open.is_none(), "chores happen outside of transactions");
        let mut script = self.control.script();
        match &mut script.chores {
            None => true,
            Some(left) => {
                if idle {
                    *left = left.saturating_sub(1);
                }
                let more = *left > 0;
                self.control.0.1.notify_all();
                more
            }
        }
    }

    fn rests_after(&self) -> Option<Duration> {
        (self.control.script().rests > 0).then_some(Duration::from_millis(5))
    }

    fn rest(&mut self) -> bool {
        assert!(self.open.is_none(), "chores happen outside of transactions");
        let mut script = self.control.script();
        script.rests = script.rests.saturating_sub(1);
        self.control.0.1.notify_all();
        script.rests > 0
    }

    fn close(&mut self) -> Result<()> {
        self.control.note(Call::Close);
        Ok(())
    }
}

/// A commit on its way that the test polls by hand.
pub(crate) type Flight<'c> = Pin<Box<dyn Future<Output = Result<Receipt>> + 'c>>;

/// Puts a commit into the queue.
pub(crate) fn queue<'c>(committer: &'c GroupCommitter<FakeEngine>, commit: Commit) -> Flight<'c> {
    let mut flight: Flight<'c> = Box::pin(committer.commit(commit));
    assert!(poll_once(&mut flight).is_pending());
    flight
}

pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits for a future on this thread, with no runtime at all.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "waited in vain for an answer");
        std::thread::park_timeout(left);
    }
}
