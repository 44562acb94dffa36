//! Restoring and purging: a session being built is hidden, a deleted one is gone at once, however large.

pub(super) mod copy;
mod digest;
mod fits;
mod killed;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use turnkeep_core::commit::{Fence, LeaseGrant, Op, Put, SessionPatch, Takeover};
use turnkeep_core::model::{Entry, Event, Row, SessionRow, SessionState};
use turnkeep_core::query::{
    AudienceFilter, EntryQuery, Mark, OwnerFilter, PathTo, RecordQuery, RunQuery, Scope, SearchQuery,
    SessionQuery,
};
use turnkeep_core::rules::fold_row;
use turnkeep_core::{Durability, ErrorKind, Expect, SessionRef};

use crate::clause::Kind;
use crate::context::Context;
use crate::harness::TableCount;
use crate::kit::{Kit, keyed, name, no, payload, put, run, spawn, user};
use crate::verdict::{Outcome, Stop};
use copy::{goes_on, same_reads, source};
use digest::{
    rst_005_a_seal_tells_every_row_apart, rst_006_a_sealed_session_is_in_use_for_the_rest_of_its_commit,
};
use fits::rst_007_a_row_that_does_not_fit_is_refused;
use killed::rst_003_a_kill_while_copying_or_purging_ends_the_same;

clauses! { ($) restore_tests;
    "RST-001" rst_001_a_session_is_hidden_until_it_is_sealed {
        title: "A session being built is in no ordinary read, only its builder writes exact rows into it, in order, and it comes into use only when count and digest agree; sealed, it equals its source in every read but incarnation, revision, leases and record versions.",
        why: "A half-made copy that shows up is taken for the whole.",
        catches: "a backend that lists what is being built, or renumbers, reorders or re-encodes what it restores",
    }
    "RST-002" rst_002_deleting_a_huge_session_stalls_nobody {
        title: "Deleting a session of 100,000 entries is done at once for every reader, other commits go on while it is purged, and the purge leaves no row.",
        kind: Kind::Stochastic,
        timeout: Duration::from_secs(180),
        why: "A delete that holds the writer for seconds stops every other agent.",
        catches: "a backend that deletes or purges in one transaction, or leaves the rows where they are",
        quiet: true,
    }
    "RST-003" rst_003_a_kill_while_copying_or_purging_ends_the_same {
        title: "A copy that is killed, however often, is gone on with where it stood and ends with the count and digest of an undisturbed one, equal in every read; a purge that is killed ends with no row left.",
        kind: Kind::Stochastic,
        durability: Durability::D1,
        timeout: Duration::from_secs(300),
        why: "A long import that must begin anew after each crash never ends.",
        catches: "a backend whose count of restored rows is durable apart from the rows",
        peer: Some(killed::resume),
    }
    "RST-004" rst_004_a_dead_builder_is_taken_over_and_an_abandoned_session_removed {
        title: "Another client takes over from a builder that died, goes on where it stopped and shuts it out; what is abandoned is removed by force, and its id and its records' keys are free again.",
        why: "A fork or import that died halfway must neither block its id nor be made twice.",
        catches: "a backend that ties a restoring session to the handle that began it",
    }
    "RST-005" rst_005_a_seal_tells_every_row_apart {
        title: "The digest of a session being built differs with any row, and that of a copy with its source and range; a seal with another one answers Corrupt and the session stays hidden.",
        why: "A copy that lost or bent a row on its way must not be taken for the original.",
        catches: "a backend whose digest counts rows but does not read them",
    }
    "RST-006" rst_006_a_sealed_session_is_in_use_for_the_rest_of_its_commit {
        title: "From its seal on a session is in use, for the rest of the same commit too: its records are there, it takes entries, and the workspace's mark has moved.",
        why: "A host that restores a conversation and goes on with it in one step must find what it restored.",
        catches: "a backend that puts a session into use only after the commit",
    }
    "RST-007" rst_007_a_row_that_does_not_fit_is_refused {
        title: "A row that does not fit what has arrived (a number left out or given twice, a key, run, stream or record that is there) is refused with all of its commit, and what was there stays.",
        why: "A copy with a hole or a double, sealed by the sum of what was sent, is wrong for good.",
        catches: "a backend that writes restored rows over what is there",
    }
}

/// Restores rows and gives the digest that sealing needs, folded by the suite itself.
pub(super) async fn restore(
    kit: &Kit,
    session: &SessionRef,
    fence: &Fence,
    rows: &[Row],
) -> Outcome<[u8; 32]> {
    let mut digest = [0; 32];
    for slice in rows.chunks(7) {
        let op = Op::Restore { session: session.clone(), rows: slice.to_vec() };
        kit.apply(kit.commit().fence(fence.clone()).op(op)).await?;
        digest = slice.iter().fold(digest, |digest, row| fold_row(&digest, row));
    }
    Ok(digest)
}

async fn restoring_row(kit: &Kit, session: &SessionRef) -> Outcome<SessionRow> {
    let query = SessionQuery { state: SessionState::Restoring, ..kit.list() };
    let row = kit.sessions(query).await?.into_iter().find(|row| row.session_ref() == *session);
    row.ok_or_else(|| Stop::fail(format!("session {session} is not listed among those being built")))
}

/// Whether a session that is being built shows up in any ordinary read.
async fn hidden(cx: &Context, kit: &Kit, session: &SessionRef) -> Outcome {
    let kind = ErrorKind::NotFound;
    ensure!(kit.find(session.id.as_str()).await?.is_none(), "a session being built is found by its id");
    ensure_eq!(kit.ids(kit.list()).await?, [""; 0], "sessions in the list");
    ensure_eq!(kit.ids(kit.list_by_id()).await?, [""; 0], "sessions in the list by id");
    let by_text = SessionQuery { text: Some("two".to_owned()), total: true, ..kit.list() };
    let page = kit.store.sessions(&by_text).await?;
    ensure_eq!((page.items.len(), page.total), (0, Some(0)), "sessions found by their words");
    ensure_refused!(kit.store.entries(&kit.every_entry(session)).await, kind, "its entries");
    ensure_refused!(
        kit.store.entries(&EntryQuery { path: Some(PathTo::Leaf), ..kit.committed(session) }).await,
        kind,
        "its path"
    );
    ensure_refused!(kit.store.runs(&kit.runs_of(session)).await, kind, "its runs");
    ensure_refused!(kit.store.events(&kit.stream(session, "runs")).await, kind, "its events");
    ensure_refused!(kit.store.rows(&kit.rows_of(session)).await, kind, "its rows");
    let scope = Scope::Session { workspace: kit.workspace.clone(), session: session.clone() };
    ensure_refused!(kit.store.changes(&scope, Mark::START).await, kind, "its mark");
    let owned = RecordQuery { owner: OwnerFilter::Session(session.clone()), ..kit.collection("c") };
    ensure_refused!(kit.store.records(&owned).await, kind, "its records");
    ensure_eq!(kit.records(kit.collection("c")).await?.len(), 0, "records of the collection");
    ensure!(kit.record("lineage", "l").await?.is_none(), "its record is found by key");
    let every = || RunQuery::new(kit.workspace.clone());
    for (what, query) in [
        ("of the workspace", every()),
        ("of one name", RunQuery { id: Some(name("z-first")), ..every() }),
        ("of one purpose", RunQuery { intent: Some(name("i")), ..every() }),
    ] {
        ensure_eq!(kit.runs(query).await?.len(), 0, "runs {what}");
    }
    let counted = SessionQuery { total: true, ..kit.list() };
    ensure_eq!(kit.store.sessions(&counted).await?.total, Some(0), "the total of sessions");
    if cx.manifest.capabilities.search {
        let audience = AudienceFilter::Any;
        let anywhere = SearchQuery { audience, ..SearchQuery::new(kit.workspace.clone(), "two") };
        let hits = kit.store.search(&anywhere).await?;
        ensure_eq!(hits.items.len(), 0, "what search finds");
    }
    Ok(())
}

/// What nobody but the builder may do, and what even the builder may not.
async fn refusals(kit: &Kit, session: &SessionRef, fence: &Fence, rows: &[Row]) -> Outcome {
    let before = restoring_row(kit, session).await?;
    let exact = |rows: Vec<Row>| kit.commit().op(Op::Restore { session: session.clone(), rows });
    let mine = |op: Op| kit.commit().fence(fence.clone()).op(op);
    let entry = |row: &&Row| matches!(row, Row::Entry(_));
    let Some(Row::Entry(first)) = rows.iter().find(entry) else {
        return Err(Stop::fail("a read of every row of a session gave none of its entries"));
    };
    let jump = Entry { number: no(9), key: None, ..first.clone() };
    let late = Row::Event {
        stream: name("never"),
        event: Event { number: 1, kind: name("x"), run: None, at: kit.now(), payload: payload("1") },
    };
    let seal = |rows, digest| mine(Op::SealSession { session: session.clone(), leaf: None, rows, digest });
    let refused = [
        (
            "exact rows without the lease",
            exact(rows.get(..1).unwrap_or_default().to_vec()),
            ErrorKind::LeaseLost,
        ),
        (
            "sealing without the lease",
            kit.commit().op(Op::SealSession {
                session: session.clone(),
                leaf: None,
                rows: 0,
                digest: [0; 32],
            }),
            ErrorKind::LeaseLost,
        ),
        (
            "an entry out of order",
            mine(Op::Restore { session: session.clone(), rows: vec![Row::Entry(jump)] }),
            ErrorKind::Invalid,
        ),
        (
            "an event before its stream",
            mine(Op::Restore { session: session.clone(), rows: vec![late] }),
            ErrorKind::Invalid,
        ),
        (
            "an ordinary append",
            mine(Op::Append { session: session.clone(), entries: vec![user("x")] }),
            ErrorKind::NotFound,
        ),
        ("a run", mine(Op::StartRun { session: session.clone(), run: run("new") }), ErrorKind::NotFound),
        (
            "a patch",
            kit.commit().op(Op::PatchSession { session: session.clone(), patch: SessionPatch::default() }),
            ErrorKind::NotFound,
        ),
        (
            "an owned record",
            kit.commit().op(Op::PutRecord(Put { owner: Some(session.clone()), ..put("c", "own", "1") })),
            ErrorKind::NotFound,
        ),
        (
            "a used id",
            kit.commit().op(Op::CreateSession(kit.new_session(&kit.life(session.id.as_str())))),
            ErrorKind::AlreadyExists,
        ),
        (
            "sealing with another count",
            seal(u64::MAX, before.restore.unwrap_or_default().digest),
            ErrorKind::Corrupt,
        ),
        (
            "sealing with another digest",
            seal(before.restore.unwrap_or_default().rows, [9; 32]),
            ErrorKind::Corrupt,
        ),
        (
            "a delete without the lease",
            kit.commit().op(Op::DeleteSession { session: session.clone(), force: false }),
            ErrorKind::LeaseLost,
        ),
    ];
    for (what, commit, kind) in refused {
        let answer = kit.store.commit(commit).await;
        ensure_refused!(answer, kind, "{what} of a session being built");
        ensure_eq!(restoring_row(kit, session).await?, before, "the session being built after {what}");
    }
    Ok(())
}

async fn rst_001_a_session_is_hidden_until_it_is_sealed(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let source = source(&kit).await?;
    // What the source was given then must not become what the clock shows now.
    cx.pass_ms(25).await;
    let rows = kit.rows(kit.rows_of(&source)).await?;
    let copy = kit.in_workspace("copy");
    let (session, fence) = copy.begin_restore("source", Default::default()).await?;
    hidden(cx, &copy, &session).await?;
    let digest = restore(&copy, &session, &fence, &rows).await?;
    let other = cx.kit().await?.in_workspace("copy");
    hidden(cx, &copy, &session).await?;
    hidden(cx, &other, &session).await?;
    refusals(&copy, &session, &fence, &rows).await?;
    let taken = other.commit().op(Op::PutRecord(put("lineage", "l", "1")));
    other.refused(taken, ErrorKind::VersionConflict).await?;
    let built = restoring_row(&other, &session).await?;
    ensure_eq!(
        built.restore.map(|state| (state.rows, state.digest)),
        Some((rows.len() as u64, digest)),
        "rows and digest so far"
    );

    let leaf = kit.row(&source).await?.path.leaf;
    let seal = Op::SealSession { session: session.clone(), leaf, rows: rows.len() as u64, digest };
    copy.apply(
        copy.commit().fence(fence.clone()).op(seal.clone()).op(Op::ReleaseLease { fence: fence.clone() }),
    )
    .await?;
    same_reads(&kit, &source, &other, &session).await?;
    // What is in use takes no exact rows, whoever holds it.
    let held = copy.acquire(&session, 600_000).await?;
    let before = copy.snapshot().await?;
    let again = Op::Restore { session: session.clone(), rows: rows.get(..1).unwrap_or_default().to_vec() };
    for op in [again, seal] {
        copy.refused(copy.commit().fence(held.clone()).op(op), ErrorKind::Invalid).await?;
        copy.unchanged(&before, "exact rows for a session in use").await?;
    }
    copy.release(&held).await?;
    goes_on(&kit, &source, &other, &session).await
}

async fn rst_004_a_dead_builder_is_taken_over_and_an_abandoned_session_removed(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let source = source(&kit).await?;
    let rows = kit.rows(kit.rows_of(&source)).await?;
    let (first, rest) = rows.split_at(rows.len() / 2);
    let builder = cx.kit().await?.in_workspace("copy");
    let heir = cx.kit().await?.in_workspace("copy");
    let session = builder.life("s");
    let mut new = builder.new_session(&session);
    new.state = SessionState::Restoring;
    let grant = builder.session_grant(&session, cx.lease_ms());
    builder.apply(builder.commit().op(Op::CreateSession(new)).op(Op::AcquireLease(grant.clone()))).await?;
    let lost = Fence { name: grant.name, owner: grant.owner, token: grant.token, epoch: 1 };
    let mut digest = restore(&builder, &session, &lost, first).await?;
    let wanted = LeaseGrant { takeover: Takeover::IfOwnerDead, ..heir.session_grant(&session, 600_000) };
    heir.refused(heir.commit().op(Op::AcquireLease(wanted.clone())), ErrorKind::LeaseHeld).await?;
    builder.store.close().await?;
    drop(builder);
    if !cx.manifest.capabilities.owner_liveness {
        cx.pass_ms(cx.lease_ms() + 1).await;
    }
    let fence = heir.acquire_as(wanted).await?;
    ensure_eq!(fence.epoch, 2, "the epoch of the heir");
    let state = restoring_row(&heir, &session).await?.restore.unwrap_or_default();
    ensure_eq!((state.rows, state.digest), (first.len() as u64, digest), "how far the dead builder came");
    let late = heir.commit().fence(lost).op(Op::Restore { session: session.clone(), rows: rest.to_vec() });
    heir.refused(late, ErrorKind::LeaseLost).await?;
    heir.apply(
        heir.commit().fence(fence.clone()).op(Op::Restore { session: session.clone(), rows: rest.to_vec() }),
    )
    .await?;
    digest = rest.iter().fold(digest, |digest, row| fold_row(&digest, row));
    let seal =
        Op::SealSession { session: session.clone(), leaf: Some(no(9)), rows: rows.len() as u64, digest };
    heir.apply(heir.commit().fence(fence.clone()).op(seal).op(Op::ReleaseLease { fence })).await?;
    ensure_eq!(
        heir.texts(&session).await?,
        kit.texts(&source).await?,
        "the words of a copy that two builders made"
    );

    let abandoned = heir.in_workspace("abandoned");
    let (session, fence) = abandoned.begin_restore("s", Default::default()).await?;
    restore(&abandoned, &session, &fence, &rows).await?;
    let delete = Op::DeleteSession { session: session.clone(), force: true };
    let remover = kit.in_workspace("abandoned");
    remover.apply(remover.commit().op(delete)).await?;
    let building = SessionQuery { state: SessionState::Restoring, ..remover.list() };
    ensure_eq!(remover.ids(building).await?, [""; 0], "sessions being built after the removal");
    let late = abandoned
        .commit()
        .fence(fence)
        .op(Op::Restore { session, rows: rows.get(..1).unwrap_or_default().to_vec() });
    abandoned.refused(late, ErrorKind::LeaseLost).await?;
    let again = remover.create("s").await?;
    ensure_eq!(remover.walk(remover.every_entry(&again)).await?.len(), 0, "entries under the freed id");
    remover.put(Put { expect: Expect::Absent, ..put("c", "k2", "1") }).await?;
    Ok(())
}

/// Entries of the session that is deleted.
const HUGE: u32 = 100_000;

async fn huge(kit: &Kit, id: &str) -> Outcome<SessionRef> {
    let session = kit.create(id).await?;
    for batch in 0..HUGE / 5_000 {
        let entries = (0..5_000).map(|at| keyed(&format!("{batch}/{at}"), "one of many")).collect();
        kit.append(&session, entries).await?;
    }
    Ok(session)
}

async fn count_rows(cx: &Context) -> Outcome<Option<Vec<TableCount>>> {
    cx.harness.residue(&cx.site).await.map_err(|error| Stop::error(format!("counting rows failed: {error}")))
}

async fn rst_002_deleting_a_huge_session_stalls_nobody(cx: &Context) -> Outcome {
    const ATTEMPTS: usize = 3;
    let (kit, other) = (cx.kit().await?, cx.kit().await?);
    let Some(maintenance) = kit.store.maintenance() else {
        return Err(Stop::fail("a store that deletes must offer a purge"));
    };
    // What the first use of a workspace leaves for good is no residue.
    let first = kit.create("first").await?;
    kit.append(&first, vec![keyed("k", "x")]).await?;
    kit.delete(&first).await?;
    maintenance.purge().await?;
    other.put(put("beside", "k", "0")).await?;
    let before = count_rows(cx).await?;
    let entries = maintenance.stats().await?.entries;
    let mut stalls = Vec::new();
    for attempt in 0..ATTEMPTS {
        let session = huge(&kit, "huge").await?;
        let writing = beside(&other);
        let began = Instant::now();
        kit.delete(&session).await?;
        ensure!(other.find("huge").await?.is_none(), "a deleted session is found by its id");
        ensure_eq!(other.ids(other.list()).await?, [""; 0], "sessions in the list after the delete");
        ensure_refused!(
            other.store.entries(&other.committed(&session)).await,
            ErrorKind::NotFound,
            "entries of the deleted session"
        );
        let again = other.create("huge").await?;
        ensure_eq!(
            other.append(&again, vec![keyed("0/0", "afresh")]).await?,
            [no(1)],
            "the first number of the next life"
        );
        other.delete(&again).await?;
        maintenance.purge().await?;
        let took = began.elapsed();
        let (count, longest) = writing.stop().await?;
        ensure!(count > 0, "no other commit went on while {HUGE} entries were purged");
        ensure_eq!(maintenance.stats().await?.purges, 0, "sessions that wait for their purge after it");
        ensure_eq!(maintenance.stats().await?.entries, entries, "entries in the store after the purge");
        ensure_eq!(count_rows(cx).await?, before, "rows of all tables after delete and purge {attempt}");
        // Sliced, the longest wait of another commit is a small part of the whole. A machine that stalls does so once.
        let short = longest.as_secs_f64() < took.as_secs_f64() * 0.5 || took < Duration::from_millis(100);
        if count > 0 && short {
            return Ok(());
        }
        stalls.push(format!("{longest:?} of {took:?}, {count} commits"));
    }
    Err(Stop::fail(format!("other commits wait for most of a purge, each time: {}", stalls.join(", "))))
}

/// A client that goes on committing beside the others.
struct Beside {
    over: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Outcome<(u32, Duration)>>,
}

fn beside(kit: &Kit) -> Beside {
    let over = Arc::new(AtomicBool::new(false));
    let (kit, ended) = (kit.clone(), Arc::clone(&over));
    let task = spawn(async move {
        let (mut count, mut longest) = (0, Duration::ZERO);
        for at in 0..1_000_000 {
            if ended.load(Ordering::Acquire) {
                break;
            }
            let began = Instant::now();
            kit.put(put("beside", "k", &at.to_string())).await?;
            longest = longest.max(began.elapsed());
            count += 1;
            tokio::task::yield_now().await;
        }
        Ok((count, longest))
    });
    Beside { over, task }
}

impl Beside {
    /// Ends it; gives how many commits went through, and how long the longest took.
    async fn stop(self) -> Outcome<(u32, Duration)> {
        self.over.store(true, Ordering::Release);
        self.task.await.map_err(|error| Stop::fail(format!("a task of the clause panicked: {error}")))?
    }
}
