//! Deletion: gone from every read at once, and in the end from every table.

mod killed;
mod within;

use std::time::Duration;

use turnkeep_core::commit::{Op, Request, RequestId, SessionPatch};
use turnkeep_core::model::{LeaseName, SessionState};
use turnkeep_core::query::{OwnerFilter, RecordQuery, RunQuery, SearchQuery, SessionQuery};
use turnkeep_core::store::PurgeReport;
use turnkeep_core::{Durability, ErrorKind, Payload, SessionRef};

use crate::clause::Kind;
use crate::context::Context;
use crate::harness::TableCount;
use crate::kit::{Kit, event, keyed, name, note, payload, put, run, user};
use crate::verdict::{Outcome, Stop};
use killed::del_004_a_kill_leaves_a_session_or_deletes_it;
use within::del_006_what_one_commit_fills_and_deletes_is_gone;

clauses! { ($) deletion_tests;
    "DEL-001" del_001_a_deleted_session_is_gone_from_every_read {
        title: "A deleted session is gone from every read in the commit that deletes it: lists, filters, entries, runs, events, records, rows, search, its lease.",
        why: "A person who deletes a conversation must not find its words anywhere.",
        catches: "a backend that hides the session row only",
    }
    "DEL-002" del_002_a_purge_leaves_no_row_case_52 {
        title: "A deleted session is purged by and by without being asked for; after the purge no table holds a row of it.",
        why: "Messages left behind fill the disk, and come back when the id is used again.",
        links: &["NousResearch/hermes-agent#87928", "google/adk-python#2752", "microsoft/autogen#5804"],
        catches: "a backend that relies on foreign keys that are switched off",
        cases: &["case-52"],
    }
    "DEL-003" del_003_a_recreated_id_inherits_nothing_case_52 {
        title: "A session created again under a used id inherits nothing: no entry, key, run, event, record, lease, request or number; handles of the former life stay refused.",
        why: "The old chat returns when its id is reused.",
        links: &["google/adk-python#2752"],
        catches: "a backend that keys rows by session id instead of incarnation",
        cases: &["case-52"],
    }
    "DEL-004" del_004_a_kill_leaves_a_session_or_deletes_it {
        title: "A kill in the middle of a delete leaves the session whole or gone, one in the middle of its purge leaves it gone; whoever opens the store goes on with the purge until no row is left.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        timeout: Duration::from_secs(300),
        why: "Half a conversation is neither kept nor deleted, and nobody would look for the rest.",
        catches: "a backend that deletes row by row, or forgets what it still had to purge",
        peer: Some(killed::delete),
    }
    "DEL-005" del_005_deleting_a_held_session_needs_fence_or_force {
        title: "Deleting a session that somebody holds, or whose run is active, needs its fence or force; afterwards the owner of the run is refused.",
        why: "A delete under a running agent loses the words it is about to write, and must at least be meant.",
        catches: "a backend that deletes without looking at the lease",
    }
    "DEL-006" del_006_what_one_commit_fills_and_deletes_is_gone {
        title: "A session that one commit works on and then deletes is gone with all that the commit gave it, records it took over included; what the same commit does elsewhere stays, and no table keeps a row. Making and deleting a session in one commit is Invalid, and so is deleting it and making the same life again.",
        why: "A commit is one step: what it undoes itself must neither come back nor take a neighbour along.",
        catches: "a backend that deletes first and then writes the rest of the commit",
    }
}

/// What the host keeps with a session.
fn meta_of(id: &str) -> Payload {
    payload(&format!("{{\"of\":\"{id}\"}}"))
}

/// A session with a row in every table that a session can have rows in.
async fn full(kit: &Kit, id: &str) -> Outcome<SessionRef> {
    let session = kit.create(id).await?;
    let owned = |collection: &str| turnkeep_core::commit::Put {
        owner: Some(session.clone()),
        status: Some(name("open")),
        ..put(collection, &format!("of {id}"), "\"secret\"")
    };
    let branch = turnkeep_core::commit::NewEntry {
        parent: turnkeep_core::commit::Parent::Root,
        ..user("another secret")
    };
    let commit = kit
        .appending(&session, vec![keyed("k", "a secret"), user("more"), note("label"), branch])
        .request(kit.request("job", &session))
        .op(Op::StartRun {
            session: session.clone(),
            run: turnkeep_core::commit::NewRun { intent: Some(name("i")), ..run("r") },
        })
        .op(Op::AppendEvents {
            session: session.clone(),
            stream: name("notes"),
            expect_next: None,
            events: vec![event("n", 1), event("n", 2)],
        })
        .op(Op::PutRecord(owned("c")))
        .op(Op::PutRecord(owned("tool-claims")))
        .op(Op::PatchSession {
            session: session.clone(),
            patch: SessionPatch { meta: Some(Some(meta_of(id))), ..SessionPatch::default() },
        });
    kit.apply(commit).await?;
    let over = kit.moving(&session, &name("r"), turnkeep_core::model::RunState::Completed);
    let mine = Request {
        owner: Some(session.clone()),
        ..Request::in_workspace(RequestId::Host(format!("over {id}")))
    };
    kit.apply(kit.commit().op(over).request(mine)).await?;
    let fence = kit.acquire(&session, 1_000).await?;
    kit.release(&fence).await?;
    Ok(session)
}

async fn del_001_a_deleted_session_is_gone_from_every_read(cx: &Context) -> Outcome {
    let (kit, other) = (cx.kit().await?, cx.kit().await?);
    let session = full(&kit, "s").await?;
    let stays = full(&kit, "stays").await?;
    for session in [&session, &stays] {
        let meta = kit.row(session).await?.profile.meta;
        ensure_eq!(meta, Some(meta_of(session.id.as_str())), "the host's data in {session}");
    }
    let mark = kit.workspace_mark().await?;
    kit.delete(&session).await?;
    for kit in [&kit, &other] {
        let gone = ErrorKind::NotFound;
        ensure!(kit.find("s").await?.is_none(), "the session is found by its id");
        ensure_eq!(kit.ids(kit.list()).await?, ["stays"], "sessions in the list");
        let hidden = SessionQuery { state: SessionState::Restoring, ..kit.list() };
        ensure_eq!(kit.ids(hidden).await?, [""; 0], "sessions being built");
        let by_text = SessionQuery { text: Some("another secret".to_owned()), total: true, ..kit.list() };
        ensure_eq!(kit.ids(by_text).await?, ["stays"], "sessions with the deleted words");
        let counted = SessionQuery { total: true, ..kit.list() };
        ensure_eq!(kit.store.sessions(&counted).await?.total, Some(1), "the total of sessions");
        ensure_refused!(kit.store.entries(&kit.committed(&session)).await, gone, "entries");
        ensure_refused!(kit.store.runs(&kit.runs_of(&session)).await, gone, "runs");
        ensure_refused!(kit.store.events(&kit.stream(&session, "notes")).await, gone, "events");
        ensure_refused!(kit.store.rows(&kit.rows_of(&session)).await, gone, "rows");
        let owned = RecordQuery { owner: OwnerFilter::Session(session.clone()), ..kit.collection("c") };
        ensure_refused!(kit.store.records(&owned).await, gone, "its records");
        let every = || RunQuery::new(kit.workspace.clone());
        for query in [
            every(),
            RunQuery { id: Some(name("r")), ..every() },
            RunQuery { intent: Some(name("i")), ..every() },
        ] {
            let sessions: Vec<_> = kit.runs(query).await?.into_iter().map(|run| run.session).collect();
            ensure_eq!(sessions, vec![stays.clone()], "the sessions of the workspace's runs");
        }
        let keys: Vec<_> =
            kit.records(kit.collection("c")).await?.iter().map(|r| r.key.as_str().to_owned()).collect();
        ensure_eq!(keys, ["of stays"], "records of the collection");
        ensure!(kit.record("c", "of s").await?.is_none(), "its record is found by key");
        let by_status = RecordQuery { status: Some(name("open")), ..kit.collection("tool-claims") };
        ensure_eq!(kit.records(by_status).await?.len(), 1, "records by status");
        ensure!(kit.lease(&session).await?.is_none(), "its lease is still there");
        ensure!(kit.workspace_mark().await? != mark, "the workspace's mark did not move");
        if cx.manifest.capabilities.search {
            let hits = kit.store.search(&SearchQuery::new(kit.workspace.clone(), "secret")).await?;
            ensure!(hits.items.iter().all(|hit| hit.session == stays), "search finds the deleted words");
        }
        kit.refused(kit.appending(&session, vec![user("late")]), gone).await?;
        kit.refused(kit.commit().op(Op::DeleteSession { session: session.clone(), force: true }), gone)
            .await?;
    }
    // Its records read as absent, so the keys are free.
    let claim = turnkeep_core::commit::Put { expect: turnkeep_core::Expect::Absent, ..put("c", "of s", "1") };
    kit.put(claim).await?;
    // The mark tells of the newest one too, however few commits before it another one was changed.
    for between in 0..4 {
        kit.say(&stays, "words").await?;
        for at in 0..between {
            kit.put(put("d", &format!("{at}"), "1")).await?;
        }
        let newest = kit.create("newest").await?;
        let mark = other.workspace_mark().await?;
        kit.delete(&newest).await?;
        let moved = other.workspace_mark().await? != mark;
        ensure!(moved, "the workspace's mark did not move when the newest session was deleted");
    }
    Ok(())
}

async fn count_rows(cx: &Context) -> Outcome<Vec<TableCount>> {
    let counted = cx.harness.residue(&cx.site).await;
    let counted = counted.map_err(|error| Stop::error(format!("counting rows failed: {error}")))?;
    counted.ok_or_else(|| Stop::not_run("the harness counts no rows"))
}

/// Waits until every deleted session is purged.
async fn purge(kit: &Kit) -> Outcome {
    let maintenance = kit.store.maintenance();
    let maintenance = maintenance.ok_or_else(|| Stop::fail("a store that deletes must offer a purge"))?;
    maintenance.purge().await?;
    Ok(())
}

/// Whoever asks for a purge is told what it removed; but the store may have been quicker.
async fn told(kit: &Kit) -> Outcome {
    const ROUNDS: usize = 5;
    const SESSIONS: usize = 20;
    const ENTRIES: usize = 5;
    let mut owed = None;
    for _ in 0..ROUNDS {
        let (mut fill, mut delete) = (kit.commit(), kit.commit());
        for at in 0..SESSIONS {
            let session = kit.life(&format!("many {at}"));
            let entries = (0..ENTRIES).map(|at| user(&at.to_string())).collect();
            fill = fill
                .op(Op::CreateSession(kit.new_session(&session)))
                .op(Op::Append { session: session.clone(), entries });
            delete = delete.op(Op::DeleteSession { session, force: false });
        }
        kit.apply(fill).await?;
        kit.apply(delete).await?;
        let maintenance = kit.store.maintenance();
        let maintenance = maintenance.ok_or_else(|| Stop::fail("a store that deletes must offer a purge"))?;
        let waiting = maintenance.stats().await?.purges;
        let report = maintenance.purge().await?;
        // Of the first one the store may have removed a part by itself.
        if report.sessions > 1 && report.rows >= (report.sessions - 1) * (ENTRIES as u64 + 1) {
            return Ok(());
        }
        if waiting > 2 {
            owed = Some((waiting, report));
        }
    }
    owed.map_or(Ok(()), |(waiting, report)| {
        let PurgeReport { sessions, rows } = report;
        Err(Stop::fail(format!(
            "{waiting} sessions waited for the purge, which tells of {sessions} sessions and {rows} rows"
        )))
    })
}

/// Waits until no session waits for its purge, which the store does without being asked. `words` are said meanwhile.
async fn purged(kit: &Kit, words: bool, otherwise: &str) -> Outcome {
    let maintenance = kit.store.maintenance();
    let maintenance = maintenance.ok_or_else(|| Stop::fail("a store that deletes must offer a purge"))?;
    for look in 0..400 {
        if words && look % 50 == 49 {
            kit.put(put("beside", "k", &look.to_string())).await?;
        }
        if maintenance.stats().await?.purges == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(Stop::fail(otherwise))
}

async fn del_002_a_purge_leaves_no_row_case_52(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let stays = full(&kit, "stays").await?;
    // The workspace's own row is there by now: nothing else may be left by a life that is over.
    let before = count_rows(cx).await?;
    ensure!(before.iter().any(|table| table.rows > 0), "the harness counts no rows at all");
    let first = full(&kit, "s").await?;
    kit.delete(&first).await?;
    purge(&kit).await?;
    ensure_eq!(count_rows(cx).await?, before, "rows of all tables after the first life");
    let session = full(&kit, "s").await?;
    let with = count_rows(cx).await?;
    ensure!(with != before, "the harness does not count the rows of a session");
    // A large entry ends a slice of a purge early, with more to come.
    let size = cx.manifest.limits.payload_bytes / 16;
    kit.append(&session, vec![user(&"x".repeat(size)), user("and more")]).await?;
    let child = kit.fork(&session, "child", turnkeep_core::EntryNo::FIRST).await?;
    kit.delete(&session).await?;
    kit.delete(&child).await?;
    told(&kit).await?;
    let (abandoned, _fence) = kit.begin_restore("abandoned", Default::default()).await?;
    kit.apply(kit.commit().op(Op::DeleteSession { session: abandoned, force: true })).await?;
    purge(&kit).await?;
    ensure_eq!(count_rows(cx).await?, before, "rows of all tables after delete and purge");
    // And once more, after a purge that found nothing left to do, by the one who deletes and by somebody else.
    let other = cx.kit().await?;
    other.say(&stays, "here too").await?;
    for kit in [&kit, &other] {
        let (session, beside) = (full(kit, "s").await?, full(kit, "beside").await?);
        let delete = |session| Op::DeleteSession { session, force: false };
        kit.apply(kit.commit().op(delete(session)).op(delete(beside))).await?;
        purged(kit, true, "a deleted session is not purged while the store is in use").await?;
    }
    ensure_eq!(kit.texts(&stays).await?.len(), 5, "entries of the session that stays");
    let meta = kit.row(&stays).await?.profile.meta;
    ensure_eq!(meta, Some(meta_of("stays")), "the host's data in the session that stays");
    Ok(())
}

async fn del_003_a_recreated_id_inherits_nothing_case_52(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let old = full(&kit, "s").await?;
    let held = kit.acquire(&old, cx.lease_ms()).await?;
    kit.apply(kit.commit().fence(held.clone()).op(Op::DeleteSession { session: old.clone(), force: false }))
        .await?;
    let new = kit.create("s").await?;
    for purged in [false, true] {
        if purged {
            purge(&kit).await?;
        }
        let row = kit.row(&new).await?;
        ensure_eq!(
            (row.head, row.path.leaf, row.runs, row.messages),
            (None, None, 0, 0),
            "counters, purged: {purged}"
        );
        ensure_eq!((row.revision, row.preview, row.active_run), (1, None, None), "the row, purged: {purged}");
        ensure_eq!(kit.walk(kit.every_entry(&new)).await?.len(), 0, "entries, purged: {purged}");
        ensure_eq!(kit.runs(kit.runs_of(&new)).await?.len(), 0, "runs, purged: {purged}");
        ensure_eq!(kit.events(kit.stream(&new, "notes")).await?.len(), 0, "events, purged: {purged}");
        let owned = RecordQuery { owner: OwnerFilter::Session(new.clone()), ..kit.collection("c") };
        ensure_eq!(kit.records(owned).await?.len(), 0, "records, purged: {purged}");
        ensure!(kit.lease(&new).await?.is_none(), "a lease, purged: {purged}");
        ensure_eq!(kit.rows(kit.rows_of(&new)).await?.len(), 1, "rows, purged: {purged}");
        kit.refused(kit.appending(&old, vec![user("late")]), ErrorKind::NotFound).await?;
        let late = kit.appending(&new, vec![user("late")]).fence(held.clone());
        kit.refused(late, ErrorKind::LeaseLost).await?;
        let late = kit.appending(&old, vec![user("late")]).fence(held.clone());
        kit.refused(late, ErrorKind::LeaseLost).await?;
    }
    // Keys, runs, attempts, streams, record keys, requests and epochs begin anew.
    let again = full_into(&kit, &new).await?;
    ensure_eq!(again, 1, "the attempt at an intent that the former life knew");
    let held = kit.acquire(&new, cx.lease_ms()).await?;
    ensure_eq!(held.epoch, 1, "the first epoch");
    ensure!(kit.lease(&old).await?.is_none(), "the former life has a lease, that of the present one");
    kit.release(&held).await?;
    the_very_same_life(&kit, &new).await
}

/// Not even a life of the very same name, which a caller without luck may draw, while the former one is so large that
/// its purge has only begun. Another one that waits for its purge goes on waiting.
async fn the_very_same_life(kit: &Kit, session: &SessionRef) -> Outcome {
    for _ in 0..2 {
        let words = (0..turnkeep_core::limits::SLICE_ROWS).map(|at| user(&at.to_string()));
        kit.append(session, words.collect()).await?;
    }
    let beside = full(kit, "beside").await?;
    let delete = |session: &SessionRef| Op::DeleteSession { session: session.clone(), force: true };
    kit.apply(kit.commit().op(delete(session)).op(delete(&beside))).await?;
    let own = turnkeep_core::commit::Put {
        owner: Some(session.clone()),
        expect: turnkeep_core::Expect::Absent,
        ..put("c", "of s", "2")
    };
    let again = kit.commit().op(Op::CreateSession(kit.new_session(session))).op(Op::PutRecord(own));
    kit.apply(again).await?;
    for purged in [false, true] {
        if purged {
            purge(kit).await?;
        }
        let rows = kit.rows(kit.rows_of(session)).await?;
        let records = rows.iter().filter(|row| matches!(row, turnkeep_core::model::Row::Record(_))).count();
        ensure_eq!((rows.len(), records), (2, 1), "rows of the same life, purged: {purged}");
    }
    kit.append(session, vec![keyed("k", "once more")]).await?;
    ensure_eq!(kit.texts(session).await?, ["once more"], "the words of the same life");
    Ok(())
}

/// Uses everything that the former life used, and gives the number of the attempt.
async fn full_into(kit: &Kit, session: &SessionRef) -> Outcome<u32> {
    let commit = kit
        .appending(session, vec![keyed("k", "fresh")])
        .request(kit.request("job", session))
        .op(Op::StartRun {
            session: session.clone(),
            run: turnkeep_core::commit::NewRun { intent: Some(name("i")), ..run("r") },
        })
        .op(Op::AppendEvents {
            session: session.clone(),
            stream: name("notes"),
            expect_next: Some(1),
            events: vec![event("n", 1)],
        })
        .op(Op::PutRecord(turnkeep_core::commit::Put {
            owner: Some(session.clone()),
            expect: turnkeep_core::Expect::Absent,
            ..put("c", "of s", "1")
        }));
    let receipt = kit.apply(commit).await?;
    ensure!(!receipt.replayed, "the request of the former life is remembered");
    match receipt.outcomes.get(1) {
        Some(turnkeep_core::Outcome::Run { attempt, .. }) => Ok(*attempt),
        other => Err(Stop::fail(format!("the receipt of a run names no attempt: {other:?}"))),
    }
}

async fn del_005_deleting_a_held_session_needs_fence_or_force(cx: &Context) -> Outcome {
    let (owner, kit) = (cx.kit().await?, cx.kit().await?);
    let delete =
        |session: &SessionRef, force| kit.commit().op(Op::DeleteSession { session: session.clone(), force });
    let held = owner.create("held").await?;
    let fence = owner.acquire(&held, cx.lease_ms()).await?;
    let started = Op::StartRun { session: held.clone(), run: run("r") };
    owner.apply(owner.appending(&held, vec![user("words")]).fence(fence.clone()).op(started)).await?;
    let before = kit.snapshot().await?;
    kit.refused(delete(&held, false), ErrorKind::LeaseHeld).await?;
    kit.unchanged(&before, "a delete of a held session").await?;
    let workspace = Request::in_workspace(RequestId::Host("delete".to_owned()));
    let forced = delete(&held, true).request(workspace);
    kit.apply(forced.clone()).await?;
    ensure!(kit.apply(forced).await?.replayed, "a repeated delete is known by its request");
    let late = owner.appending(&held, vec![user("late")]).fence(fence.clone());
    owner.refused(late, ErrorKind::LeaseLost).await?;
    let close = owner.commit().fence(fence.clone()).op(owner.moving(
        &held,
        &name("r"),
        turnkeep_core::model::RunState::Completed,
    ));
    owner.refused(close, ErrorKind::LeaseLost).await?;
    let renew = owner.commit().op(Op::RenewLease { fence, ttl_ms: 1_000 });
    owner.refused(renew, ErrorKind::LeaseLost).await?;

    let active = kit.create("active").await?;
    kit.start(&active, run("r")).await?;
    let before = kit.snapshot().await?;
    kit.refused(delete(&active, false), ErrorKind::ActiveRun).await?;
    kit.unchanged(&before, "a delete of a session with an active run").await?;
    kit.apply(delete(&active, true)).await?;

    let own = owner.create("own").await?;
    let fence = owner.acquire(&own, cx.lease_ms()).await?;
    owner.apply(owner.commit().fence(fence).op(Op::DeleteSession { session: own, force: false })).await?;
    ensure_eq!(kit.ids(kit.list()).await?, [""; 0], "sessions at the end");
    ensure!(kit.lease_named(LeaseName::Named(name("l"))).await?.is_none(), "a lease that nobody took");
    Ok(())
}
