//! What a store grows by, and what it costs once it has grown.

use turnkeep_core::commit::{NewEntry, Op, Put};
use turnkeep_core::query::{EntryQuery, SessionQuery};
use turnkeep_core::store::StoreStats;
use turnkeep_core::{Durability, ErrorKind, Order, SessionRef};

use crate::context::Context;
use crate::kit::{Kit, gather, payload, put, spawn, user};
use crate::measure::Race;
use crate::verdict::{Outcome, Stop};

/// The same in a store of its own that holds little, and in one that holds much.
pub(super) async fn res_002_an_append_does_not_slow_down_with_history(cx: &Context) -> Outcome {
    let site = cx.harness.provision().await.map_err(|error| Stop::error(format!("no site: {error}")))?;
    let little = Kit::new(cx.try_open_at(&site).await?, cx);
    let compared = compare(&little, &cx.kit().await?).await;
    little.store.close().await?;
    drop(little);
    cx.harness.destroy(&site).await.map_err(|error| Stop::error(format!("the site stays: {error}")))?;
    compared
}

async fn compare(little: &Kit, much: &Kit) -> Outcome {
    const BATCH: usize = 10;
    let entry = NewEntry { payload: payload("{\"filler\":\"some words\"}"), ..user("some words") };
    let (short, long) = (little.create("short").await?, much.create("long").await?);
    little.append(&short, vec![entry.clone(); 1_000]).await?;
    for _ in 0..20 {
        much.append(&long, vec![entry.clone(); 5_000]).await?;
    }
    let append = |kit: &Kit, session: &SessionRef| {
        let (kit, session, entry) = (kit.clone(), session.clone(), entry.clone());
        async move {
            for _ in 0..BATCH {
                kit.append(&session, vec![entry.clone()]).await?;
            }
            Ok(())
        }
    };
    let race = Race { batches: 12, most: 3.0 };
    let ratio = race.run(|| append(little, &short), || append(much, &long)).await?;
    ratio.map_err(|ratio| {
        Stop::fail(format!("an append costs {ratio:.1} times as much at 100,000 entries as at 1,000"))
    })?;
    let read = |kit: &Kit, session: &SessionRef| {
        let query = EntryQuery { order: Order::Latest, limit: 20, ..kit.committed(session) };
        let kit = kit.clone();
        async move {
            for _ in 0..BATCH {
                ensure_eq!(kit.store.entries(&query).await?.items.len(), 20, "entries of the newest page");
            }
            Ok(())
        }
    };
    let ratio = race.run(|| read(little, &short), || read(much, &long)).await?;
    ratio.map_err(|ratio| {
        Stop::fail(format!("the newest page costs {ratio:.1} times as much at 100,000 entries as at 1,000"))
    })
}

/// How large the store is, as it says itself. One on a disk must know its bytes.
async fn stats(cx: &Context, kit: &Kit) -> Outcome<StoreStats> {
    let maintenance = kit.store.maintenance().ok_or_else(|| Stop::not_run("the store has no statistics"))?;
    let stats = match maintenance.stats().await {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            return Err(Stop::not_run("the store has no statistics"));
        }
        answer => answer?,
    };
    ensure!(
        stats.bytes > 0 || cx.manifest.durability == Durability::D0,
        "a durable store says that it has no bytes"
    );
    Ok(stats)
}

pub(super) async fn res_003_a_long_reader_does_not_grow_the_log_case_46_case_51(cx: &Context) -> Outcome {
    // Half of either is more than a log may hold while commits leave no time to tidy it: some 32 MiB.
    const COMMITS: u64 = 80;
    const EACH: u64 = 1 << 20;
    const REWRITES: u64 = 1_300;
    const RECORD: u64 = 1 << 16;
    const READ: usize = 70;
    let (kit, reader) = (cx.kit().await?, cx.kit().await?);
    let session = kit.create("s").await?;
    kit.append(&session, (0..READ).map(|at| user(&format!("{at}"))).collect()).await?;
    let mut walk = EntryQuery { limit: 2, ..reader.committed(&session) };
    let mut read = 0;
    let large = |bytes: u64| payload(&format!("\"{}\"", "x".repeat(bytes as usize)));
    let entry = NewEntry { payload: large(EACH), text: None, ..user("") };
    let other = kit.create("other").await?;
    let mut longest = 0;
    for at in 0..COMMITS {
        if at % 5 == 0 {
            let page = reader.store.entries(&walk).await?;
            read += page.items.len();
            walk.cursor = page.next;
            ensure!(walk.cursor.is_some(), "the slow walk ended early");
        }
        kit.append(&other, vec![entry.clone()]).await?;
        longest = longest.max(stats(cx, &kit).await?.log_bytes);
    }
    let written = COMMITS * EACH;
    ensure!(
        longest <= written / 2,
        "the log grew to {longest} bytes while {written} were written under a slow reader"
    );

    // The same place written over and over: only the newest content is worth its space.
    let before = stats(cx, &kit).await?.bytes;
    let content = large(RECORD);
    for at in 0..REWRITES {
        if at % 100 == 0 {
            let page = reader.store.entries(&walk).await?;
            read += page.items.len();
            walk.cursor = page.next;
            ensure!(walk.cursor.is_some(), "the slow walk ended early");
        }
        kit.put(Put { payload: content.clone(), ..put("c", "k", "1") }).await?;
    }
    let now = stats(cx, &kit).await?;
    let (grown, written) = (now.bytes.saturating_sub(before), REWRITES * RECORD);
    ensure!(
        grown <= written / 2,
        "the store grew by {grown} bytes while {written} were written over each other"
    );
    ensure!(
        now.log_bytes <= written / 2,
        "the log has {} bytes after {written} were written over each other",
        now.log_bytes
    );
    read += reader.walk(walk).await?.len();
    ensure_eq!(read, READ, "entries that the slow walk read in all");
    Ok(())
}

pub(super) async fn res_007_bytes_per_append_stay_flat_case_48(cx: &Context) -> Outcome {
    const APPENDS: u64 = 5_000;
    const WORDS: usize = 1_000;
    let kit = cx.kit().await?;
    let session = kit.create("s").await?;
    let words = "w".repeat(WORDS);
    let mut sizes = vec![stats(cx, &kit).await?.bytes];
    for _half in 0..2 {
        // Many callers at once, so that their commits may share a sync.
        let mut callers = Vec::new();
        for _ in 0..10 {
            let (kit, session, words) = (kit.clone(), session.clone(), words.clone());
            callers.push(spawn(async move {
                for _ in 0..APPENDS / 20 {
                    kit.say(&session, &words).await?;
                }
                Ok(())
            }));
        }
        gather(callers).await?;
        sizes.push(stats(cx, &kit).await?.bytes);
    }
    let [empty, half, whole] = sizes.as_slice() else {
        return Err(Stop::error("two halves give three sizes"));
    };
    let (first, second) = (half.saturating_sub(*empty), whole.saturating_sub(*half));
    // The log and free pages come and go; quadratic growth would make the second half three times the first.
    let slack = 8 << 20;
    ensure!(
        second <= first * 3 / 2 + slack,
        "{APPENDS} appends: the first half took {first} bytes, the second {second}"
    );
    let most = APPENDS * (WORDS as u64) * 8 + slack;
    ensure!(first + second <= most, "{APPENDS} appends of {WORDS} bytes took {} bytes", first + second);
    Ok(())
}

/// Sessions with two messages each, one of them of a size.
async fn shelf(kit: &Kit, sessions: usize, bytes: usize) -> Outcome {
    let body = NewEntry { payload: payload(&format!("\"{}\"", "x".repeat(bytes))), ..user("words") };
    for batch in 0..sessions / 50 {
        let mut commit = kit.commit();
        for at in 0..50 {
            let session = kit.life(&format!("s{batch}-{at}"));
            commit = commit.op(Op::CreateSession(kit.new_session(&session)));
            commit = commit.op(Op::Append { session, entries: vec![user("a question"), body.clone()] });
        }
        kit.apply(commit).await?;
    }
    Ok(())
}

pub(super) async fn res_008_listing_sessions_reads_no_bodies_case_49(cx: &Context) -> Outcome {
    const SESSIONS: usize = 1_000;
    let kit = cx.kit().await?;
    let (small, large) = (kit.in_workspace("small"), kit.in_workspace("large"));
    shelf(&small, SESSIONS, 10).await?;
    shelf(&large, SESSIONS, 64 << 10).await?;
    let list = |kit: &Kit| {
        let kit = kit.clone();
        async move {
            for query in [
                kit.list(),
                kit.list_by_id(),
                SessionQuery { with_messages: true, total: true, ..kit.list() },
            ] {
                let page = kit.store.sessions(&SessionQuery { limit: 200, ..query }).await?;
                ensure_eq!(page.items.len(), 200, "sessions on a page");
                let preview = page.items.first().and_then(|row| row.preview.as_deref());
                ensure_eq!(preview, Some("a question"), "the preview in a list");
            }
            Ok(())
        }
    };
    let ratio = Race { batches: 12, most: 3.0 }.run(|| list(&small), || list(&large)).await?;
    ratio.map_err(|ratio| {
        Stop::fail(format!("a list costs {ratio:.1} times as much when its sessions hold much more"))
    })
}
