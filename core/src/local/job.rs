//! The jobs of a committer, in the queue and on their way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::commit::{Commit, Fence, LeaseGrant, Op, Put, Receipt};
use crate::error::{Error, Result};
use crate::id::Incarnation;
use crate::local::committer::busy;
use crate::model::LeaseName;

pub(super) type Chore<E> = Box<dyn FnOnce(&mut E) + Send>;

#[expect(
    clippy::large_enum_variant,
    reason = "nearly every job is a commit, and a box for each would cost more"
)]
pub(super) enum Job<E> {
    Commit(Pending),
    Chore(Chore<E>),
    Close(oneshot::Sender<Result<()>>),
}

impl<E> Job<E> {
    /// Answers a job that comes after a close. Whoever waits for a chore or a close learns it from the dropped answer.
    pub(super) fn refuse(self) {
        if let Self::Commit(pending) = self {
            pending.answer(Err(Error::closed()));
        }
    }
}

pub(super) struct Pending {
    pub(super) commit: Commit,
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<Receipt>>,
}

impl Pending {
    pub(super) fn answer(self, answer: Result<Receipt>) {
        // A caller that went away does not want the answer; what is done stays done.
        let _ = self.reply.send(answer);
    }
}

/// Waits for a job on this thread; pending when nobody came in time.
pub(super) fn next_job<E>(
    jobs: &mut mpsc::Receiver<Job<E>>,
    within: Option<Duration>,
) -> Poll<Option<Job<E>>> {
    let until = within.map(|within| Instant::now() + within);
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(job) = jobs.poll_recv(&mut context) {
            return Poll::Ready(job);
        }
        match until {
            None => std::thread::park(),
            Some(until) => match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Poll::Pending,
                left => std::thread::park_timeout(left),
            },
        }
    }
}

/// Takes what is in the queue, without waiting.
pub(super) fn fill<E>(inbox: &mut VecDeque<Job<E>>, jobs: &mut mpsc::Receiver<Job<E>>, most: usize) {
    while inbox.len() < most
        && let Ok(job) = jobs.try_recv()
    {
        inbox.push_back(job);
    }
}

/// Answers those in the inbox whose time is over while others wait for the lock.
pub(super) fn withdraw_late<E>(inbox: VecDeque<Job<E>>) -> VecDeque<Job<E>> {
    let now = Instant::now();
    let late = |job: &Job<E>| matches!(job, Job::Commit(member) if member.deadline <= now);
    let (late, rest): (VecDeque<_>, VecDeque<_>) = inbox.into_iter().partition(late);
    for job in late {
        if let Job::Commit(member) = job {
            member.answer(Err(busy()));
        }
    }
    rest
}

pub(super) fn split_late(members: Vec<Pending>) -> (Vec<Pending>, Vec<Pending>) {
    let now = Instant::now();
    members.into_iter().partition(|member| member.deadline <= now)
}

pub(super) fn refuse(members: Vec<Pending>, error: &Error) {
    members.into_iter().for_each(|member| member.answer(Err(error.duplicate())));
}

/// The session that an op is about.
pub(super) fn session_of(op: &Op) -> Option<Incarnation> {
    match op {
        Op::CreateSession(new) => Some(new.incarnation),
        Op::WhenKey { session, .. }
        | Op::PatchSession { session, .. }
        | Op::DeleteSession { session, .. }
        | Op::Append { session, .. }
        | Op::MoveLeaf { session, .. }
        | Op::CopyEntries { to: session, .. }
        | Op::SealSession { session, .. }
        | Op::Restore { session, .. }
        | Op::StartRun { session, .. }
        | Op::TransitionRun { session, .. }
        | Op::ReopenRun { session, .. }
        | Op::PatchRun { session, .. }
        | Op::AddUsage { session, .. }
        | Op::AppendEvents { session, .. }
        | Op::DropEvents { session, .. } => Some(session.incarnation),
        Op::PutRecord(Put { owner, .. }) | Op::DeleteRecord { owner, .. } => {
            owner.as_ref().map(|owner| owner.incarnation)
        }
        Op::AcquireLease(LeaseGrant { name, .. })
        | Op::RenewLease { fence: Fence { name, .. }, .. }
        | Op::ReleaseLease { fence: Fence { name, .. } } => match name {
            LeaseName::Session(session) => Some(session.incarnation),
            LeaseName::Named(_) => None,
        },
        Op::RestoreRecord { .. } => None,
    }
}
