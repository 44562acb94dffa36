//! Killed between a commit and its answer: the caller does not know, and repeats.

use std::time::Duration;

use turnkeep_core::commit::Op;
use turnkeep_core::model::Usage;
use turnkeep_core::{Commit, EntryNo, ErrorKind, Guard, SessionRef};

use crate::clause::Running;
use crate::context::Context;
use crate::crash::{self, Moment};
use crate::kit::{Kit, gather, spawn, user};
use crate::peer;
use crate::verdict::Outcome;

/// Jobs of a process that nobody kills.
const MOST: u64 = 300;

/// Something that must not happen twice: an entry without a key, and a counter.
fn job(kit: &Kit, session: &SessionRef, number: u64) -> Commit {
    let usage = Usage { requests: 1, ..Usage::default() };
    kit.appending(session, vec![user(&format!("job {number}"))])
        .op(Op::AddUsage { session: session.clone(), run: None, usage })
        .request(kit.request(&format!("job {number}"), session))
}

/// `work ID` does jobs, `mute ID` does one and dies before it can tell that it is done, `retry ID N` repeats the
/// first N and tells of each whether the store knew it.
pub(super) fn work<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let mut words = role.split(' ');
        let (verb, id) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let kit = cx.kit().await?;
        let session = kit.there(id).await?;
        if verb == "retry" {
            for number in 0..crash::number_in(role)? {
                let receipt = kit.apply(job(&kit, &session, number)).await?;
                let entry = receipt.entries(0).next().map_or(0, EntryNo::get);
                peer::tell(&format!("{number} is entry {entry}, replayed: {}", receipt.replayed))?;
            }
            return Ok(());
        }
        for number in 0..MOST {
            crash::begin(&number.to_string())?;
            kit.apply(job(&kit, &session, number)).await?;
            if verb == "mute" {
                peer::tell("landed")?;
                tokio::time::sleep(Duration::from_secs(30)).await;
            }
            crash::done(&number.to_string())?;
        }
        Ok(())
    })
}

/// Smoke: 3 kills, full: 16, soak: 300; each with a retry in a fresh process. Every other one comes for certain after
/// the commit and before its answer.
pub(super) async fn idm_004_a_retry_after_a_kill_lands_once(cx: &Context) -> Outcome {
    for kill in 0..cx.scaled(3, 16, 300) {
        let kit = cx.kit().await?;
        let session = kit.create(&format!("session-{kill}")).await?;
        cx.leave(kit).await?;
        let landed = kill % 2 == 1;
        let (verb, moment) =
            if landed { ("mute", Moment::line(2)) } else { ("work", cx.moment("IDM-004", kill, 16)) };
        let books = cx.killed(&format!("{verb} {session}"), moment).await?;
        let jobs = books.done.len() + books.open.len();
        if landed {
            cx.count("landed without an answer", 1);
        }
        let retried = cx.start_peer(&format!("retry {session} {jobs}"))?.ended().await?;
        for (number, said) in retried.iter().enumerate() {
            let known = said.ends_with("replayed: true");
            let must = landed || books.is_done(&number.to_string());
            ensure!(
                known || !must,
                "job {number} had landed before the kill, and its repeat does not know it"
            );
            let entry = format!("{number} is entry {}, ", number + 1);
            ensure!(said.starts_with(&entry), "job {number} has another receipt after the kill: {said}");
        }
        ensure_eq!(retried.len(), jobs, "jobs that were retried");
        let kit = cx.kit().await?;
        for number in 0..jobs as u64 {
            let again = kit.apply(job(&kit, &session, number)).await?;
            ensure!(again.replayed, "job {number} is not known although it was retried");
        }
        let expected: Vec<_> = (0..jobs).map(|number| format!("job {number}")).collect();
        ensure_eq!(kit.texts(&session).await?, expected, "each job once, in order, after retries");
        ensure_eq!(kit.row(&session).await?.usage.requests, jobs as u64, "what the jobs counted");
        cx.leave(kit).await?;
    }
    Ok(())
}

/// Smoke: 4 rounds of 24 commits, full: 30, soak: 1,000.
pub(super) async fn idm_006_an_error_that_says_nothing_was_written_is_true(cx: &Context) -> Outcome {
    const COMMITS: u64 = 24;
    let kit = cx.kit().await?;
    for round in 0..cx.scaled(4, 30, 1_000) {
        let session = kit.create(&format!("session-{round}")).await?;
        let closing = cx.kit().await?;
        // Another client keeps the store busy.
        let (beside, elsewhere) = (kit.clone(), kit.create(&format!("beside-{round}")).await?);
        let busy = spawn(async move {
            for _ in 0..4 {
                let words = (0..200).map(|at| user(&format!("beside {at}"))).collect();
                beside.append(&elsewhere, words).await?;
            }
            Ok(())
        });
        let mut callers = Vec::new();
        for number in 0..COMMITS {
            let at = round * COMMITS + number;
            let wait = Duration::from_micros(cx.pick("IDM-006 wait", at, 4_000));
            let mut commit = job(&closing, &session, number).wait(wait);
            if number % 6 == 5 {
                // Refused for its own reason, wherever the close finds it.
                let head = EntryNo::new(u32::MAX);
                commit = commit.guard(Guard::Head { session: session.clone(), head });
            }
            let (closing, later) =
                (closing.clone(), cx.pick("IDM-006 later", at, 6_000).saturating_sub(2_000));
            callers.push(spawn(async move {
                if later > 0 {
                    tokio::time::sleep(Duration::from_micros(later)).await;
                }
                Ok(closing.store.commit(commit).await)
            }));
        }
        let pause = cx.pick("IDM-006 pause", round, 3_000);
        if pause > 0 {
            tokio::time::sleep(Duration::from_micros(pause)).await;
        }
        closing.store.close().await?;
        let answers = gather(callers).await?;
        gather(vec![busy]).await?;
        let before = kit.texts(&session).await?;
        for (number, answer) in (0..).zip(&answers) {
            let there = before.iter().filter(|text| **text == format!("job {number}")).count();
            match answer {
                Ok(_) => ensure_eq!(there, 1, "entries of job {number}, which was acknowledged"),
                Err(error) => {
                    let kind = error.kind();
                    // Nothing failed here, so the store knows.
                    ensure!(
                        kind != ErrorKind::CommitUnknown,
                        "job {number} is called unknown, but nothing failed: {error}"
                    );
                    ensure!(
                        matches!(kind, ErrorKind::Busy | ErrorKind::Closed | ErrorKind::StaleLeaf),
                        "job {number} raced with a close and got: {error}"
                    );
                    ensure_eq!(there, 0, "entries of job {number}, which answered: {error}");
                }
            }
        }
        for (number, answer) in (0..).zip(&answers) {
            let again = kit.apply(job(&kit, &session, number)).await?;
            ensure_eq!(again.replayed, answer.is_ok(), "whether job {number} was known when it was repeated");
        }
        let mut texts = kit.texts(&session).await?;
        texts.sort();
        let mut expected: Vec<_> = (0..COMMITS).map(|number| format!("job {number}")).collect();
        expected.sort();
        ensure_eq!(texts, expected, "each job once after the repeats");
        cx.count("answers", COMMITS);
        for (what, kind) in [("busy", ErrorKind::Busy), ("closed", ErrorKind::Closed)] {
            let of = |answer: &&turnkeep_core::Result<_>| {
                answer.as_ref().is_err_and(|error: &turnkeep_core::Error| error.kind() == kind)
            };
            cx.count(what, answers.iter().filter(of).count() as u64);
        }
    }
    Ok(())
}
