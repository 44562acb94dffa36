//! The table of ratios in `docs/benchmarks.md`: each figure beside the bare engine, or beside ourselves under other
//! conditions, in interleaved rounds of one run.
//!
//! `cargo bench -p turnkeep-benches --bench ratios`

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot go on stops")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnkeep_benches::data::{self, ENTRIES, SESSIONS};
use turnkeep_benches::floor;
use turnkeep_benches::rounds::{Line, Target, paired, print_table, time};
use turnkeep_core::query::{EntryQuery, SessionQuery};
use turnkeep_core::{Order, Store};
use turnkeep_sessions::message::Message;
use turnkeep_sessions::{Compaction, Draft, Workspace};
use turnkeep_sqlite::SqliteStore;

/// Pairs per line.
const ROUNDS: usize = 7;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let filled = folder.path().join("filled.sqlite3");
    println!("filling a store with {ENTRIES} entries in {SESSIONS} sessions");
    data::fill(&filled, SESSIONS.max(256), ENTRIES);
    let mut lines = Vec::new();
    one_producer(&filled, &mut lines);
    many_producers(&filled, &mut lines);
    last_hundred(&filled, &mut lines);
    admission_and_completion(&filled, &mut lines);
    long_sessions(folder.path(), &mut lines);
    listing(folder.path(), &mut lines);
    let missed = print_table(&lines);
    println!(
        "\n{missed} of {} targets missed",
        lines.iter().filter(|line| !matches!(line.target, Target::None)).count()
    );
}

/// A copy of a closed database.
fn copy(of: &Path, name: &str) -> PathBuf {
    let path = of.with_file_name(name);
    fs::copy(of, &path).expect("a copy");
    path
}

fn one_producer(filled: &Path, lines: &mut Vec<Line>) {
    let runtime = data::runtime();
    let store = runtime.block_on(data::open(&copy(filled, "one.sqlite3")));
    let bare = floor::writer(&copy(filled, "one-bare.sqlite3"));
    let key = floor::key(&bare, 0);
    lines.push(paired(
        "commit, 1 producer, beside bare rusqlite",
        "/s",
        Target::AtLeast(0.8),
        ROUNDS,
        || data::produce(&runtime, &store, 1, 1500),
        || floor::append(&bare, key, 1500),
    ));
    runtime.block_on(store.close()).expect("a close");
}

fn many_producers(filled: &Path, lines: &mut Vec<Line>) {
    let runtime = data::runtime();
    let grouped = runtime.block_on(data::open(&copy(filled, "grouped.sqlite3")));
    let single = runtime.block_on(data::open_ungrouped(&copy(filled, "single.sqlite3")));
    let bare = floor::writer(&copy(filled, "many-bare.sqlite3"));
    let key = floor::key(&bare, 0);
    for (producers, target) in [(8, Target::None), (64, Target::AtLeast(4.0)), (256, Target::AtLeast(5.0))] {
        lines.push(paired(
            format!("commit, {producers} producers, beside group size 1"),
            "/s",
            target,
            ROUNDS,
            || data::produce(&runtime, &grouped, producers, 12_000 / producers),
            || data::produce(&runtime, &single, producers, 2_560 / producers),
        ));
        lines.push(paired(
            format!("commit, {producers} producers, beside bare rusqlite with one"),
            "/s",
            Target::None,
            ROUNDS,
            || data::produce(&runtime, &grouped, producers, 12_000 / producers),
            || floor::append(&bare, key, 1500),
        ));
    }
    runtime.block_on(grouped.close()).expect("a close");
    runtime.block_on(single.close()).expect("a close");
}

fn last_hundred(filled: &Path, lines: &mut Vec<Line>) {
    let runtime = data::runtime();
    let path = copy(filled, "read.sqlite3");
    let store = runtime.block_on(data::open(&path));
    let bare = floor::writer(&path);
    let (session, key) = (data::session(7), floor::key(&bare, 7));
    let mut query = EntryQuery::new(data::workspace(), session);
    query.order = Order::Latest;
    query.limit = 100;
    let times = 300;
    lines.push(paired(
        "last 100 entries of one session among 100, beside the bare SELECT",
        "us",
        Target::AtMost(1.5),
        ROUNDS,
        || {
            let took = time(|| {
                for _ in 0..times {
                    let page = runtime.block_on(store.entries(&query)).expect("a page");
                    assert_eq!(page.items.len(), 100);
                }
            });
            took.as_secs_f64() * 1e6 / f64::from(times)
        },
        || {
            let took = time(|| {
                for _ in 0..times {
                    assert!(floor::last(&bare, key, 100) > 100_000);
                }
            });
            took.as_secs_f64() * 1e6 / f64::from(times)
        },
    ));
    drop(bare);
    runtime.block_on(store.close()).expect("a close");
}

/// A whole run through the sessions API, two commits, beside the rows that these make durable, in two transactions.
fn admission_and_completion(filled: &Path, lines: &mut Vec<Line>) {
    let runtime = data::runtime();
    let store = runtime.block_on(data::open(&copy(filled, "runs.sqlite3")));
    let shared: Arc<dyn Store> = store.clone();
    let (workspace, session) = runtime.block_on(async {
        let workspace = Workspace::open(shared, data::workspace()).await.expect("a workspace");
        let session = workspace.sessions().create().await.expect("a session");
        (workspace, session)
    });
    let mut bare = floor::Runs::new(&copy(filled, "runs-bare.sqlite3"));
    let times = 300;
    lines.push(paired(
        "admission and completion of a run, beside bare rusqlite writing the same rows",
        "runs/s",
        Target::None,
        ROUNDS,
        || {
            let took = time(|| {
                runtime.block_on(async {
                    for _ in 0..times {
                        let run = session.begin_run(Message::user("why does it fail?")).await.expect("a run");
                        run.complete([Message::assistant("a semicolon is missing")]).await.expect("an end");
                    }
                });
            });
            f64::from(times) / took.as_secs_f64()
        },
        || {
            let took = time(|| (0..times).for_each(|_| bare.admit_and_complete()));
            f64::from(times) / took.as_secs_f64()
        },
    ));
    runtime.block_on(async {
        drop(session);
        workspace.close().await.expect("a close");
    });
}

/// A workspace with one session of `entries` messages and a compaction 20 messages before its end.
fn long_session(path: &Path, entries: usize) {
    let runtime = data::runtime();
    runtime.block_on(async {
        let store: Arc<dyn Store> = data::open(path).await;
        let workspace = Workspace::open(store, data::workspace()).await.expect("a workspace");
        let id = data::session(0).id;
        let session = workspace.sessions().create().id(id).await.expect("a session");
        let message = |number: usize| match number % 2 {
            0 => Message::user(format!("question {number}: why does the parser fail on the second token?")),
            _ => Message::assistant(format!("answer {number}: because the line before lacks a semicolon.")),
        };
        let mut kept = None;
        for first in (0..entries).step_by(500) {
            let drafts = (first..(first + 500).min(entries)).map(|number| Draft::from(message(number)));
            let appended = session.append(drafts.collect::<Vec<_>>()).await.expect("an append");
            kept = appended.numbers.iter().rev().nth(9).copied();
        }
        let kept = kept.expect("entries");
        session
            .append([Draft::from(Compaction::new("what was said before", kept))])
            .await
            .expect("a compaction");
        for number in 0..5 {
            let pair = [message(2 * number), message(2 * number + 1)].map(Draft::from);
            session.append(pair).await.expect("an append");
        }
        workspace.close().await.expect("a close");
    });
}

fn long_sessions(folder: &Path, lines: &mut Vec<Line>) {
    let (long, short) = (folder.join("long.sqlite3"), folder.join("short.sqlite3"));
    long_session(&long, 100_000);
    long_session(&short, 1_000);
    let runtime = data::runtime();
    let times = 60;
    let replay = |path: &Path| {
        let took = time(|| {
            for _ in 0..times {
                runtime.block_on(async {
                    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path).await.expect("a store"));
                    let workspace = Workspace::open(store, data::workspace()).await.expect("a workspace");
                    let session = workspace.sessions().open(&data::session(0).id).await.expect("a session");
                    let replay = session.replay().await.expect("a replay");
                    assert_eq!(replay.messages.len(), 1 + 10 + 10);
                    workspace.close().await.expect("a close");
                });
            }
        });
        took.as_secs_f64() * 1e3 / f64::from(times)
    };
    lines.push(paired(
        "open and replay a session of 100,000 entries compacted near its end, beside one of 1,000",
        "ms",
        Target::AtMost(2.0),
        ROUNDS,
        || replay(&long),
        || replay(&short),
    ));
    let append = |path: &Path| {
        let store = runtime.block_on(data::open(path));
        let session = runtime.block_on(async {
            let key = turnkeep_core::SessionKey { workspace: data::workspace(), id: data::session(0).id };
            store.session(&key).await.expect("a read").expect("a session").session_ref()
        });
        let times = 500;
        let commit = |number| {
            let commit = data::append(&session, vec![data::message(number)]);
            runtime.block_on(store.commit(commit)).expect("an append");
        };
        (0..50).for_each(commit);
        let took = time(|| (0..times).for_each(commit));
        runtime.block_on(store.close()).expect("a close");
        took.as_secs_f64() * 1e6 / times as f64
    };
    lines.push(paired(
        "append to a session of 100,000 entries, beside one of 1,000",
        "us",
        Target::AtMost(1.2),
        ROUNDS,
        || append(&long),
        || append(&short),
    ));
}

/// 10,000 sessions, one of them 300 MB.
fn listing(folder: &Path, lines: &mut Vec<Line>) {
    let path = folder.join("list.sqlite3");
    let runtime = data::runtime();
    runtime.block_on(async {
        let store = data::open(&path).await;
        let creates = (0..10_000).map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                data::create(store.as_ref(), number).await;
                store
                    .commit(data::append(&data::session(number), vec![data::message(number)]))
                    .await
                    .expect("an append");
            })
        });
        for create in creates.collect::<Vec<_>>() {
            create.await.expect("a task");
        }
        let large = "x".repeat(1_000_000);
        for number in 0..300 {
            let mut entry = data::message(number);
            entry.payload =
                turnkeep_core::Payload::new(format!(r#"{{"role":"tool","text":"{large}"}}"#)).expect("JSON");
            store.commit(data::append(&data::session(9_999), vec![entry])).await.expect("an append");
        }
        store.close().await.expect("a close");
    });
    let store = runtime.block_on(data::open(&path));
    let bare = floor::writer(&path);
    let mut query = SessionQuery::new(data::workspace());
    query.limit = 50;
    let times = 300;
    lines.push(paired(
        "newest 50 of 10,000 sessions, one of 300 MB, beside the bare SELECT",
        "us",
        Target::None,
        ROUNDS,
        || {
            let took = time(|| {
                for _ in 0..times {
                    let page = runtime.block_on(store.sessions(&query)).expect("a page");
                    assert_eq!(page.items.len(), 50);
                }
            });
            took.as_secs_f64() * 1e6 / f64::from(times)
        },
        || {
            let took = time(|| (0..times).for_each(|_| assert_eq!(floor::newest(&bare, 50), 50)));
            took.as_secs_f64() * 1e6 / f64::from(times)
        },
    ));
    drop(bare);
    runtime.block_on(store.close()).expect("a close");
}
