//! Atomicity: a commit is whole or absent, for every reader, on every refusal, whenever it is given up.

mod killed;
mod several;

use std::time::Duration;

use turnkeep_core::commit::{Commit, NewEntry, OnKey, Op, Parent, RefTarget, SessionPatch};
use turnkeep_core::model::{RunState, RunStates, Title, TitleSource};
use turnkeep_core::{Durability, ErrorKind, Expect, Guard, SessionRef};

use crate::clause::Kind;
use crate::context::Context;
use crate::harness::TableCount;
use crate::kit::{Kit, Watch, event, gather, keyed, name, no, payload, polled, put, run, spawn, user};
use crate::verdict::{Outcome, Stop};
use killed::run_008_a_kill_splits_no_call_from_its_result;
use several::run_011_one_commit_on_several_sessions_keeps_them_apart;

clauses! { ($) atomic_tests;
    "RUN-001" run_001_nothing_is_visible_before_the_commit {
        title: "A commit that was not made is not visible, not even in part: making its future does nothing until it is polled.",
        why: "A row that shows before its commit may never come to be.",
        catches: "a backend that writes when called instead of when committed",
    }
    "RUN-002" run_002_a_reader_sees_all_of_a_commit_or_nothing {
        title: "A reader at the same time sees all entries and counters of a commit or none of them.",
        kind: Kind::Stochastic,
        why: "A model called with half a turn answers nonsense that is then kept.",
        catches: "a backend that writes entries one transaction each",
    }
    "RUN-003" run_003_one_bad_entry_refuses_the_whole_batch {
        title: "One entry that is refused, wherever it stands, refuses the whole commit and leaves nothing.",
        why: "Half a batch splits a tool call from its result.",
        catches: "a backend that keeps the entries before the bad one",
    }
    "RUN-004" run_004_messages_state_and_metadata_are_one_atom {
        title: "Messages, run states, events, records, usage and profile in one commit appear together or not at all.",
        why: "A completed run without its answer, or the other way round, cannot be recovered.",
        catches: "a backend that commits tables one after the other",
    }
    "RUN-005" run_005_a_refused_commit_leaves_no_residue {
        title: "A refused commit leaves no row in any table and moves no mark, counter, number or lease.",
        why: "Residue fills the disk, and a counter that moved breaks the next repeat.",
        catches: "a backend that writes before it decides and forgets to roll back",
    }
    "RUN-007" run_007_a_dropped_future_leaves_all_or_nothing {
        title: "A commit dropped at any of its awaits is whole or absent, and the store stays usable.",
        kind: Kind::Stochastic,
        why: "Hosts put timeouts around everything.",
        links: &["launchbadge/sqlx#4393"],
        catches: "a backend that leaves a transaction open when its caller goes away",
    }
    "RUN-008" run_008_a_kill_splits_no_call_from_its_result {
        title: "A kill never splits a call from its result, or from the record and the event, if they were one commit: all are there or none.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        timeout: Duration::from_secs(300),
        why: "A history with a call and no result is refused by every model provider, for good.",
        links: &["strands-agents/harness-sdk#3118", "MoonshotAI/kimi-code#771"],
        catches: "a backend that makes each entry of a commit durable by itself",
        peer: Some(killed::call),
    }
    "RUN-009" run_009_an_oversized_commit_is_rejected_whole {
        title: "A commit over a limit, in bytes, operations or bytes of the receipt that its request keeps, answers TooLarge and leaves nothing.",
        why: "Cutting it to size keeps words that nobody asked to keep alone.",
        catches: "a backend that writes as much as fits",
    }
    "RUN-010" run_010_a_stale_guard_refuses_with_no_effect {
        title: "A leaf, head or revision that moved answers StaleLeaf, and nothing of the commit happens.",
        why: "A silent merge of two writers is a conversation that neither of them had.",
        catches: "a backend that checks guards after it wrote, or not at all",
    }
    "RUN-011" run_011_one_commit_on_several_sessions_keeps_them_apart {
        title: "One commit may work on several sessions by turns, with the same run ids, keys and streams in each: each gets its own, in order.",
        why: "A commit that hands a task from one session to another must not mix what they say.",
        catches: "a backend that gathers what a commit writes by name and forgets the session",
    }
}

async fn run_001_nothing_is_visible_before_the_commit(cx: &Context) -> Outcome {
    let (kit, other) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    kit.say(&session, "one").await?;
    let before = kit.snapshot().await?;
    let unmade = kit.store.commit(kit.appending(&session, vec![user("two"), user("three")]));
    kit.unchanged(&before, "a commit that nobody polled").await?;
    other.unchanged(&before, "a commit that nobody polled").await?;
    drop(unmade);
    kit.unchanged(&before, "a commit that was dropped before it began").await?;
    ensure_eq!(kit.say(&session, "two").await?, no(2), "the number after a commit that was never made");
    Ok(())
}

async fn run_002_a_reader_sees_all_of_a_commit_or_nothing(cx: &Context) -> Outcome {
    const BATCH: usize = 10;
    let (kit, reader) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    let watch = Watch::default();
    let reading = spawn({
        let (session, watch) = (session.clone(), watch.clone());
        async move {
            let mut different = 0;
            let mut last = 0;
            for look in 0..Watch::MOST {
                let over = watch.is_last();
                let mut query = reader.committed(&session);
                query.limit = 10_000;
                let seen = reader.store.entries(&query).await?.items.len();
                ensure_eq!(seen % BATCH, 0, "entries beyond whole batches, {seen} in all");
                let row = reader.row(&session).await?;
                let head = row.head.map_or(0, turnkeep_core::EntryNo::get) as usize;
                ensure_eq!(head % BATCH, 0, "the head between batches");
                ensure_eq!(row.messages as usize, head, "the message counter beside the head");
                ensure_eq!(
                    row.profile.title.as_ref().map(|title| title.text.clone()),
                    (head > 0).then(|| head.to_string()),
                    "the title beside the head"
                );
                different += usize::from(seen != last);
                last = seen;
                if over {
                    break;
                }
                watch.looked(look).await;
            }
            Ok((different, last))
        }
    });
    let mut written = Ok(());
    for batch in 1..=40 {
        watch.be_seen().await;
        let entries = (0..BATCH).map(|at| user(&format!("batch {batch}, item {at}"))).collect();
        let title = Title { text: (batch * BATCH).to_string(), source: TitleSource::Auto };
        let patch = SessionPatch { title: Some(Some(title)), ..SessionPatch::default() };
        let op = Op::PatchSession { session: session.clone(), patch };
        written = kit.apply(kit.appending(&session, entries).op(op)).await.map(|_| ());
        if written.is_err() {
            break;
        }
    }
    watch.end();
    let seen = gather(vec![reading]).await?;
    written?;
    ensure_eq!(
        seen.last().map(|(_, last)| *last),
        Some(40 * BATCH),
        "entries that the reader saw at the end"
    );
    Ok(())
}

/// Every way in which an entry can be wrong, by itself or where it is put.
fn bad_entries() -> Vec<(&'static str, NewEntry, ErrorKind)> {
    let unknown = (name("label_target"), RefTarget::Number(no(4_000_000)));
    let later = (name("label_target"), RefTarget::InCommit(19));
    vec![
        ("a taken key", keyed("taken", "x"), ErrorKind::AlreadyExists),
        ("a key that an earlier entry of the batch has", keyed("first", "x"), ErrorKind::AlreadyExists),
        ("an unknown parent", NewEntry { parent: Parent::Number(no(999)), ..user("x") }, ErrorKind::NotFound),
        ("a later parent", NewEntry { parent: Parent::InCommit(19), ..user("x") }, ErrorKind::Invalid),
        ("an unknown reference", NewEntry { refs: vec![unknown], ..user("x") }, ErrorKind::NotFound),
        ("a later reference", NewEntry { refs: vec![later], ..user("x") }, ErrorKind::Invalid),
        ("a NUL in its text", NewEntry { text: Some("a\0b".to_owned()), ..user("x") }, ErrorKind::Invalid),
    ]
}

async fn run_003_one_bad_entry_refuses_the_whole_batch(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.append(&session, vec![keyed("taken", "one"), user("two")]).await?;
    let before = kit.snapshot().await?;
    for (what, bad, kind) in bad_entries() {
        for place in [1, 10, 19] {
            let mut entries: Vec<_> = (0..20).map(|at| user(&format!("good {at}"))).collect();
            entries[0] = keyed("first", "good 0");
            entries[place] = bad.clone();
            kit.refused(kit.appending(&session, entries), kind).await?;
            kit.unchanged(&before, &format!("a batch with {what} at place {place}")).await?;
        }
    }
    let kept = || NewEntry { on_key: OnKey::Skip, ..keyed("taken", "again") };
    let receipt = kit.apply(kit.appending(&session, vec![user("three"), kept()])).await?;
    ensure_eq!(
        receipt.entries(0).collect::<Vec<_>>(),
        [no(3), no(1)],
        "the receipt of a batch with a skipped key"
    );
    ensure_eq!(kit.texts(&session).await?, ["one", "two", "three"], "the session after a skipped key");
    // What was skipped is still there to be followed: by its place, it is the entry that has the key.
    let follows = NewEntry { parent: Parent::InCommit(0), ..user("after the first") };
    kit.append(&session, vec![kept(), follows]).await?;
    let parent = kit.entries(&session).await?.last().and_then(|entry| entry.parent);
    ensure_eq!(parent, Some(no(1)), "the parent of an entry that follows a skipped one");
    Ok(())
}

/// A commit that touches everything a session has.
fn everything(kit: &Kit, session: &SessionRef, id: &str) -> Commit {
    let title = Title { text: format!("title {id}"), source: TitleSource::Auto };
    let mut record = put("c", id, "{\"state\":1}");
    record.owner = Some(session.clone());
    let usage = turnkeep_core::model::Usage { requests: 1, input_tokens: 10, ..Default::default() };
    kit.appending(session, vec![keyed(&format!("key {id}"), id), user("more")])
        .op(Op::StartRun { session: session.clone(), run: run(id) })
        .op(Op::AppendEvents {
            session: session.clone(),
            stream: name("runs"),
            expect_next: None,
            events: vec![event("run_started", 1)],
        })
        .op(Op::AddUsage { session: session.clone(), run: Some(name(id)), usage })
        .op(Op::TransitionRun {
            session: session.clone(),
            run: name(id),
            from: RunStates::ACTIVE,
            to: RunState::Completed,
            error: None,
        })
        .op(Op::PutRecord(record))
        .op(Op::PutRecord(put("d", id, "1")))
        .op(Op::PatchSession {
            session: session.clone(),
            patch: SessionPatch {
                title: Some(Some(title)),
                meta: Some(Some(payload("{\"m\":1}"))),
                ..SessionPatch::default()
            },
        })
}

async fn run_004_messages_state_and_metadata_are_one_atom(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let before = kit.snapshot().await?;
    let late = Op::PutRecord(turnkeep_core::commit::Put { expect: Expect::Absent, ..put("c", "r1", "2") });
    kit.refused(everything(&kit, &session, "r1").op(late), ErrorKind::VersionConflict).await?;
    kit.unchanged(&before, "a commit whose last op is refused").await?;

    kit.apply(everything(&kit, &session, "r1")).await?;
    let other = cx.kit().await?;
    let row = other.row(&session).await?;
    ensure_eq!(other.texts(&session).await?, ["r1", "more"], "messages");
    ensure_eq!(
        other.find_run(&session, "r1").await?.map(|run| run.state),
        Some(RunState::Completed),
        "the run"
    );
    ensure_eq!(other.events(other.stream(&session, "runs")).await?.len(), 1, "events");
    ensure_eq!(
        other.record("c", "r1").await?.map(|record| record.version.count),
        Some(1),
        "the owned record"
    );
    ensure!(other.record("d", "r1").await?.is_some(), "the record that nobody owns is missing");
    ensure_eq!(row.usage.input_tokens, 10, "usage of the session");
    ensure_eq!(row.active_run, None, "the active run");
    ensure_eq!((row.messages, row.runs), (2, 1), "counters");
    ensure_eq!(row.profile.title.map(|title| title.text), Some("title r1".to_owned()), "the title");
    ensure_eq!(row.profile.meta, Some(payload("{\"m\":1}")), "the host's data");
    ensure_eq!(row.revision, 2, "the revision after creation and one commit");
    Ok(())
}

async fn count_rows(cx: &Context) -> Outcome<Option<Vec<TableCount>>> {
    cx.harness.residue(&cx.site).await.map_err(|error| Stop::error(format!("counting rows failed: {error}")))
}

async fn run_005_a_refused_commit_leaves_no_residue(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.apply(everything(&kit, &session, "r1")).await?;
    let doomed = kit.create("doomed").await?;
    kit.say(&doomed, "still here").await?;
    let before = kit.snapshot().await?;
    let rows = count_rows(cx).await?;
    let lost = kit.commit().guard(Guard::Head { session: session.clone(), head: Some(no(77)) });
    let stale = |op: Op| lost.clone().op(op);
    let late = |commit: Commit| commit.op(Op::MoveLeaf { session: session.clone(), to: Some(no(99)) });
    let grant = kit.session_grant(&session, cx.lease_ms());
    let refusals = [
        ("a guard", stale(Op::PutRecord(put("c", "new", "1"))), ErrorKind::StaleLeaf),
        ("a late op", late(everything(&kit, &session, "r2")), ErrorKind::NotFound),
        (
            "a late op after a create",
            late(kit.commit().op(Op::CreateSession(kit.new_session(&kit.life("new"))))),
            ErrorKind::NotFound,
        ),
        (
            "a late op after a delete",
            late(kit.commit().op(Op::DeleteSession { session: doomed.clone(), force: false })),
            ErrorKind::NotFound,
        ),
        (
            "a late op after taking a lease",
            late(kit.commit().op(Op::AcquireLease(grant))),
            ErrorKind::NotFound,
        ),
        (
            "a late op after new events",
            late(kit.commit().op(Op::AppendEvents {
                session: session.clone(),
                stream: name("fresh"),
                expect_next: Some(1),
                events: vec![event("note", 1)],
            })),
            ErrorKind::NotFound,
        ),
        (
            "a request that is refused",
            late(everything(&kit, &session, "r3")).request(kit.request("again", &session)),
            ErrorKind::NotFound,
        ),
        ("a used run", everything(&kit, &session, "r1"), ErrorKind::AlreadyExists),
        ("an unknown session", kit.appending(&kit.life("nobody"), vec![user("x")]), ErrorKind::NotFound),
    ];
    for (what, commit, kind) in refusals {
        kit.refused(commit, kind).await?;
        kit.unchanged(&before, what).await?;
        ensure_eq!(count_rows(cx).await?, rows, "rows of all tables after {what}");
    }
    // A refused request is not remembered: the same id is free for the commit that works.
    kit.apply(everything(&kit, &session, "r3").request(kit.request("again", &session))).await?;
    Ok(())
}

async fn run_007_a_dropped_future_leaves_all_or_nothing(cx: &Context) -> Outcome {
    const BATCH: usize = 5;
    const ATTEMPTS: u32 = 40;
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let mut acknowledged = Vec::new();
    for attempt in 0..ATTEMPTS {
        let entries: Vec<_> = (0..BATCH).map(|at| user(&format!("attempt {attempt}, item {at}"))).collect();
        let commit = kit.store.commit(kit.appending(&session, entries));
        // Half are given up at an await, half after some time, so that the store is found in every state.
        let answered = if attempt % 2 == 0 {
            polled(commit, attempt as usize / 2).await
        } else {
            tokio::time::timeout(Duration::from_micros(u64::from(attempt) * 100), commit).await.ok()
        };
        acknowledged.push(answered.transpose()?.is_some());
        kit.say(&session, &format!("after {attempt}")).await?;
    }
    let kit = cx.kit().await?;
    let texts = kit.texts(&session).await?;
    let mut expected = ATTEMPTS as usize;
    for (attempt, acknowledged) in acknowledged.into_iter().enumerate() {
        let prefix = format!("attempt {attempt},");
        let places: Vec<_> = (0..texts.len()).filter(|at| texts[*at].starts_with(&prefix)).collect();
        ensure!(
            places.is_empty() || places.len() == BATCH,
            "attempt {attempt}, given up halfway, left {} of {BATCH} entries",
            places.len()
        );
        ensure!(
            places.windows(2).all(|two| two[0] + 1 == two[1]),
            "attempt {attempt} is torn apart: {places:?}"
        );
        ensure!(!acknowledged || !places.is_empty(), "attempt {attempt} was acknowledged and is not there");
        let after = texts.iter().filter(|text| **text == format!("after {attempt}")).count();
        ensure_eq!(after, 1, "commits after attempt {attempt}");
        expected += places.len();
    }
    ensure_eq!(texts.len(), expected, "entries in all");
    Ok(())
}

async fn run_009_an_oversized_commit_is_rejected_whole(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.say(&session, "one").await?;
    let before = kit.snapshot().await?;
    let limits = kit.store.info().limits.clone();
    let part = (limits.payload_bytes / 2).max(2);
    let large =
        NewEntry { payload: payload(&format!("\"{}\"", "x".repeat(part - 2))), text: None, ..user("") };
    let parts = limits.commit_bytes / part + 1;
    let mut commit = kit.appending(&session, vec![user("small")]);
    for _ in 0..parts {
        commit = commit.op(Op::Append { session: session.clone(), entries: vec![large.clone()] });
    }
    kit.refused(commit, ErrorKind::TooLarge).await?;
    kit.unchanged(&before, "a commit with too many bytes").await?;

    let mut many = kit.commit();
    for _ in 0..=limits.commit_ops {
        many = many.op(Op::Append { session: session.clone(), entries: vec![user("small")] });
    }
    kit.refused(many, ErrorKind::TooLarge).await?;
    kit.unchanged(&before, "a commit with too many operations").await?;

    // Each of these is small; what is kept of them all for a repeat is not.
    let request = kit.request("many records", &session);
    let mut kept = kit.commit().request(request);
    for at in 0..1_000 {
        kept = kept.op(Op::PutRecord(put("c", &format!("k{at}"), "1")));
    }
    kit.refused(kept, ErrorKind::TooLarge).await?;
    kit.unchanged(&before, "a commit whose receipt is too large to be kept").await?;
    Ok(())
}

async fn run_010_a_stale_guard_refuses_with_no_effect(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    kit.append(&session, vec![user("one"), keyed("k", "two")]).await?;
    kit.start(&session, run("r")).await?;
    let version = kit.put(put("c", "k", "1")).await?;
    let row = kit.row(&session).await?;
    let before = kit.snapshot().await?;
    let s = || session.clone();
    let expect = |expect| Guard::Record { collection: name("c"), key: name("k"), expect };
    let old = turnkeep_core::model::Version { birth: version.birth.wrapping_add(1), count: version.count };
    let failed = RunStates::of(&[RunState::Failed]);
    let stale = [
        (Guard::Leaf { session: s(), leaf: Some(no(1)) }, ErrorKind::StaleLeaf),
        (Guard::Leaf { session: s(), leaf: None }, ErrorKind::StaleLeaf),
        (Guard::Head { session: s(), head: Some(no(3)) }, ErrorKind::StaleLeaf),
        (Guard::Head { session: s(), head: None }, ErrorKind::StaleLeaf),
        (Guard::Revision { session: s(), revision: row.revision - 1 }, ErrorKind::StaleLeaf),
        (Guard::Revision { session: s(), revision: row.revision + 1 }, ErrorKind::StaleLeaf),
        (Guard::SessionAbsent { id: name("s") }, ErrorKind::AlreadyExists),
        (Guard::NoActiveRun { session: s() }, ErrorKind::ActiveRun),
        (Guard::RunIn { session: s(), run: name("r"), states: failed }, ErrorKind::RunState),
        (Guard::RunIn { session: s(), run: name("q"), states: RunStates::ALL }, ErrorKind::NotFound),
        (Guard::KeyPresent { session: s(), key: name("other") }, ErrorKind::NotFound),
        (Guard::KeyAbsent { session: s(), key: name("k") }, ErrorKind::AlreadyExists),
        (expect(Expect::Absent), ErrorKind::VersionConflict),
        (expect(Expect::Version(old)), ErrorKind::VersionConflict),
    ];
    for (guard, kind) in stale {
        let what = format!("{guard:?}");
        kit.refused(kit.appending(&session, vec![user("late")]).guard(guard), kind).await?;
        kit.unchanged(&before, &what).await?;
    }
    let true_ones = [
        Guard::Leaf { session: s(), leaf: Some(no(2)) },
        Guard::Head { session: s(), head: Some(no(2)) },
        Guard::Revision { session: s(), revision: row.revision },
        Guard::SessionAbsent { id: name("t") },
        Guard::RunIn { session: s(), run: name("r"), states: RunStates::ACTIVE },
        Guard::KeyPresent { session: s(), key: name("k") },
        Guard::KeyAbsent { session: s(), key: name("other") },
        expect(Expect::Version(version)),
        expect(Expect::Any),
    ];
    let commit = kit.appending(&session, vec![user("three")]);
    kit.apply(true_ones.into_iter().fold(commit, Commit::guard)).await?;
    ensure_eq!(kit.texts(&session).await?, ["one", "two", "three"], "the session after guards that hold");
    kit.apply(kit.commit().op(kit.moving(&session, &name("r"), RunState::Completed))).await?;
    let idle = Guard::NoActiveRun { session: session.clone() };
    kit.apply(kit.appending(&session, vec![user("four")]).guard(idle)).await?;
    Ok(())
}
