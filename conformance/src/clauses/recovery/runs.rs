//! Killed with runs at work: what the next process finds, and how it closes them, as a host does.

use turnkeep_core::commit::{Commit, Fence, LeaseGrant, Op, Takeover};
use turnkeep_core::model::{LeasePurpose, LeaseState, Liveness, Row, Run, RunState, RunStates};
use turnkeep_core::query::RunQuery;
use turnkeep_core::{ErrorKind, RunId, SessionRef};

use crate::clause::Running;
use crate::context::Context;
use crate::crash::{self, Books, Moment};
use crate::kit::{Kit, event, keyed, name, run};
use crate::peer;
use crate::verdict::{Outcome, Stop};

/// Runs that somebody must be executing.
const EXECUTED: RunStates = RunStates::of(&[RunState::Pending, RunState::Running, RunState::Cancelling]);
/// Turns of a process that nobody kills.
const MOST: u32 = 100;
/// Sessions with a run at work.
const AT_WORK: usize = 5;

fn happened(session: &SessionRef, kind: &str) -> Op {
    let events = vec![event(kind, 0)];
    Op::AppendEvents { session: session.clone(), stream: name("runs"), expect_next: None, events }
}

/// Lease, run, question and event in one commit.
async fn admit(kit: &Kit, session: &SessionRef, id: &str, ttl_ms: u64) -> Outcome<Fence> {
    let grant = kit.session_grant(session, ttl_ms);
    let question = keyed(&format!("turn/{id}/start"), &format!("question of {id}"));
    let admission = kit
        .commit()
        .op(Op::AcquireLease(grant.clone()))
        .op(Op::StartRun { session: session.clone(), run: run(id) })
        .op(Op::Append { session: session.clone(), entries: vec![question] })
        .op(happened(session, "run_started"));
    let receipt = kit.apply(admission).await?;
    match receipt.outcomes.first() {
        Some(turnkeep_core::Outcome::Lease { epoch, .. }) => {
            Ok(Fence { name: grant.name, owner: grant.owner, token: grant.token, epoch: *epoch })
        }
        other => Err(Stop::fail(format!("the receipt of an admission names no epoch: {other:?}"))),
    }
}

/// The end of the turn, the run's verdict, its event, and the lease given back: one commit.
fn close(kit: &Kit, session: &SessionRef, id: &RunId, fence: &Fence, to: RunState) -> Commit {
    let end = keyed(&format!("turn/{id}/end"), to.as_str());
    let verdict =
        Op::TransitionRun { session: session.clone(), run: id.clone(), from: EXECUTED, to, error: None };
    kit.appending(session, vec![end])
        .fence(fence.clone())
        .op(verdict)
        .op(happened(session, "run_ended"))
        .op(Op::ReleaseLease { fence: fence.clone() })
}

async fn executed(kit: &Kit) -> Outcome<Vec<Run>> {
    kit.runs(RunQuery { states: EXECUTED, ..RunQuery::new(kit.workspace.clone()) }).await
}

/// Takes over from whoever executed a run and is dead.
async fn take_over(cx: &Context, kit: &Kit, run: &Run) -> Outcome<Fence> {
    let wanted = || LeaseGrant {
        purpose: LeasePurpose::Recovery,
        takeover: Takeover::IfOwnerDead,
        ..kit.session_grant(&run.session, cx.lease_ms())
    };
    for _ in 0..20 {
        let lease = kit.lease(&run.session).await?;
        let unknown = lease.is_some_and(|lease| lease.liveness == Liveness::Unknown && !lease.expired);
        if cx.manifest.capabilities.owner_liveness || !unknown {
            break;
        }
        // Nobody can tell that the owner is dead, so its time decides.
        cx.pass_ms(cx.lease_ms() + 1).await;
    }
    kit.acquire_as(wanted()).await
}

/// Closes every run that a dead process left, by lease first. Gives those it closed.
async fn recover(cx: &Context, kit: &Kit) -> Outcome<Vec<String>> {
    let mut closed = Vec::new();
    for run in executed(kit).await? {
        let fence = take_over(cx, kit, &run).await?;
        kit.apply(close(kit, &run.session, &run.id, &fence, RunState::Interrupted)).await?;
        closed.push(run.session.to_string());
    }
    Ok(closed)
}

/// The same in a process that may be killed at it.
async fn recover_aloud(cx: &Context, kit: &Kit) -> Outcome {
    for run in executed(kit).await? {
        let session = run.session.to_string();
        crash::begin(&session)?;
        let fence = take_over(cx, kit, &run).await?;
        peer::tell("taken over")?;
        kit.apply(close(kit, &run.session, &run.id, &fence, RunState::Interrupted)).await?;
        crash::done(&session)?;
    }
    Ok(())
}

pub(super) fn turns<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let kit = cx.kit().await?;
        let session = kit.there(role).await?;
        for turn in 0..MOST {
            let id = format!("run-{turn}");
            crash::begin(&id)?;
            let fence = admit(&kit, &session, &id, cx.lease_ms()).await?;
            crash::done(&id)?;
            let verdict = format!("verdict of {id}");
            crash::begin(&verdict)?;
            kit.apply(close(&kit, &session, &name(&id), &fence, RunState::Completed)).await?;
            crash::done(&verdict)?;
        }
        Ok(())
    })
}

/// The verdicts that the books allow.
fn fits(books: &Books, run: &Run) -> Outcome {
    let verdict = format!("verdict of {}", run.id);
    ensure!(books.is_begun(run.id.as_str()), "run {} is there, which nobody began", run.id);
    let fits = match run.state {
        RunState::Completed => books.is_begun(&verdict),
        RunState::Running => !books.is_done(&verdict),
        _ => false,
    };
    ensure!(fits, "run {} is {} after the kill, and the books say {books:?}", run.id, run.state.as_str());
    Ok(())
}

async fn rows(kit: &Kit, session: &SessionRef) -> Outcome<Vec<Row>> {
    kit.rows(kit.rows_of(session)).await
}

/// Smoke: 2 kills, full: 15, soak: 300; each with four reopenings.
pub(super) async fn rec_002_the_verdict_of_a_run_is_the_same_each_time(cx: &Context) -> Outcome {
    for kill in 0..cx.scaled(2, 15, 300) {
        let kit = cx.kit().await?;
        let session = kit.create(&format!("session-{kill}")).await?;
        cx.leave(kit).await?;
        let books = cx.killed(session.id.as_str(), cx.moment("REC-002", kill, 14)).await?;
        let mut kit = cx.kit().await?;
        let found = kit.runs(kit.runs_of(&session)).await?;
        for run in &found {
            fits(&books, run)?;
        }
        for started in books.done.iter().filter(|done| done.starts_with("run-")) {
            ensure!(found.iter().any(|run| run.id.as_str() == started), "{started} was begun and is gone");
        }
        let before = rows(&kit, &session).await?;
        for reopening in 1..=2 {
            kit = cx.reopen(kit).await?;
            ensure_eq!(rows(&kit, &session).await?, before, "what is found at reopening {reopening}");
        }
        let closed = recover(cx, &kit).await?;
        let after = rows(&kit, &session).await?;
        interrupted(&kit, &session, &found).await?;
        ensure_eq!(closed.is_empty(), before == after, "runs that were closed: {closed:?}");
        kit = cx.reopen(kit).await?;
        ensure_eq!(recover(cx, &kit).await?, [""; 0], "runs that are closed a second time");
        kit = cx.reopen(kit).await?;
        ensure_eq!(rows(&kit, &session).await?, after, "what is found once all is closed");
        cx.leave(kit).await?;
    }
    Ok(())
}

/// What was running is interrupted, what was over is as it was, and each turn has one end.
async fn interrupted(kit: &Kit, session: &SessionRef, found: &[Run]) -> Outcome {
    let now = kit.runs(kit.runs_of(session)).await?;
    ensure_eq!(now.len(), found.len(), "runs of {session} after recovery");
    let texts = kit.texts(session).await?;
    for (run, before) in now.iter().zip(found) {
        let expected = if before.state == RunState::Running { RunState::Interrupted } else { before.state };
        ensure_eq!(run.state, expected, "the verdict of {} after recovery", run.id);
    }
    let expected: Vec<_> = now
        .iter()
        .flat_map(|run| [format!("question of {}", run.id), run.state.as_str().to_owned()])
        .collect();
    ensure_eq!(texts, expected, "the turns of {session} after recovery");
    let kinds: Vec<_> = kit.events(kit.stream(session, "runs")).await?;
    ensure_eq!(kinds.len(), 2 * now.len(), "beginnings and ends in the log of {session}");
    let lease = kit.lease(session).await?.map(|lease| lease.state);
    let held = lease.is_some_and(|state| state == LeaseState::Held);
    ensure!(!held, "the lease of {session} is still held after recovery");
    Ok(())
}

pub(super) fn many<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let kit = cx.kit().await?;
        if role == "recover" {
            return recover_aloud(cx, &kit).await;
        }
        for at in 0..AT_WORK {
            let session = kit.create(&format!("{role}-{at}")).await?;
            admit(&kit, &session, "run", cx.lease_ms()).await?;
            crash::done(session.id.as_str())?;
        }
        // At work until it is killed.
        for _ in 0..10_000 {
            kit.put(crate::kit::put("at", "work", "1")).await?;
        }
        Ok(())
    })
}

/// Smoke: 1 process killed at work and 3 that recover, full: 6 and 36, soak: 100 and 600.
pub(super) async fn rec_003_recovery_that_is_killed_converges(cx: &Context) -> Outcome {
    let (crashes, recoveries) = cx.scaled((1, 3), (6, 6), (100, 6));
    for crash in 0..crashes {
        let books = cx.killed(&format!("work-{crash}"), Moment::line(AT_WORK)).await?;
        let mut closed = Books::default();
        for recovery in 0..recoveries {
            let moment = cx.moment("REC-003", crash * recoveries + recovery, 7);
            closed.add(cx.killed("recover", moment).await?);
        }
        let kit = cx.kit().await?;
        for run in recover(cx, &kit).await? {
            ensure!(!closed.is_done(&run), "{run} was closed, and is closed again");
        }
        for id in &books.done {
            let session = kit.there(id).await?;
            let now = kit.runs(kit.runs_of(&session)).await?;
            let begun: Vec<_> = now.into_iter().map(|run| Run { state: RunState::Running, ..run }).collect();
            ensure_eq!(begun.len(), 1, "runs of {session}");
            interrupted(&kit, &session, &begun).await?;
            let again = kit.appending(&session, vec![keyed("turn/run/end", "again")]);
            kit.refused(again, ErrorKind::AlreadyExists).await?;
        }
        ensure_eq!(executed(&kit).await?.len(), 0, "runs that still count as at work");
        cx.leave(kit).await?;
    }
    Ok(())
}
