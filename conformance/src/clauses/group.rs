//! Grouping: commits that share one durable engine commit do not share their fate.

use turnkeep_core::commit::Op;
use turnkeep_core::{ErrorKind, Guard};

use crate::clause::Kind;
use crate::context::Context;
use crate::kit::{gather, keyed, no, put, spawn, user};
use crate::verdict::Outcome;

clauses! { ($) group_tests;
    "GRP-001" grp_001_one_bad_commit_of_a_group_is_refused_alone {
        title: "Of many commits at once, a bad one is refused alone, with its own reason; each of the others lands once.",
        kind: Kind::Stochastic,
        why: "One caller's mistake must not undo a stranger's words.",
        catches: "a backend that rolls a whole group back for one refusal",
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
