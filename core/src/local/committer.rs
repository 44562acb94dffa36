//! Group commit: many callers, one durable engine commit.
//!
//! One thread drains a queue, decides and writes each commit in one engine transaction, makes it durable once, answers
//! all, and does chores afterwards. There is no timer: the sync is the time in which the next group gathers.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::commit::{Commit, Receipt};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{GROUP_COMMITS, Limits, QUEUE_COMMITS};
use crate::local::job::{Chore, Job, Pending, fill, next_job, refuse, session_of, split_late, withdraw_late};
use crate::local::permit::poisoned;
use crate::local::{CommitFailure, Engine, WriteLock};
use crate::mutant;
use crate::rules::{decide, plan, validate};

/// How a committer works.
#[derive(Debug)]
pub struct CommitterOptions {
    /// The name of the writer thread.
    pub name: String,
    /// How long a commit waits for a busy store unless it says so itself.
    pub busy: Duration,
    /// What the store accepts.
    pub limits: Limits,
    /// Commits that share one durable engine commit; 1 turns grouping off.
    pub group: usize,
    /// The lock that processes stand in line for.
    pub write_lock: Option<WriteLock>,
}

impl CommitterOptions {
    /// Full groups, five seconds of patience, no lock between processes.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let (busy, limits) = (Duration::from_secs(5), Limits::default());
        Self { name: name.into(), busy, limits, group: GROUP_COMMITS, write_lock: None }
    }
}

/// The writer of a local store. Dropping it ends the thread after what is queued.
pub struct GroupCommitter<E: Engine> {
    queue: mpsc::Sender<Job<E>>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
    limits: Limits,
    busy: Duration,
}

impl<E: Engine> fmt::Debug for GroupCommitter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupCommitter").field("busy", &self.busy).finish_non_exhaustive()
    }
}

impl<E: Engine> GroupCommitter<E> {
    /// Starts the writer thread.
    ///
    /// # Errors
    /// `Io` when there can be no thread.
    pub fn start(engine: E, options: CommitterOptions) -> Result<Self> {
        let (queue, jobs) = mpsc::channel(QUEUE_COMMITS);
        let CommitterOptions { name, busy, limits, group, write_lock } = options;
        let writer = Writer { engine, lock: write_lock, group: group.max(1), poisoned: None };
        let thread =
            std::thread::Builder::new().name(name).spawn(move || writer.work(jobs)).map_err(|error| {
                Error::new(ErrorKind::Io, "the writer thread cannot be started").with_source(error)
            })?;
        Ok(Self { queue, thread: Arc::new(Mutex::new(Some(thread))), limits, busy })
    }

    /// Makes one change. Dropped while it waits in the queue, it is withdrawn or lands whole.
    ///
    /// # Errors
    /// The refusal, `Busy` past the deadline, `CommitUnknown`, `Poisoned`, `Closed`.
    pub async fn commit(&self, commit: Commit) -> Result<Receipt> {
        if !mutant::is("committer/forms-not-checked") {
            validate(&commit, &self.limits)?;
        }
        let deadline = deadline(commit.wait.unwrap_or(self.busy));
        let (reply, answer) = oneshot::channel();
        self.queue
            .send(Job::Commit(Pending { commit, deadline, reply }))
            .await
            .map_err(|_| Error::closed())?;
        answer.await.map_err(|_| unknown("the writer failed before it could answer"))?
    }

    /// Runs a chore on the writer thread, between transactions.
    ///
    /// # Errors
    /// `Closed` when the store is.
    pub async fn run<T: Send + 'static>(
        &self,
        chore: impl FnOnce(&mut E) -> T + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let chore: Chore<E> = Box::new(move |engine| {
            let _ = reply.send(chore(engine));
        });
        self.queue.send(Job::Chore(chore)).await.map_err(|_| Error::closed())?;
        answer.await.map_err(|_| Error::closed())
    }

    /// Ends the writer after what is queued, flushed.
    ///
    /// # Errors
    /// What the engine's end answered; `Closed` if it had ended before.
    pub async fn close(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Job::Close(reply)).await.map_err(|_| Error::closed())?;
        let ended = answer.await.map_err(|_| Error::closed())?;
        // The thread has answered and only returns now: this wait is short.
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
        ended
    }
}

/// The longest wait there is: no instant and no engine knows one that is arbitrarily far away, and a day is patience
/// enough for anybody.
pub const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

fn deadline(wait: Duration) -> Instant {
    Instant::now() + wait.min(LONGEST_WAIT)
}

fn unknown(message: &str) -> Error {
    Error::new(ErrorKind::CommitUnknown, format!("{message}; repeat the commit with its request id"))
}

struct Writer<E> {
    engine: E,
    lock: Option<WriteLock>,
    group: usize,
    poisoned: Option<Error>,
}

/// Waits a moment without sleeping: a caller that commits in sequence comes back within it, and waking a thread takes
/// about as long.
fn look_for_more<E>(jobs: &mpsc::Receiver<Job<E>>) {
    let until = Instant::now() + LOOK;
    while jobs.is_empty() && !jobs.is_closed() && Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// How a group went.
enum Attempt {
    /// Every member is answered.
    Answered,
    /// Provably nothing was applied; the error, and the members to try one by one.
    Undone(Error, Vec<Pending>),
    /// The lock between processes is not ours yet. These still have time.
    NotYet(Vec<Pending>),
}

/// How long the writer looks for the next job before it sleeps.
const LOOK: Duration = Duration::from_micros(40);

/// How long the writer waits for the lock before it looks whether somebody new has less patience.
const LOCK_SLICE: Duration = Duration::from_millis(100);

/// What the writer has taken from the queue while it stands in line.
const INBOX_JOBS: usize = 4 * QUEUE_COMMITS;

impl<E: Engine> Writer<E> {
    fn work(mut self, mut jobs: mpsc::Receiver<Job<E>>) {
        let mut inbox = VecDeque::with_capacity(self.group);
        let ended = loop {
            if inbox.is_empty() {
                look_for_more(&jobs);
                let quiet = if self.poisoned.is_none() { self.engine.rests_after() } else { None };
                match next_job(&mut jobs, quiet) {
                    Poll::Ready(Some(job)) => inbox.push_back(job),
                    Poll::Ready(None) => break None,
                    Poll::Pending => {
                        self.contained(|writer| writer.chores(&jobs, E::rest));
                        continue;
                    }
                }
            }
            fill(&mut inbox, &mut jobs, self.group);
            let members = self.take_group(&mut inbox);
            if !members.is_empty() {
                let waiting = self.contained(|writer| writer.commits(members, &jobs)).unwrap_or_default();
                if !waiting.is_empty() {
                    waiting.into_iter().rev().for_each(|member| inbox.push_front(Job::Commit(member)));
                    fill(&mut inbox, &mut jobs, INBOX_JOBS);
                    inbox = withdraw_late(inbox);
                }
            } else if let Some(job) = inbox.pop_front() {
                match job {
                    Job::Close(reply) => break Some(reply),
                    Job::Chore(chore) => drop(self.contained(|writer| chore(&mut writer.engine))),
                    Job::Commit(member) => inbox.push_front(Job::Commit(member)),
                }
            }
            if inbox.is_empty() {
                self.contained(|writer| writer.chores(&jobs, |engine| engine.housekeeping(true)));
            }
        };
        jobs.close();
        inbox.into_iter().for_each(Job::refuse);
        // Receiving to the end waits for those that are just being sent.
        while let Some(job) = jobs.blocking_recv() {
            job.refuse();
        }
        let mut result = Err(unknown("the engine panicked while it closed"));
        self.contained(|writer| result = writer.engine.close());
        // The lock and the engine go before the answer, so that whoever waits for it can open the store again.
        drop(self);
        if let Some(reply) = ended {
            let _ = reply.send(result);
        }
    }

    /// Works so that a panic of the engine neither ends the thread nor leaves anybody waiting: its callers learn that
    /// their commits are unknown, as their answers are dropped, and all later ones that the store is poisoned.
    fn contained<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        // The engine may be left half way, but once poisoned nothing is written through it any more.
        let done = catch_unwind(AssertUnwindSafe(|| work(self)));
        if done.is_err() {
            self.poison(&Error::new(ErrorKind::Io, "the engine panicked; see the output of the process"));
            // Nobody else should wait for a transaction that was left open.
            let _ = catch_unwind(AssertUnwindSafe(|| self.engine.rollback()));
            self.unlock();
        }
        done.ok()
    }

    /// The commits at the head of the inbox, as many as fit in a group.
    fn take_group(&self, inbox: &mut VecDeque<Job<E>>) -> Vec<Pending> {
        let most = mutant::either("committer/each-syncs-alone", 1, self.group);
        let mut members = Vec::with_capacity(inbox.len().min(most));
        while members.len() < most {
            match inbox.pop_front() {
                Some(Job::Commit(member)) => members.push(member),
                Some(other) => {
                    inbox.push_front(other);
                    break;
                }
                None => break,
            }
        }
        members
    }

    /// Slices of chores while nobody waits.
    fn chores(&mut self, jobs: &mpsc::Receiver<Job<E>>, slice: impl Fn(&mut E) -> bool) {
        while jobs.is_empty() && !jobs.is_closed() && self.poisoned.is_none() {
            if !self.try_lock() {
                return;
            }
            let more = slice(&mut self.engine);
            self.unlock();
            if !more {
                return;
            }
            if let Some(lock) = &self.lock {
                lock.let_others();
            }
        }
    }

    /// Answers a group; hands back those that still wait for the lock.
    fn commits(&mut self, mut members: Vec<Pending>, jobs: &mpsc::Receiver<Job<E>>) -> Vec<Pending> {
        members.retain(|member| !member.reply.is_closed());
        // Neighbours on disk are written together.
        members.sort_by_key(|member| member.commit.ops.iter().find_map(session_of));
        match self.attempt(members) {
            Attempt::Answered => {}
            Attempt::NotYet(members) => return members,
            Attempt::Undone(error, members)
                if members.len() == 1 || mutant::is("committer/group-shares-a-refusal") =>
            {
                refuse(members, &error);
            }
            // One of them is the culprit: it alone is refused, the others land.
            Attempt::Undone(_, members) => {
                for member in members {
                    match self.attempt(vec![member]) {
                        Attempt::Answered => {}
                        Attempt::Undone(error, culprit) => refuse(culprit, &error),
                        // The lock was held a moment ago, so this is hardly ever so.
                        Attempt::NotYet(member) => refuse(member, &busy()),
                    }
                }
            }
        }
        if self.poisoned.is_none() && self.try_lock() {
            self.engine.housekeeping(jobs.is_empty());
        }
        self.unlock();
        Vec::new()
    }

    /// Tries a group in one transaction. The lock between processes is held afterwards, if it was got.
    fn attempt(&mut self, members: Vec<Pending>) -> Attempt {
        if let Some(error) = &self.poisoned {
            members.into_iter().for_each(|member| member.answer(Err(poisoned(error))));
            return Attempt::Answered;
        }
        let members = match self.wait_for_lock(members) {
            Ok(members) => members,
            Err(attempt) => return attempt,
        };
        let members = self.begin(members);
        if members.is_empty() {
            return Attempt::Answered;
        }
        let mut answers = Vec::with_capacity(members.len());
        let mut wrote = Vec::with_capacity(members.len());
        for member in &members {
            match self.one(&member.commit) {
                Ok((answer, writes)) => {
                    answers.push(answer);
                    wrote.push(writes);
                }
                Err(error) => return self.undo(error, members),
            }
        }
        if !wrote.contains(&true) {
            // Only refusals and repeats: there is nothing to make durable.
            if let Err(error) = self.engine.rollback() {
                self.poison(&error);
            }
            members.into_iter().zip(answers).for_each(|(member, answer)| member.answer(answer));
            return Attempt::Answered;
        }
        if mutant::is("committer/answers-before-the-sync") {
            members.into_iter().zip(answers).for_each(|(member, answer)| member.answer(answer));
            std::thread::sleep(Duration::from_millis(30));
            let _ = self.engine.commit();
            return Attempt::Answered;
        }
        match self.engine.commit() {
            Ok(()) => {
                members.into_iter().zip(answers).for_each(|(member, answer)| member.answer(answer));
                Attempt::Answered
            }
            Err(CommitFailure::NothingApplied(error)) => Attempt::Undone(error, members),
            Err(CommitFailure::Unknown(_)) if mutant::is("committer/failed-sync-is-success") => {
                members.into_iter().zip(answers).for_each(|(member, answer)| member.answer(answer));
                Attempt::Answered
            }
            Err(CommitFailure::Unknown(error)) => {
                self.poison(&error);
                for (member, wrote) in members.into_iter().zip(wrote) {
                    let answer = if wrote {
                        unknown("the store cannot say whether the commit landed")
                            .with_source(error.to_string())
                    } else {
                        poisoned(&error)
                    };
                    member.answer(Err(answer));
                }
                Attempt::Answered
            }
        }
    }

    /// Decides and writes one commit. `Ok` holds the answer and whether anything was written; `Err` is the engine's
    /// failure, after which the transaction cannot go on.
    fn one(&mut self, commit: &Commit) -> Result<(Result<Receipt>, bool)> {
        let stamp = self.engine.stamp()?;
        let facts = self.engine.facts(&commit.workspace, &plan(commit), &stamp)?;
        match decide(commit, facts, &stamp) {
            Err(refusal) if mutant::is("committer/group-shares-a-refusal") => Err(refusal),
            Err(refusal) => Ok((Err(refusal), false)),
            Ok(set) if set.writes.is_empty() => Ok((Ok(set.receipt), false)),
            Ok(mut set) => {
                if mutant::is("committer/last-row-not-written") {
                    set.writes.pop();
                }
                self.engine.apply(&set)?;
                Ok((Ok(set.receipt), true))
            }
        }
    }

    fn undo(&mut self, error: Error, members: Vec<Pending>) -> Attempt {
        match self.engine.rollback() {
            Ok(()) => Attempt::Undone(error, members),
            Err(failed) => {
                self.poison(&failed);
                for member in members {
                    member.answer(Err(
                        unknown("the store cannot undo a failed commit").with_source(error.to_string())
                    ));
                }
                Attempt::Answered
            }
        }
    }

    /// Stands in line between processes. Members past their deadline are withdrawn and answered `Busy`.
    fn wait_for_lock(&self, members: Vec<Pending>) -> std::result::Result<Vec<Pending>, Attempt> {
        let Some(lock) = &self.lock else { return Ok(members) };
        let Some(earliest) = members.iter().map(|member| member.deadline).min() else { return Ok(members) };
        let slice = mutant::either("committer/never-waits", Duration::ZERO, LOCK_SLICE);
        let until = earliest.min(Instant::now() + slice);
        let for_ever = until + Duration::from_secs(60 * 60);
        match lock.stand_in_line(mutant::either("committer/waits-for-ever", for_ever, until)) {
            Ok(true) => Ok(members),
            Ok(false) => {
                let (late, rest) = if mutant::is("committer/never-waits") {
                    (members, Vec::new())
                } else {
                    split_late(members)
                };
                refuse(late, &busy());
                Err(if rest.is_empty() { Attempt::Answered } else { Attempt::NotYet(rest) })
            }
            Err(error) => {
                refuse(members, &error);
                Err(Attempt::Answered)
            }
        }
    }

    /// Starts a transaction. Where the engine is busy, each member waits for it as long as it wants to.
    fn begin(&mut self, mut members: Vec<Pending>) -> Vec<Pending> {
        while let Some(earliest) = members.iter().map(|member| member.deadline).min() {
            match self.engine.begin(earliest) {
                Ok(()) => return members,
                Err(error) if error.kind() == ErrorKind::Busy => {
                    let (late, rest): (Vec<_>, Vec<_>) =
                        members.into_iter().partition(|member| member.deadline <= earliest);
                    refuse(late, &error);
                    members = rest;
                }
                Err(error) => {
                    refuse(members, &error);
                    return Vec::new();
                }
            }
        }
        members
    }

    /// Whether the lock between processes is ours, now or already.
    fn try_lock(&self) -> bool {
        self.lock.as_ref().is_none_or(|lock| lock.try_lock().unwrap_or(false))
    }

    fn unlock(&self) {
        if let Some(lock) = &self.lock {
            lock.unlock();
        }
    }

    fn poison(&mut self, error: &Error) {
        self.poisoned.get_or_insert_with(|| error.duplicate());
    }
}

pub(super) fn busy() -> Error {
    Error::new(
        ErrorKind::Busy,
        "another process kept the store busy past the deadline; nothing was written, try again",
    )
}
