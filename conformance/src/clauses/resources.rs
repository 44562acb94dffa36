//! Resources: what a store takes from its process, it gives back, and it does not grow with use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use turnkeep_core::commit::NewEntry;
use turnkeep_core::query::EntryQuery;
use turnkeep_core::{ErrorKind, Timestamp};

use crate::clause::{Kind, Level, RuntimeFlavor};
use crate::context::Context;
use crate::kit::{Kit, gather, payload, spawn, user};
use crate::verdict::{Outcome, Stop};

clauses! { ($) resources_tests;
    "RES-001" res_001_a_thousand_opens_leak_nothing_case_32 {
        title: "A thousand times opening, writing and closing leaves no more descriptors and threads than a few times.",
        why: "A handle that leaks ends in 'locked' until the next restart.",
        links: &["aaif-goose/goose#7624"],
        catches: "a backend whose close forgets a connection or a thread",
        cases: &["case-32"],
        alone: true,
        timeout: Duration::from_secs(180),
    }
    "RES-002" res_002_an_append_does_not_slow_down_with_history {
        title: "An append to a session of 100,000 entries costs at most three times one to a session of 1,000.",
        level: Level::Should,
        kind: Kind::Stochastic,
        why: "Snapshots of the whole state per step grow with the square of the conversation.",
        links: &["bytedance/deer-flow#4148", "langchain-ai/langgraph#8531"],
        catches: "a backend that reads or rewrites the history for each append",
        alone: true,
        timeout: Duration::from_secs(180),
    }
    "RES-003" res_003_a_long_reader_does_not_grow_the_log {
        title: "A reader that takes its time between pages does not make the write-ahead log grow without bound.",
        why: "Logs of 100 GB came from a connection that kept a read open.",
        links: &["anomalyco/opencode#37495"],
        catches: "a backend that keeps a read transaction open between pages",
        timeout: Duration::from_secs(120),
    }
    "RES-004" res_004_dropping_a_busy_store_neither_hangs_nor_panics {
        title: "Dropping a store with commits in flight neither hangs nor panics; each of the commits is whole or absent, and the store opens again.",
        kind: Kind::Stochastic,
        why: "Hosts end when they end.",
        catches: "a backend whose writer waits for a caller that is gone",
    }
    "RES-005" res_005_a_current_thread_runtime_is_never_blocked {
        title: "On a runtime of one thread, commits and reads wait without blocking it: other tasks go on, and a full queue does not stop the one that empties it.",
        why: "A host with one thread freezes, or waits for itself for ever.",
        catches: "a backend that does its input and output in poll",
        runtime: RuntimeFlavor::CurrentThread,
    }
    "RES-006" res_006_times_round_trip_in_milliseconds {
        title: "Times are kept in milliseconds UTC, exactly as given or as the store's clock shows them; updated_at never moves backwards.",
        why: "Seconds in one backend and microseconds in another make a copy unequal.",
        catches: "a backend that rounds times or applies a time zone",
    }
}

/// Open descriptors and threads of this process, where the system tells.
fn taken() -> Option<(usize, usize)> {
    let count = |path| std::fs::read_dir(path).ok().map(Iterator::count);
    Some((count("/proc/self/fd")?, count("/proc/self/task")?))
}

async fn res_001_a_thousand_opens_leak_nothing_case_32(cx: &Context) -> Outcome {
    const OPENS: usize = 1_000;
    let cycle = |at: usize| async move {
        let kit = cx.kit().await?;
        if at % 10 == 0 {
            let session = kit.create(&format!("s{at}")).await?;
            kit.say(&session, "words").await?;
        }
        kit.sessions(turnkeep_core::query::SessionQuery { limit: 5, offset: 0, ..kit.list() }).await?;
        // Every third goes away without a close.
        if at % 3 != 0 {
            kit.store.close().await?;
        }
        drop(kit);
        Outcome::Ok(())
    };
    // One handle stays, so that a store in memory keeps its data.
    let stays = cx.kit().await?;
    for at in 0..20 {
        cycle(at).await?;
    }
    let Some(few) = taken() else {
        return Err(Stop::inconclusive("this system does not tell what a process has open"));
    };
    for at in 20..OPENS {
        cycle(at).await?;
    }
    // Threads end a moment after their handle.
    let mut many = few;
    for _ in 0..100 {
        many = taken().unwrap_or(few);
        if many.0 <= few.0 + 8 && many.1 <= few.1 + 16 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(many.0 <= few.0 + 8, "{} descriptors after 20 opens, {} after {OPENS}", few.0, many.0);
    ensure!(many.1 <= few.1 + 16, "{} threads after 20 opens, {} after {OPENS}", few.1, many.1);
    ensure!(!stays.ids(stays.list()).await?.is_empty(), "the sessions of all rounds are gone");
    Ok(())
}

/// The cost of one append, as the quickest of several: noise only ever adds.
async fn quickest(kit: &Kit, session: &turnkeep_core::SessionRef, entry: &NewEntry) -> Outcome<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..60 {
        let begun = Instant::now();
        kit.append(session, vec![entry.clone()]).await?;
        best = best.min(begun.elapsed());
    }
    Ok(best)
}

async fn res_002_an_append_does_not_slow_down_with_history(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let entry = NewEntry { payload: payload("{\"filler\":\"some words\"}"), ..user("some words") };
    let (short, long) = (kit.create("short").await?, kit.create("long").await?);
    kit.append(&short, vec![entry.clone(); 1_000]).await?;
    for _ in 0..20 {
        kit.append(&long, vec![entry.clone(); 5_000]).await?;
    }
    let mut seen = Vec::new();
    for _attempt in 0..5 {
        let at_short = quickest(&kit, &short, &entry).await?;
        let at_long = quickest(&kit, &long, &entry).await?;
        if at_long <= at_short * 3 {
            return Ok(());
        }
        seen.push(format!("{at_long:?} against {at_short:?}"));
    }
    Err(Stop::fail(format!("appends at 100,000 cost over three times those at 1,000, in every attempt: {}", seen.join(", "))))
}

async fn res_003_a_long_reader_does_not_grow_the_log(cx: &Context) -> Outcome {
    const COMMITS: usize = 60;
    const EACH: usize = 1 << 20;
    let (kit, reader) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    kit.append(&session, (0..50).map(|at| user(&format!("{at}"))).collect()).await?;
    let log = |kit: Kit| async move {
        let maintenance = kit.store.maintenance().ok_or_else(|| Stop::not_run("the store has no statistics"))?;
        Outcome::Ok(maintenance.stats().await?.log_bytes)
    };
    let mut query = EntryQuery { limit: 2, ..reader.committed(&session) };
    let entry = NewEntry { payload: payload(&format!("\"{}\"", "x".repeat(EACH))), text: None, ..user("") };
    let other = kit.create("other").await?;
    let mut largest = 0;
    for at in 0..COMMITS {
        if at % 5 == 0 {
            query.cursor = reader.store.entries(&query).await?.next;
            ensure!(query.cursor.is_some(), "the slow walk ended early");
        }
        kit.append(&other, vec![entry.clone()]).await?;
        largest = largest.max(log(kit.clone()).await?);
    }
    let written = (COMMITS * EACH) as u64;
    ensure!(largest <= written / 2, "the log grew to {largest} bytes while {written} were written under a slow reader");
    Ok(())
}

async fn res_004_dropping_a_busy_store_neither_hangs_nor_panics(cx: &Context) -> Outcome {
    // Holds nothing but the data of a store in memory.
    let stays = cx.kit().await?;
    let session = stays.create("s").await?;
    for round in 0..5_u64 {
        let kit = cx.kit().await?;
        let mut commits = Vec::new();
        for at in 0..60 {
            let (kit, session) = (kit.clone(), session.clone());
            commits.push(tokio::spawn(async move {
                let entries = (0..3).map(|part| user(&format!("{round} {at} {part}"))).collect();
                kit.store.commit(kit.appending(&session, entries)).await
            }));
        }
        tokio::time::sleep(Duration::from_micros(round * 300)).await;
        drop(kit);
        for commit in &commits {
            commit.abort();
        }
        for commit in commits {
            match commit.await {
                Err(error) if error.is_panic() => return Err(Stop::fail(format!("a commit panicked: {error}"))),
                Ok(Err(error)) => {
                    ensure_refused!(Err::<(), _>(error), ErrorKind::Closed, "a commit in flight");
                }
                Ok(Ok(_)) | Err(_) => {}
            }
        }
        let kit = cx.kit().await?;
        kit.say(&session, &format!("after {round}")).await?;
    }
    let kit = cx.kit().await?;
    let texts = kit.texts(&session).await?;
    for round in 0..5 {
        ensure!(texts.contains(&format!("after {round}")), "the append after round {round} is gone");
        for at in 0..60 {
            let parts = texts.iter().filter(|text| text.starts_with(&format!("{round} {at} "))).count();
            ensure!(parts == 0 || parts == 3, "commit {at} of round {round} left {parts} of 3 entries");
        }
    }
    Ok(())
}

async fn res_005_a_current_thread_runtime_is_never_blocked(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let (ticks, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let ticker = tokio::spawn({
        let (ticks, done) = (Arc::clone(&ticks), Arc::clone(&done));
        async move {
            while !done.load(Ordering::Acquire) {
                ticks.fetch_add(1, Ordering::AcqRel);
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        }
    });
    // More commits than the queue of a store holds, all at once, from this one thread.
    let mut commits = Vec::new();
    for at in 0..1_500 {
        let (kit, session) = (kit.clone(), session.clone());
        commits.push(spawn(async move { kit.say(&session, &format!("{at}")).await }));
    }
    let numbers = gather(commits).await;
    done.store(true, Ordering::Release);
    ticker.await.map_err(|error| Stop::fail(format!("the ticking task panicked: {error}")))?;
    ensure_eq!(numbers?.len(), 1_500, "commits on one thread");
    ensure!(ticks.load(Ordering::Acquire) > 1, "no other task went on during 1,500 commits");

    if cx.manifest.capabilities.persistent {
        // A commit that has to reach the disk cannot be done within one poll unless that poll blocks.
        let mut waited = 0;
        for at in 0..32 {
            let commit = kit.store.commit(kit.appending(&session, vec![user(&format!("polled {at}"))]));
            let mut commit = std::pin::pin!(commit);
            let mut first = true;
            let answer = std::future::poll_fn(|task| {
                let polled = commit.as_mut().poll(task);
                if std::mem::take(&mut first) && matches!(polled, Poll::Pending) {
                    waited += 1;
                }
                polled
            });
            answer.await?;
        }
        ensure!(waited > 0, "32 durable commits were each done within their first poll: they block the runtime");
    }
    ensure_eq!(kit.walk(EntryQuery { limit: 10_000, ..kit.committed(&session) }).await?.len() % 2, 0, "entries, an even number");
    Ok(())
}

async fn res_006_times_round_trip_in_milliseconds(cx: &Context) -> Outcome {
    let kit = cx.kit().await?;
    let before = kit.now();
    let session = kit.create("s").await?;
    let after = kit.now();
    let row = kit.row(&session).await?;
    ensure!(row.created_at >= before && row.created_at <= after, "created at {:?}, between {before:?} and {after:?}", row.created_at);
    ensure_eq!(row.updated_at, row.created_at, "the time of the last change of a new session");
    let times = [0, 1, 999, 1_000, 1_700_000_000_123, 1_700_000_000_124, -1, -1_000_001];
    let entries = times.map(|time| NewEntry { at: Timestamp::from_millis(time), ..user("x") });
    kit.append(&session, entries.to_vec()).await?;
    let reader = cx.kit().await?;
    let seen: Vec<_> = reader.entries(&session).await?.iter().map(|entry| entry.at.as_millis()).collect();
    ensure_eq!(seen, times, "times of entries");

    if let Some(clock) = cx.clock() {
        for at in [1_700_000_100_001_i64, 1_700_000_100_002, 1_600_000_000_000, 1_700_000_100_003] {
            clock.set(Timestamp::from_millis(at));
            let last = kit.row(&session).await?.updated_at;
            kit.say(&session, "later").await?;
            let row = reader.row(&session).await?;
            ensure_eq!(row.updated_at, last.max(Timestamp::from_millis(at)), "updated_at with the clock at {at}");
            ensure_eq!(row.created_at, before, "created_at with the clock at {at}");
        }
        kit.start(&session, crate::kit::run("r")).await?;
        let run = reader.find_run(&session, "r").await?;
        ensure_eq!(run.map(|run| run.created_at.as_millis()), Some(1_700_000_100_003), "when the run was admitted");
        kit.put(crate::kit::put("c", "k", "1")).await?;
        let record = reader.record("c", "k").await?;
        ensure_eq!(record.map(|r| r.updated_at.as_millis()), Some(1_700_000_100_003), "when the record changed");
    }
    Ok(())
}
