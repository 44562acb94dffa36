//! One process at work: it does one thing after the other until it is killed or told to end, and says what it was told.

use std::io::Write;
use std::time::Duration;

use turnkeep_core::commit::{Commit, Expect, Op, Put};
use turnkeep_core::id::{Collection, RecordKey};
use turnkeep_core::model::{LeasePurpose, RunStates};
use turnkeep_core::query::{AudienceFilter, RecordQuery};
use turnkeep_core::{EntryNo, Error, ErrorKind, Payload, Result};
use turnkeep_sessions::testing::Dice;
use turnkeep_sessions::{
    ClaimState, Claiming, Message, Run, RunError, Session, WaitingFor, Workspace, named_lease,
};

use super::{Place, SAYS};

/// Named things that need leases.
const THINGS: u64 = 4;
/// Tool calls that there are to claim at a time, so that many claim the same one.
const CALLS: u64 = 8;
/// Bytes of an effect in the file that stands for the world.
const EFFECT_BYTES: u64 = 14;

struct Worker {
    ws: Workspace,
    place: Place,
    dice: Dice,
    /// Tells what this process said from what others did.
    name: String,
    said: u64,
}

/// Says something for the books, whole or not at all.
fn say(words: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{SAYS}{words}\n").as_bytes());
    let _ = out.flush();
}

/// Whether an error is what must be expected among many.
fn expected(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StaleLeaf
            | ErrorKind::LeaseHeld
            | ErrorKind::LeaseLost
            | ErrorKind::ActiveRun
            | ErrorKind::RunState
            | ErrorKind::VersionConflict
            | ErrorKind::Busy
            | ErrorKind::ForkRefused(_)
    )
}

pub(crate) fn main(told: &str) {
    let (seed, place) = Place::told(told);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let ws = place.open().await.unwrap();
        let report = ws.recovered();
        say(&format!("recovered {} {}", report.interrupted.len(), report.claims.len()));
        let name = format!("{seed}-{}", std::process::id());
        let mut worker = Worker { ws, dice: Dice::new(seed), place, name, said: 0 };
        while !worker.place.stop_file().exists() {
            if let Err(error) = worker.something().await
                && !expected(&error)
            {
                say(&format!("trouble {error}"));
            }
        }
    });
}

impl Worker {
    async fn something(&mut self) -> Result<()> {
        let name = self.place.a_session(&mut self.dice);
        let session = self.ws.sessions().open(&name.parse()?).await?;
        match self.dice.below(20) {
            0..=8 => self.run(&session).await,
            9..=12 => self.append(&session).await,
            13..=15 => self.count().await,
            16..=17 => self.take_up(&session).await,
            18 => self.fork(&session).await,
            _ => self.in_a_fork().await,
        }
    }

    fn words(&mut self) -> String {
        self.said += 1;
        format!("{}-{}", self.name, self.said)
    }

    async fn append(&mut self, session: &Session) -> Result<()> {
        let words = self.words();
        let appended = session.append([Message::user(words.as_str())]).await?;
        for number in appended.numbers {
            say(&format!("entry {} {number} {words}", session.id()));
        }
        Ok(())
    }

    async fn run(&mut self, session: &Session) -> Result<()> {
        let words = self.words();
        let run = session.begin_run(Message::user(words.as_str())).await?;
        say(&format!("run {} {}", session.id(), run.id()));
        self.work(session, run).await
    }

    /// The middle and the end of a run.
    async fn work(&mut self, session: &Session, run: Run) -> Result<()> {
        for _ in 0..self.dice.below(4) {
            let words = self.words();
            run.stream(&format!("{words} ")).await?;
            say(&format!("streamed {} {} {words}", session.id(), run.id()));
        }
        for _ in 0..self.dice.below(3) {
            self.tool(&run).await?;
        }
        let words = self.words();
        match self.dice.below(10) {
            0 => run.fail(RunError::tool("broken")).await,
            1 => run.cancel().await,
            2 => {
                run.append([Message::assistant("may I?")]).await?;
                run.wait_for(WaitingFor::Approval).await
            }
            // Dropped, as by a program that returns early.
            3 => Ok(()),
            _ => {
                run.complete([Message::assistant(words.as_str())]).await?;
                // Nobody else wrote since: the answer and the end of the turn are the newest.
                let answer = session.leaf().and_then(|leaf| EntryNo::new(leaf.get() - 1));
                if let Some(answer) = answer {
                    say(&format!("entry {} {answer} {words}", session.id()));
                }
                say(&format!("completed {} {}", session.id(), run.id()));
                Ok(())
            }
        }
    }

    /// A tool that changes the world: a line in a file, which must be there once.
    async fn tool(&mut self, run: &Run) -> Result<()> {
        // The next calls that nobody has executed yet, and some that somebody has.
        let done = std::fs::metadata(self.place.world()).map_or(0, |file| file.len() / EFFECT_BYTES);
        let mut key = format!("call {:08}", done + self.dice.below(CALLS));
        if self.dice.below(4) == 0 {
            // One that somebody was killed in: no one but a person may let it be executed again.
            let left = run.session().claims().list().state(ClaimState::Interrupted).limit(20).await?.items;
            if let Some(left) = left.get(self.dice.below(left.len() as u64) as usize) {
                key = left.key.to_string();
            }
        }
        let Claiming::Won(claim) = run.claim(&key).tool("write").await? else { return Ok(()) };
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(self.place.world()).unwrap();
        file.write_all(format!("{key}\n").as_bytes()).unwrap();
        // Some tools take their time, so that kills come in the middle of them.
        if self.dice.below(3) == 0 {
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        claim.complete(Payload::from_value(&key)?).await?;
        say(&format!("claim {key}"));
        Ok(())
    }

    async fn take_up(&mut self, session: &Session) -> Result<()> {
        let waiting = RunStates::of(&[turnkeep_core::model::RunState::WaitingApproval]);
        let found = session.runs().list().states(waiting).limit(1).await?.items.pop();
        let Some(found) = found else { return Ok(()) };
        let run = session.resume_run(found.id).await?;
        self.work(session, run).await
    }

    /// Adds one to two counters under their leases, without any other precaution: two holders at once would lose one.
    async fn count(&mut self) -> Result<()> {
        let (one, two) = (self.dice.below(THINGS), self.dice.below(THINGS));
        let things: std::collections::BTreeSet<u64> = [one, two].into();
        let names =
            things.iter().map(|thing| named_lease(format!("thing {thing}"))).collect::<Result<Vec<_>>>()?;
        // In any order: the store sorts them, so that nobody waits for the other in a circle.
        let names = if self.dice.below(2) == 0 { names } else { names.into_iter().rev().collect() };
        let lease = self.ws.leases().acquire(names, LeasePurpose::Mutation, Duration::from_secs(2)).await?;
        for thing in things {
            let value = counter(&self.ws, thing).await?;
            tokio::task::yield_now().await;
            let mut commit = Commit::new(self.ws.id().clone()).op(Op::PutRecord(Put {
                collection: Collection::new("counters")?,
                key: RecordKey::new(thing.to_string())?,
                owner: None,
                status: None,
                expect: Expect::Any,
                payload: Payload::from_value(&(value + 1))?,
            }));
            commit.fences = lease.fences().to_vec();
            self.ws.store().commit(commit).await?;
            say(&format!("counted {thing}"));
        }
        lease.release().await
    }

    async fn fork(&mut self, session: &Session) -> Result<()> {
        let request = self.words();
        let forked = session.fork(request.as_str()).await?;
        let (child, boundary) = (forked.session.id(), forked.origin.boundary);
        say(&format!("fork {} {child} {boundary}", session.id()));
        let again = session.fork(request.as_str()).await?;
        if again.session.session_ref() != forked.session.session_ref() {
            say(&format!("trouble the same request made {child} and {}", again.session.id()));
        }
        Ok(())
    }

    /// Goes on in the newest fork.
    async fn in_a_fork(&mut self) -> Result<()> {
        let parent = self.place.a_session(&mut self.dice).parse()?;
        let list = self.ws.sessions().list().parent(parent).audience(AudienceFilter::Any).limit(1);
        let Some(row) = list.await?.items.pop() else { return Ok(()) };
        let child = self.ws.sessions().open(&row.id).await?;
        self.append(&child).await
    }
}

/// How far a counter is.
pub(crate) async fn counter(ws: &Workspace, thing: u64) -> Result<u64> {
    let mut query = RecordQuery::new(ws.id().clone(), Collection::new("counters")?);
    query.key = Some(RecordKey::new(thing.to_string())?);
    match ws.store().records(&query).await?.items.first() {
        Some(record) => record.payload.parse(),
        None => Ok(0),
    }
}
