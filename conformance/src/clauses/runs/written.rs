//! What is written with a run: its admission, its closing, its events.

use turnkeep_core::commit::{Commit, Fence, LeaseGrant, NewEntry, NewEvent, NewRun, Op, Put};
use turnkeep_core::model::{LeaseState, RunState, Version};
use turnkeep_core::query::{EntryQuery, EventQuery};
use turnkeep_core::{ErrorKind, Expect, SessionRef};

use crate::context::Context;
use crate::kit::{Kit, event, name, no, note, put, run, user};
use crate::verdict::Outcome;

/// Everything that taking in a request consists of.
fn admission(kit: &Kit, session: &SessionRef, ttl_ms: u64) -> (Commit, LeaseGrant) {
    let grant = kit.session_grant(session, ttl_ms);
    let mut intent = put("intents", "i", "{\"opaque\":true}");
    intent.owner = Some(session.clone());
    let start = NewEntry {
        key: Some(name("turn/t/start")),
        kind: name("turn_start"),
        turn: Some(name("t")),
        ..note("")
    };
    let asked = NewEntry { turn: Some(name("t")), run: Some(name("r")), ..user("question") };
    let commit = kit
        .commit()
        .op(Op::AcquireLease(grant.clone()))
        .op(Op::PutRecord(intent))
        .op(Op::StartRun {
            session: session.clone(),
            run: NewRun { state: RunState::Pending, intent: Some(name("i")), ..run("r") },
        })
        .op(Op::Append { session: session.clone(), entries: vec![start, asked] })
        .op(Op::AppendEvents {
            session: session.clone(),
            stream: name("runs"),
            expect_next: None,
            events: vec![event("run_started", 1)],
        });
    (commit, grant)
}

pub(super) async fn sta_006_admission_and_closing_are_one_atom_each(cx: &Context) -> Outcome {
    let (kit, other) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    let before = kit.snapshot().await?;
    let (commit, _) = admission(&kit, &session, cx.lease_ms());
    let late = Op::MoveLeaf { session: session.clone(), to: Some(no(99)) };
    let taken =
        Op::PutRecord(Put { expect: Expect::Version(Version { birth: 1, count: 1 }), ..put("c", "k", "1") });
    for part in 0..=commit.ops.len() {
        for (bad, kind) in [(late.clone(), ErrorKind::NotFound), (taken.clone(), ErrorKind::VersionConflict)]
        {
            let mut commit = commit.clone();
            commit.ops.insert(part, bad);
            kit.refused(commit, kind).await?;
            kit.unchanged(&before, &format!("an admission refused after {part} parts")).await?;
        }
    }
    ensure!(kit.lease(&session).await?.is_none(), "a refused admission left its lease");

    let (commit, grant) = admission(&kit, &session, cx.lease_ms());
    kit.apply(commit).await?;
    let (again, _) = admission(&other, &session, cx.lease_ms());
    other.refused(again, ErrorKind::LeaseHeld).await?;
    let row = other.row(&session).await?;
    ensure_eq!(
        (row.active_run, row.messages, row.head),
        (Some(name("r")), 1, Some(no(2))),
        "the session after admission"
    );
    ensure!(other.record("intents", "i").await?.is_some(), "the intent is missing");
    ensure_eq!(other.events(other.stream(&session, "runs")).await?.len(), 1, "events after admission");
    let lease = other.lease(&session).await?.map(|lease| (lease.state, lease.owner, lease.epoch));
    ensure_eq!(lease, Some((LeaseState::Held, kit.store.info().owner, 1)), "the lease after admission");

    let fence = Fence { name: grant.name, owner: grant.owner, token: grant.token, epoch: 1 };
    let end =
        NewEntry { key: Some(name("turn/t/end")), kind: name("turn_end"), turn: Some(name("t")), ..note("") };
    let answer = NewEntry {
        turn: Some(name("t")),
        run: Some(name("r")),
        role: Some(name("assistant")),
        ..user("answer")
    };
    let closing = || {
        kit.appending(&session, vec![answer.clone(), end.clone()])
            .fence(fence.clone())
            .op(kit.moving(&session, &name("r"), RunState::Completed))
            .op(Op::AppendEvents {
                session: session.clone(),
                stream: name("runs"),
                expect_next: None,
                events: vec![event("run_completed", 2)],
            })
            .op(Op::DropEvents {
                session: session.clone(),
                stream: name("partial/t"),
                through: None,
                close: true,
            })
            .op(Op::ReleaseLease { fence: fence.clone() })
    };
    let pieces = Op::AppendEvents {
        session: session.clone(),
        stream: name("partial/t"),
        expect_next: Some(1),
        events: vec![event("text", 1)],
    };
    kit.apply(kit.commit().fence(fence.clone()).op(pieces)).await?;
    let before = kit.snapshot().await?;
    for part in 0..=closing().ops.len() {
        for (bad, kind) in [(late.clone(), ErrorKind::NotFound), (taken.clone(), ErrorKind::VersionConflict)]
        {
            let mut commit = closing();
            commit.ops.insert(part, bad);
            kit.refused(commit, kind).await?;
            kit.unchanged(&before, &format!("a closing refused after {part} parts")).await?;
        }
    }
    let unfenced = Commit { fences: Vec::new(), ..closing() };
    kit.refused(unfenced, ErrorKind::LeaseHeld).await?;
    kit.unchanged(&before, "a closing without its fence").await?;
    kit.apply(closing()).await?;
    let before = other.snapshot().await?;
    kit.refused(closing(), ErrorKind::LeaseLost).await?;
    other.unchanged(&before, "closing twice").await?;
    let row = other.row(&session).await?;
    ensure_eq!((row.active_run, row.messages, row.head), (None, 2, Some(no(4))), "the session after closing");
    ensure_eq!(
        other.find_run(&session, "r").await?.map(|run| run.state),
        Some(RunState::Completed),
        "the run after closing"
    );
    ensure_eq!(other.events(other.stream(&session, "runs")).await?.len(), 2, "events after closing");
    ensure_eq!(
        other.events(other.stream(&session, "partial/t")).await?.len(),
        0,
        "streamed text after closing"
    );
    ensure_eq!(
        other.lease(&session).await?.map(|lease| lease.state),
        Some(LeaseState::Released),
        "the lease after closing"
    );
    let turn = EntryQuery { turn: Some(name("t")), ..other.every_entry(&session) };
    ensure_eq!(other.walk(turn).await?.len(), 4, "entries of the turn");
    Ok(())
}

pub(super) async fn sta_007_events_are_contiguous_and_a_cursor_gives_the_tail(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let (a, b) = (kit.create("a").await?, kit.create("b").await?);
    let append = |session: &SessionRef, stream: &str, n: u64, run: Option<&str>| {
        let events = vec![NewEvent { run: run.map(name), ..event("e", n) }];
        kit.commit().op(Op::AppendEvents {
            session: session.clone(),
            stream: name(stream),
            expect_next: None,
            events,
        })
    };
    for n in 1..=12 {
        kit.apply(append(&a, "one", n, (n % 3 == 0).then_some("r"))).await?;
        kit.apply(append(&a, "two", n + 100, None)).await?;
        kit.apply(append(&b, "one", n + 200, None)).await?;
    }
    for (session, stream, offset) in [(&a, "one", 0), (&a, "two", 100), (&b, "one", 200)] {
        let all = kit.events(kit.stream(session, stream)).await?;
        let seen: Vec<_> =
            all.iter().map(|event| (event.number, event.payload.as_str().to_owned())).collect();
        let expected: Vec<_> = (1..=12).map(|n| (n, format!("{{\"n\":{}}}", n + offset))).collect();
        ensure_eq!(seen, expected, "events of {stream} in {session}");
        for after in 0..=13 {
            let tail = kit
                .events(EventQuery { after: Some(after), limit: 5, ..kit.stream(session, stream) })
                .await?;
            let seen: Vec<_> = tail.iter().map(|event| event.number).collect();
            ensure_eq!(seen, (after + 1..=12).collect::<Vec<_>>(), "events of {stream} after {after}");
        }
    }
    let of_run = EventQuery { run: Some(name("r")), ..kit.stream(&a, "one") };
    let seen: Vec<_> = kit.events(of_run).await?.iter().map(|event| event.number).collect();
    ensure_eq!(seen, [3, 6, 9, 12], "events of a run");
    let drop = |through| {
        kit.commit().op(Op::DropEvents { session: a.clone(), stream: name("one"), through, close: false })
    };
    kit.apply(drop(Some(5))).await?;
    for after in [0, 4, 5, 6] {
        let tail = kit.events(EventQuery { after: Some(after), ..kit.stream(&a, "one") }).await?;
        let seen: Vec<_> = tail.iter().map(|event| event.number).collect();
        ensure_eq!(seen, (after.max(5) + 1..=12).collect::<Vec<_>>(), "events after {after}, five dropped");
    }
    // A walk that is under way while the stream is dropped at its beginning and grows at its end.
    let mut walk = EventQuery { limit: 3, ..kit.stream(&a, "one") };
    walk.cursor = kit.store.events(&walk).await?.next;
    ensure!(walk.cursor.is_some(), "a page that is not the last gives no cursor");
    kit.apply(append(&a, "one", 13, None)).await?;
    kit.apply(drop(Some(10))).await?;
    let kit = if cx.manifest.capabilities.persistent { cx.reopen(kit.clone()).await? } else { kit.clone() };
    let seen: Vec<_> = kit.events(walk).await?.iter().map(|event| event.number).collect();
    ensure_eq!(seen, [11, 12, 13], "the rest of a walk that began at 6 to 8");
    kit.apply(drop(Some(3))).await?;
    kit.apply(drop(None)).await?;
    kit.apply(append(&a, "one", 14, None)).await?;
    let seen: Vec<_> = kit.events(kit.stream(&a, "one")).await?.iter().map(|event| event.number).collect();
    ensure_eq!(seen, [14], "the event after all were dropped");
    ensure_eq!(kit.events(kit.stream(&a, "two")).await?.len(), 12, "events of the other stream");
    Ok(())
}
