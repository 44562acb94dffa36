//! Idempotency: a repeat of a commit with its request lands once and says the same.

mod killed;
mod meaning;

use std::time::Duration;

use turnkeep_core::commit::{Commit, Op, Request, RequestId};
use turnkeep_core::{Durability, ErrorKind, Guard, SessionRef};

use meaning::idm_007_every_part_of_what_was_meant_counts;

use crate::clause::{Kind, Need};
use crate::context::Context;
use crate::kit::{Kit, event, gather, keyed, name, no, put, run, spawn, user};
use crate::verdict::Outcome;
use killed::{
    idm_004_a_retry_after_a_kill_lands_once, idm_006_an_error_that_says_nothing_was_written_is_true,
};

clauses! { ($) idempotency_tests;
    "IDM-001" idm_001_a_repeated_request_lands_once_case_16 {
        title: "A commit repeated with its request lands once and answers with the first receipt, also when its fences and guards would refuse it now, and when the repeats race.",
        kind: Kind::Stochastic,
        why: "A job that is retried adds the user's message again and orphans the tool calls.",
        links: &["langchain-ai/docs#4070"],
        catches: "a backend that checks guards before it looks for the request",
        cases: &["case-16"],
    }
    "IDM-002" idm_002_a_used_request_id_with_other_content_is_refused {
        title: "A request id used for other content answers RequestConflict and changes nothing.",
        why: "Answering with the old receipt would tell a caller that new words are safe.",
        catches: "a backend that compares request ids only",
    }
    "IDM-003" idm_003_a_request_is_known_after_reopening {
        title: "A request is known after reopening: its repeat answers with the first receipt.",
        needs: &[Need::Persistent],
        why: "A repeat usually comes from a process that has just started again.",
        links: &["langchain-ai/langgraph#7202"],
        catches: "a backend that keeps the ledger in memory",
    }
    "IDM-004" idm_004_a_retry_after_a_kill_lands_once {
        title: "A commit whose answer was never seen, because its process was killed before, within or after it, lands exactly once when another process repeats it with its request.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        timeout: Duration::from_secs(300),
        why: "Whoever starts again cannot know what the dead process was just told.",
        catches: "a backend that makes the stored receipt durable apart from the commit",
        peer: Some(killed::work),
    }
    "IDM-005" idm_005_request_ids_are_scoped_as_declared {
        title: "A request id is unique per workspace or per life of a session, as declared; generated ids expire after seven days, a host's live as long as their session.",
        why: "A new session that repeats an old one's request id must not get the old one's receipt.",
        catches: "a backend whose ledger forgets scope or incarnation",
    }
    "IDM-006" idm_006_an_error_that_says_nothing_was_written_is_true {
        title: "An error that says that nothing was written is true: such a commit is not there and its request is free; CommitUnknown is the answer only where something failed.",
        kind: Kind::Stochastic,
        timeout: Duration::from_secs(300),
        why: "A caller that is told no, and believes it, does it again in another way.",
        catches: "a backend that answers Busy or Closed for what is written all the same",
    }
    "IDM-007" idm_007_every_part_of_what_was_meant_counts {
        title: "Every part of what a caller meant counts when a request id is used again: a commit that differs in one field answers RequestConflict; what a retry makes anew, such as times, tokens and ids drawn for this commit, does not count.",
        why: "A retry that says something else must not be told that it is stored, and an honest retry must not be refused for its clock.",
        catches: "a backend whose fingerprint leaves out a field, such as a title or an expected version",
    }
}

async fn idm_001_a_repeated_request_lands_once_case_16(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.say(&session, "start").await?;
    let fence = kit.acquire(&session, 60_000).await?;
    let record = turnkeep_core::commit::Put { expect: turnkeep_core::Expect::Absent, ..put("c", "k", "1") };
    let job = kit
        .appending(&session, vec![keyed("k", "job"), user("more")])
        .request(kit.request("job", &session))
        .fence(fence.clone())
        .guard(Guard::Head { session: session.clone(), head: Some(no(1)) })
        .op(Op::StartRun { session: session.clone(), run: run("r") })
        .op(Op::AppendEvents {
            session: session.clone(),
            stream: name("runs"),
            expect_next: None,
            events: vec![event("run_started", 1)],
        })
        .op(Op::PutRecord(record))
        .op(Op::ReleaseLease { fence });
    let first = kit.apply(job.clone()).await?;
    ensure!(!first.replayed, "the first receipt says that it is a repeat");
    let before = kit.snapshot().await?;
    for _ in 0..3 {
        // Its guard is stale, its fence is lost, its key, run and record are taken by now.
        let again = kit.apply(job.clone()).await?;
        ensure!(again.replayed, "the receipt of a repeat does not say so");
        ensure_eq!(
            (&again.outcomes, &again.sessions),
            (&first.outcomes, &first.sessions),
            "the receipt of a repeat"
        );
    }
    let other = cx.kit().await?;
    let mut rebuilt = job.clone();
    rebuilt.fences.clear();
    rebuilt.guards = vec![Guard::Head { session: session.clone(), head: Some(no(3)) }];
    let again = other.apply(rebuilt).await?;
    ensure_eq!(
        again.outcomes,
        first.outcomes,
        "the receipt of a repeat with another guard, through another handle"
    );
    kit.unchanged(&before, "repeating a request").await?;

    let racing = kit.appending(&session, vec![user("raced")]).request(kit.request("race", &session));
    let mut racers = Vec::new();
    for _ in 0..8 {
        let (kit, commit) = (cx.kit().await?, racing.clone());
        racers.push(spawn(async move { kit.apply(commit).await }));
    }
    let receipts = gather(racers).await?;
    ensure_eq!(receipts.iter().filter(|receipt| !receipt.replayed).count(), 1, "racers that landed");
    ensure!(
        receipts.windows(2).all(|two| two[0].outcomes == two[1].outcomes),
        "racers got different receipts"
    );
    ensure_eq!(kit.texts(&session).await?, ["start", "job", "more", "raced"], "the session at the end");
    Ok(())
}

async fn idm_002_a_used_request_id_with_other_content_is_refused(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let request = || kit.request("job", &session);
    kit.apply(kit.appending(&session, vec![user("one")]).request(request())).await?;
    let before = kit.snapshot().await?;
    let mut spaced = user("one");
    spaced.payload = crate::kit::payload(&format!("{} ", spaced.payload.as_str()));
    let mut of_role = user("one");
    of_role.role = None;
    let others = [
        ("other words", kit.appending(&session, vec![user("two")])),
        ("one entry more", kit.appending(&session, vec![user("one"), user("two")])),
        ("another role", kit.appending(&session, vec![of_role])),
        ("another spacing", kit.appending(&session, vec![spaced])),
        ("one op more", kit.appending(&session, vec![user("one")]).op(Op::PutRecord(put("c", "k", "1")))),
        ("another op", kit.commit().op(Op::PutRecord(put("c", "k", "1")))),
    ];
    for (what, commit) in others {
        kit.refused(commit.request(request()), ErrorKind::RequestConflict).await?;
        kit.unchanged(&before, what).await?;
    }
    // Times are not part of what a caller meant: a retry stamps them anew.
    let mut later = user("one");
    later.at = later.at.plus_ms(1_000);
    ensure!(
        kit.apply(kit.appending(&session, vec![later]).request(request())).await?.replayed,
        "a later repeat"
    );
    Ok(())
}

async fn idm_003_a_request_is_known_after_reopening(cx: &Context) -> Outcome {
    let mut kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let generated = Request::in_session(kit.request_id(), session.clone());
    let requests =
        [kit.request("job", &session), generated, Request::in_workspace(RequestId::Host("w".to_owned()))];
    let commit = |kit: &Kit, at: usize| -> Commit {
        kit.appending(&session, vec![user(&format!("job {at}"))]).request(requests[at].clone())
    };
    let mut first = Vec::new();
    for at in 0..requests.len() {
        first.push(kit.apply(commit(&kit, at)).await?);
    }
    kit = cx.reopen(kit).await?;
    for (at, first) in first.iter().enumerate() {
        let again = kit.apply(commit(&kit, at)).await?;
        ensure!(again.replayed, "request {at} was forgotten");
        ensure_eq!(
            (&again.outcomes, &again.sessions),
            (&first.outcomes, &first.sessions),
            "the receipt of request {at}"
        );
        let other = kit.appending(&session, vec![user("other")]).request(requests[at].clone());
        kit.refused(other, ErrorKind::RequestConflict).await?;
    }
    ensure_eq!(kit.texts(&session).await?.len(), 3, "entries after the repeats");
    Ok(())
}

async fn idm_005_request_ids_are_scoped_as_declared(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let (a, b) = (kit.create("a").await?, kit.create("b").await?);
    let id = || RequestId::Host("same".to_owned());
    let say = |kit: &Kit, session: &SessionRef, request: Request| {
        kit.appending(session, vec![user("words")]).request(request)
    };
    for session in [&a, &b] {
        let receipt = kit.apply(say(&kit, session, Request::in_session(id(), session.clone()))).await?;
        ensure!(!receipt.replayed, "the same id in session {session} is another request");
    }
    ensure!(
        !kit.apply(say(&kit, &a, Request::in_workspace(id()))).await?.replayed,
        "the workspace is a scope of its own"
    );
    let elsewhere = kit.in_workspace("elsewhere");
    let far = elsewhere.create("a").await?;
    let receipt = elsewhere.apply(say(&elsewhere, &far, Request::in_workspace(id()))).await?;
    ensure!(!receipt.replayed, "another workspace is another scope");
    ensure_eq!(kit.texts(&a).await?.len(), 2, "entries of session a");

    // A life that is over takes its requests along; one that names an owner lives as long as the owner.
    let child = kit.create("child").await?;
    let fork = |session: &SessionRef| {
        let request = Request::in_workspace(RequestId::Host("fork".to_owned())).owned_by(child.clone());
        say(&kit, session, request)
    };
    kit.apply(fork(&a)).await?;
    ensure!(kit.apply(fork(&a)).await?.replayed, "a request owned by a session is known");
    // So much that the purge is not done yet when the id is used again.
    kit.append(&child, (0..5_000).map(|at| user(&format!("{at}"))).collect()).await?;
    kit.delete(&child).await?;
    let unowned = || Request::in_workspace(RequestId::Host("fork".to_owned()));
    ensure!(
        !kit.apply(say(&kit, &a, unowned())).await?.replayed,
        "a request outlived the session that owns it, before its rows were purged"
    );
    let child = kit.create("child").await?;
    let fork = |id: &str| {
        let request = Request::in_workspace(RequestId::Host(id.to_owned())).owned_by(child.clone());
        say(&kit, &a, request)
    };
    kit.apply(fork("later fork")).await?;
    kit.delete(&child).await?;
    kit.delete(&b).await?;
    let b = kit.create("b").await?;
    let receipt = kit.apply(say(&kit, &b, Request::in_session(id(), b.clone()))).await?;
    ensure!(!receipt.replayed, "a session made again under a used id got the receipt of its former life");
    let unowned = Request::in_workspace(RequestId::Host("later fork".to_owned()));
    ensure!(
        !kit.apply(say(&kit, &a, unowned)).await?.replayed,
        "a request outlived the session that owns it"
    );

    // A receipt cannot lie in what its commit makes or removes.
    let before = kit.snapshot().await?;
    let made = kit.life("made");
    let mine = Request::in_session(id(), made.clone());
    let make = kit.commit().op(Op::CreateSession(kit.new_session(&made))).request(mine);
    kit.refused(make, ErrorKind::Invalid).await?;
    let delete = |session: &SessionRef| Op::DeleteSession { session: session.clone(), force: false };
    let own = Request::in_session(RequestId::Host("own".to_owned()), b.clone());
    kit.refused(kit.commit().op(delete(&b)).request(own), ErrorKind::Invalid).await?;
    let owned = Request::in_workspace(RequestId::Host("owned".to_owned())).owned_by(b.clone());
    kit.refused(kit.commit().op(delete(&b)).request(owned), ErrorKind::Invalid).await?;
    kit.unchanged(&before, "requests without a place for their receipt").await?;
    let elsewhere = Request::in_session(RequestId::Host("elsewhere".to_owned()), a.clone());
    kit.apply(kit.commit().op(delete(&b)).request(elsewhere)).await?;

    let drawn = RequestId::generated(kit.now(), [7; 10]);
    let old = RequestId::generated(kit.now().plus_ms(-7 * 24 * 3_600_000 - 60_000), [7; 10]);
    let request = |id: &RequestId| Request::in_session(id.clone(), a.clone());
    let before = kit.snapshot().await?;
    kit.refused(say(&kit, &a, request(&old)), ErrorKind::RequestExpired).await?;
    kit.unchanged(&before, "an expired request").await?;
    kit.apply(say(&kit, &a, request(&drawn))).await?;
    if cx.clock().is_some() {
        cx.pass_ms(7 * 24 * 3_600_000 - 60_000).await;
        ensure!(
            kit.apply(say(&kit, &a, request(&drawn))).await?.replayed,
            "a generated id within seven days"
        );
        cx.pass_ms(120_000).await;
        kit.refused(say(&kit, &a, request(&drawn)), ErrorKind::RequestExpired).await?;
        cx.pass_ms(400 * 24 * 3_600_000).await;
        let hosts = say(&kit, &a, Request::in_session(id(), a.clone()));
        ensure!(kit.apply(hosts).await?.replayed, "a host's id after a year");
    }
    Ok(())
}
