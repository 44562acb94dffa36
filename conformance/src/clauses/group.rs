//! Grouping: commits that share one durable engine commit do not share their fate.

use std::time::Duration;

use turnkeep_core::commit::Op;
use turnkeep_core::{Commit, Durability, ErrorKind, Guard};

use super::durability::failing::Bench;
use crate::clause::{Kind, Need};
use crate::context::Context;
use crate::disk::{self, Failure, Fault};
use crate::kit::{Kit, gather, keyed, no, put, spawn, user};
use crate::verdict::Outcome;

clauses! { ($) group_tests;
    "GRP-001" grp_001_one_bad_commit_of_a_group_is_refused_alone {
        title: "Of many commits at once, a bad one is refused alone, with its own reason; each of the others lands once.",
        kind: Kind::Stochastic,
        why: "One caller's mistake must not undo a stranger's words.",
        catches: "a backend that rolls a whole group back for one refusal",
    }
    "GRP-002" grp_002_after_a_failed_sync_nobody_is_told_a_lie_and_a_repeat_lands_once {
        title: "When the sync of a group fails, each of its commits that wrote answers CommitUnknown, every later one Poisoned until the store is opened again, and a repeat with the same request id lands once.",
        durability: Durability::D3,
        needs: &[Need::Persistent],
        timeout: Duration::from_secs(120),
        why: "Of a hundred callers that share one failed sync, none knows what became of its words; each must be able to find out.",
        catches: "a backend that fails one commit of a group and acknowledges the others, or lands a repeat twice",
    }
}

async fn grp_001_one_bad_commit_of_a_group_is_refused_alone(cx: &Context) -> Outcome {
    const COMMITS: usize = 96;
    let kit = cx.kit().await?;
    let sessions = [kit.create("a").await?, kit.create("b").await?, kit.create("c").await?];
    kit.append(&sessions[0], vec![keyed("taken", "first")]).await?;
    for round in 0..3 {
        let mut commits = Vec::new();
        for at in 0..COMMITS {
            let session = sessions[at % 3].clone();
            let mut commit = kit.appending(
                &session,
                vec![user(&format!("{round} {at} one")), user(&format!("{round} {at} two"))],
            );
            let mut refusal = None;
            if at % 8 == 3 {
                let (with, kind) = match at % 24 {
                    3 => (commit.op(Op::MoveLeaf { session, to: Some(no(1_000_000)) }), ErrorKind::NotFound),
                    11 => (
                        commit.guard(Guard::Head { session, head: Some(no(1_000_000)) }),
                        ErrorKind::StaleLeaf,
                    ),
                    _ => {
                        let again = Op::Append {
                            session: sessions[0].clone(),
                            entries: vec![keyed("taken", "again")],
                        };
                        (commit.op(again), ErrorKind::AlreadyExists)
                    }
                };
                (commit, refusal) = (with.op(Op::PutRecord(put("c", "bad", "1"))), Some(kind));
            }
            let kit = kit.clone();
            commits.push(spawn(async move {
                match (kit.store.commit(commit).await, refusal) {
                    (Ok(_), None) => Ok(true),
                    (answer, Some(kind)) => {
                        ensure_refused!(answer, kind, "the bad commit {at}");
                        Ok(false)
                    }
                    (Err(error), None) => {
                        Err(crate::verdict::Stop::fail(format!("the good commit {at} was refused: {error}")))
                    }
                }
            }));
        }
        let landed = gather(commits).await?.into_iter().filter(|landed| *landed).count();
        ensure_eq!(landed, COMMITS - COMMITS / 8, "commits of round {round} that landed");
    }
    let mut texts = Vec::new();
    for session in &sessions {
        texts.extend(kit.texts(session).await?);
    }
    for round in 0..3 {
        for at in 0..COMMITS {
            let count = texts.iter().filter(|text| text.starts_with(&format!("{round} {at} "))).count();
            ensure_eq!(count, if at % 8 == 3 { 0 } else { 2 }, "entries of commit {at} in round {round}");
        }
    }
    ensure!(kit.record("c", "bad").await?.is_none(), "a refused commit wrote a record");
    Ok(())
}

/// Smoke: each of the first 2 syncs. Full: 12.
async fn grp_002_after_a_failed_sync_nobody_is_told_a_lie_and_a_repeat_lands_once(cx: &Context) -> Outcome {
    for at in 0..cx.scaled(2, 12, 100) {
        let bench = Bench::new(cx).await?;
        let outcome = group_fails(&bench, at).await;
        bench.end(outcome.map_err(|stop| stop.about(&format!("sync {at} failed")))).await?;
        cx.count("failed syncs", 1);
    }
    Ok(())
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Landed,
    Unknown,
    Poisoned,
}

async fn at_once(kit: &Kit, commits: &[Commit]) -> Outcome<Vec<Answer>> {
    let mut answers = Vec::new();
    for commit in commits.iter().cloned() {
        let kit = kit.clone();
        answers.push(spawn(async move {
            match kit.store.commit(commit).await {
                Ok(_) => Ok(Answer::Landed),
                Err(error) if error.kind() == ErrorKind::CommitUnknown => Ok(Answer::Unknown),
                Err(error) => {
                    ensure_refused!(Err::<(), _>(error), ErrorKind::Poisoned, "a commit after a failed sync");
                    Ok(Answer::Poisoned)
                }
            }
        }));
    }
    gather(answers).await
}

async fn group_fails(bench: &Bench, at: u64) -> Outcome {
    const COMMITS: usize = 24;
    const ROUNDS: usize = 20;
    let kit = bench.open().await?;
    let sessions = [kit.create("a").await?, kit.create("b").await?, kit.create("c").await?];
    bench.disk.arm(Fault::once(disk::Kind::Sync, at, Failure::Io));
    let (mut commits, mut answers) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let commit = |at: usize| {
            let (session, id) = (&sessions[at % 3], format!("{round}-{at}"));
            kit.appending(session, vec![user(&id)]).request(kit.request(&id, session))
        };
        let group: Vec<_> = (0..COMMITS).map(commit).collect();
        let was_over = answers.contains(&Answer::Unknown);
        let answered = at_once(&kit, &group).await?;
        ensure!(
            !was_over || answered.iter().all(|answer| *answer == Answer::Poisoned),
            "a commit after the failed sync was not answered Poisoned: {answered:?}"
        );
        commits.extend(group);
        answers.extend(answered);
        if was_over {
            break;
        }
    }
    ensure!(
        answers.contains(&Answer::Unknown),
        "the sync of a group failed and no commit answered CommitUnknown"
    );
    bench.close(kit).await;
    bench.disk.disarm();
    let kit = bench.open().await?;
    for (commit, answer) in commits.into_iter().zip(answers) {
        let receipt = kit.apply(commit).await?;
        ensure!(
            receipt.replayed || answer != Answer::Landed,
            "an acknowledged commit is lost, for its repeat landed"
        );
        ensure!(!receipt.replayed || answer != Answer::Poisoned, "a commit that was refused landed");
    }
    let mut texts = Vec::new();
    for session in &sessions {
        texts.extend(kit.texts(session).await?);
    }
    let all = texts.len();
    texts.sort();
    texts.dedup();
    ensure_eq!(texts.len(), all, "different words among those stored, each said once");
    kit.store.close().await?;
    Ok(())
}
