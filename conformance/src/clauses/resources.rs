//! Resources: what a store takes from its process, it gives back, and it does not grow with use.

mod growth;
mod receipts;
mod times;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use turnkeep_core::query::{EntryQuery, SessionQuery};
use turnkeep_core::{Clock, Durability, ErrorKind, SessionRef};

use crate::clause::{Kind, Level, RuntimeFlavor};
use crate::context::Context;
use crate::harness::{OpenWith, Site};
use crate::kit::{Kit, gather, spawn, user};
use crate::measure::Ticker;
use crate::verdict::{Outcome, Stop};
use growth::{
    res_002_an_append_does_not_slow_down_with_history,
    res_003_a_long_reader_does_not_grow_the_log_case_46_case_51, res_007_bytes_per_append_stay_flat_case_48,
    res_008_listing_sessions_reads_no_bodies_case_49,
};
use receipts::res_009_receipts_that_nobody_can_ask_for_are_removed;
use times::{elsewhere, res_006_times_round_trip_in_milliseconds};

clauses! { ($) resources_tests;
    "RES-001" res_001_a_thousand_opens_leak_nothing_case_32 {
        title: "A thousand times opening, writing and closing, or two hundred and fifty in the smoke tier, leaves no more descriptors, threads and files than a few times.",
        why: "A handle that leaks ends in 'locked' until the next restart.",
        links: &["aaif-goose/goose#7624"],
        catches: "a backend whose close forgets a connection, a thread or a lock file",
        cases: &["case-32"],
        alone: true,
        timeout: Duration::from_secs(180),
    }
    "RES-002" res_002_an_append_does_not_slow_down_with_history {
        title: "In a session of 100,000 entries, an append and a read of the newest page cost at most three times what they cost in one of 1,000.",
        level: Level::Should,
        kind: Kind::Stochastic,
        why: "A conversation that gets slower with every turn is given up.",
        catches: "a backend that reads or rewrites the history for each append",
        alone: true,
        timeout: Duration::from_secs(180),
        quiet: true,
    }
    "RES-003" res_003_a_long_reader_does_not_grow_the_log_case_46_case_51 {
        title: "A reader that takes its time between pages makes neither the write-ahead log nor the store grow with what others write over meanwhile, and reads on to its end.",
        why: "Logs of 100 GB came from a connection that kept a read open.",
        links: &["anomalyco/opencode#37495", "cberner/redb#654"],
        catches: "a backend that keeps a read transaction open between pages",
        cases: &["case-46", "case-51"],
        timeout: Duration::from_secs(120),
    }
    "RES-004" res_004_dropping_a_busy_store_neither_hangs_nor_panics {
        title: "Dropping or closing a store with work in flight, also after its runtime is gone, neither hangs nor panics; each commit is whole or absent, an acknowledged one is there, and the store opens again.",
        kind: Kind::Stochastic,
        why: "Hosts end when they end.",
        catches: "a backend whose writer waits for a caller that is gone",
    }
    "RES-005" res_005_a_current_thread_runtime_is_never_blocked {
        title: "On a runtime of one thread, commits and large reads wait without blocking it: other tasks go on, and a full queue does not stop the one that empties it.",
        kind: Kind::Stochastic,
        why: "A host with one thread freezes, or waits for itself for ever.",
        catches: "a backend that does its input and output in poll",
        runtime: RuntimeFlavor::CurrentThread,
        quiet: true,
    }
    "RES-006" res_006_times_round_trip_in_milliseconds {
        title: "Times are kept in milliseconds UTC, exactly as given or as the store's clock shows them, over the whole range and in every time zone; updated_at never moves backwards.",
        why: "Seconds in one backend and microseconds in another make a copy unequal.",
        catches: "a backend that rounds times or applies a time zone",
        peer: Some(elsewhere),
    }
    "RES-007" res_007_bytes_per_append_stay_flat_case_48 {
        title: "The space that an append takes does not grow with what the session holds already.",
        why: "Snapshots of the whole state per step grow with the square of the conversation.",
        links: &["bytedance/deer-flow#4148", "langchain-ai/langgraph#8531"],
        catches: "a backend that stores a copy of the history, or of its counters and indexes, with each append",
        cases: &["case-48"],
        timeout: Duration::from_secs(120),
    }
    "RES-008" res_008_listing_sessions_reads_no_bodies_case_49 {
        title: "Listing sessions costs by their number, not by how much they hold.",
        level: Level::Should,
        kind: Kind::Stochastic,
        why: "A picker that reads every conversation takes seconds to open.",
        links: &["openai/codex#19517", "openai/codex#20103"],
        catches: "a backend that reads entries to make a list of sessions",
        cases: &["case-49"],
        timeout: Duration::from_secs(120),
        quiet: true,
    }
    "RES-009" res_009_receipts_that_nobody_can_ask_for_are_removed {
        title: "Receipts of generated request ids are kept until they expire, and removed afterwards.",
        level: Level::Should,
        why: "A ledger with a row for every request ever made outgrows the conversations it protects.",
        catches: "a backend that never cleans its ledger, or cleans it too early",
    }
}

/// Open descriptors and threads of this process, where the system tells.
fn taken() -> Option<(usize, usize)> {
    let count = |path| std::fs::read_dir(path).ok().map(Iterator::count);
    Some((count("/proc/self/fd")?, count("/proc/self/task")?))
}

/// Files of a site whose text is a path: the one it names, those whose names go on from it, and what such folders hold.
fn files(site: &Site) -> usize {
    let path = Path::new(site.as_str());
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return 0 };
    let inside = |folder: &Path| std::fs::read_dir(folder).map_or(0, Iterator::count);
    let Ok(around) = std::fs::read_dir(folder) else { return 0 };
    let own = around
        .flatten()
        .filter(|file| file.file_name().to_string_lossy().starts_with(name.to_string_lossy().as_ref()));
    own.map(|file| 1 + inside(&file.path())).sum()
}

async fn res_001_a_thousand_opens_leak_nothing_case_32(cx: &Context) -> Outcome {
    let opens = cx.scaled(250, 1_000, 1_000);
    let cycle = |at: usize| async move {
        let kit = cx.kit().await?;
        if at.is_multiple_of(10) {
            let session = kit.create(&format!("s{at}")).await?;
            kit.say(&session, "words").await?;
        }
        kit.sessions(SessionQuery { limit: 5, offset: 0, ..kit.list() }).await?;
        // Every third goes away without a close.
        if !at.is_multiple_of(3) {
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
        return Err(Stop::not_run("this system does not tell what a process has open"));
    };
    let few_files = files(&cx.site);
    for at in 20..opens {
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
    ensure!(many.0 <= few.0 + 8, "{} descriptors after 20 opens, {} after {opens}", few.0, many.0);
    ensure!(many.1 <= few.1 + 16, "{} threads after 20 opens, {} after {opens}", few.1, many.1);
    let many_files = files(&cx.site);
    ensure!(many_files <= few_files + 8, "{few_files} files after 20 opens, {many_files} after {opens}");
    ensure!(!stays.ids(stays.list()).await?.is_empty(), "the sessions of all rounds are gone");
    Ok(())
}

/// A client in a thread and a runtime of its own, which end while its work is in flight; the store is dropped last.
async fn left_behind(cx: &Context, session: &SessionRef, round: u64) -> Outcome {
    let (harness, site) = (Arc::clone(&cx.harness), cx.site.clone());
    let with = OpenWith { clock: cx.clock().map(|clock| Arc::new(clock.clone()) as Arc<dyn Clock>) };
    let (kit, session) = (cx.kit().await?, session.clone());
    let thread = std::thread::spawn(move || -> Outcome {
        let failed = |what: &str, error: &dyn std::fmt::Display| Stop::error(format!("{what}: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed("no runtime", &error))?;
        let store =
            runtime.block_on(harness.open(&site, with)).map_err(|error| failed("no store", &error))?;
        for at in 0..40 {
            let entries = (0..3).map(|part| user(&format!("left {round} {at} {part}"))).collect();
            let (store, commit) = (Arc::clone(&store), kit.appending(&session, entries));
            runtime.spawn(async move { store.commit(commit).await });
        }
        runtime.block_on(async { tokio::time::sleep(Duration::from_micros(round * 400)).await });
        drop(runtime);
        drop(store);
        Ok(())
    });
    for _ in 0..3_000 {
        if thread.is_finished() {
            return thread.join().map_err(|_| Stop::fail("dropping a store after its runtime panicked"))?;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(Stop::fail("dropping a store after its runtime hangs"))
}

/// Closes a client while its work is in flight: every answer is a yes that holds, or that it was closed.
async fn closed_amid(cx: &Context, session: &SessionRef, round: u64) -> Outcome {
    let kit = cx.kit().await?;
    let mut commits = Vec::new();
    for at in 0..40 {
        let (kit, session) = (kit.clone(), session.clone());
        commits.push(spawn(async move {
            let entries = (0..3).map(|part| user(&format!("closed {round} {at} {part}"))).collect();
            match kit.store.commit(kit.appending(&session, entries)).await {
                Ok(_) => Ok(Some(at)),
                Err(error) => {
                    ensure_refused!(Err::<(), _>(error), ErrorKind::Closed, "a commit during the close");
                    Ok(None)
                }
            }
        }));
    }
    tokio::time::sleep(Duration::from_micros(round * 300)).await;
    kit.store.close().await?;
    let acknowledged: Vec<i32> = gather(commits).await?.into_iter().flatten().collect();
    kit.refused(kit.appending(session, vec![user("late")]), ErrorKind::Closed).await?;
    ensure_refused!(
        kit.store.entries(&kit.committed(session)).await,
        ErrorKind::Closed,
        "a read after the close"
    );
    let texts = cx.kit().await?.texts(session).await?;
    for at in 0..40 {
        let parts = texts.iter().filter(|text| text.starts_with(&format!("closed {round} {at} "))).count();
        let expected = if acknowledged.contains(&at) { 3 } else { 0 };
        ensure_eq!(
            parts,
            expected,
            "entries of commit {at}, acknowledged or answered Closed, in round {round}"
        );
    }
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
                Err(error) if error.is_panic() => {
                    return Err(Stop::fail(format!("a commit panicked: {error}")));
                }
                Ok(Err(error)) => {
                    ensure_refused!(Err::<(), _>(error), ErrorKind::Closed, "a commit in flight");
                }
                Ok(Ok(_)) | Err(_) => {}
            }
        }
        left_behind(cx, &session, round).await?;
        closed_amid(cx, &session, round).await?;
        let kit = cx.kit().await?;
        kit.say(&session, &format!("after {round}")).await?;
    }
    let kit = cx.kit().await?;
    let texts = kit.texts(&session).await?;
    for round in 0..5 {
        ensure!(texts.contains(&format!("after {round}")), "the append after round {round} is gone");
        for at in 0..60 {
            for prefix in [format!("{round} {at} "), format!("left {round} {at} ")] {
                let parts = texts.iter().filter(|text| text.starts_with(&prefix)).count();
                ensure!(parts == 0 || parts == 3, "commit {prefix:?} left {parts} of 3 entries");
            }
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

    if cx.manifest.durability > Durability::D0 {
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
        ensure!(
            waited > 0,
            "32 durable commits were each done within their first poll: they block the runtime"
        );
    }
    let expected = if cx.manifest.durability > Durability::D0 { 1_532 } else { 1_500 };
    let entries = kit.walk(EntryQuery { limit: 10_000, ..kit.committed(&session) }).await?;
    ensure_eq!(entries.len(), expected, "entries in all");
    if cx.manifest.durability > Durability::D0 { keeps_ticking(&kit).await } else { Ok(()) }
}

/// While one large commit or read is under way, another task of the thread is never held up for most of it.
async fn keeps_ticking(kit: &Kit) -> Outcome {
    const ROUNDS: usize = 8;
    let session = kit.create("ticking").await?;
    let ticker = Ticker::start();
    let (mut writing, mut reading) = (f64::INFINITY, f64::INFINITY);
    let query = EntryQuery { limit: 10_000, ..kit.committed(&session) };
    for _ in 0..ROUNDS {
        let commit = kit.appending(&session, (0..2_000).map(|at| user(&format!("{at}"))).collect());
        let (answer, held_up) = ticker.beside(kit.store.commit(commit)).await;
        answer?;
        writing = writing.min(held_up);
        let (page, held_up) = ticker.beside(kit.store.entries(&query)).await;
        page?;
        reading = reading.min(held_up);
    }
    ticker.stop().await;
    for (what, held_up) in [("commit", writing), ("read", reading)] {
        let lets_others = held_up < 0.7;
        ensure!(
            lets_others,
            "a large {what} holds up its thread for {:.0} % of its time, each time",
            held_up * 100.0
        );
    }
    Ok(())
}
