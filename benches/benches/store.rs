//! Criterion benchmarks of the SQLite backend, each group with its bare-engine floor.
//!
//! `cargo bench -p turnkeep-benches --bench store`; the table of ratios is the other target, `ratios`.

#![expect(clippy::expect_used, reason = "a benchmark that cannot go on stops")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use turnkeep_benches::data;
use turnkeep_benches::floor;
use turnkeep_benches::rounds::time;
use turnkeep_core::query::{EntryQuery, SessionQuery};
use turnkeep_core::{Order, Store};
use turnkeep_sessions::Workspace;
use turnkeep_sessions::message::Message;

const PRODUCERS: [usize; 4] = [1, 8, 64, 256];

/// A database of 100,000 entries, filled once.
fn filled() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("filled.sqlite3");
    data::fill(&path, 256, data::ENTRIES);
    (folder, path)
}

fn copy(of: &Path, name: &str) -> PathBuf {
    let path = of.with_file_name(name);
    fs::copy(of, &path).expect("a copy");
    path
}

fn commits(criterion: &mut Criterion) {
    let (_folder, filled) = filled();
    let runtime = data::runtime();
    let store = runtime.block_on(data::open(&copy(&filled, "store.sqlite3")));
    let mut group = criterion.benchmark_group("commit");
    group.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(4));
    for producers in PRODUCERS {
        group.bench_function(BenchmarkId::new("turnkeep", producers), |bencher| {
            bencher.iter_custom(|commits| {
                let each = usize::try_from(commits).unwrap_or(usize::MAX).div_ceil(producers);
                let rate = data::produce(&runtime, &store, producers, each);
                Duration::from_secs_f64(commits as f64 / rate)
            });
        });
    }
    let bare = floor::writer(&copy(&filled, "bare.sqlite3"));
    let key = floor::key(&bare, 0);
    group.bench_function("bare rusqlite/1", |bencher| {
        bencher.iter_custom(|commits| {
            let count = usize::try_from(commits).unwrap_or(usize::MAX);
            Duration::from_secs_f64(commits as f64 / floor::append(&bare, key, count))
        });
    });
    group.finish();
    runtime.block_on(store.close()).expect("a close");
}

fn runs(criterion: &mut Criterion) {
    let (_folder, filled) = filled();
    let runtime = data::runtime();
    let store: Arc<dyn Store> = runtime.block_on(data::open(&copy(&filled, "store.sqlite3")));
    let workspace = runtime.block_on(Workspace::open(store, data::workspace())).expect("a workspace");
    let session = runtime.block_on(async { workspace.sessions().create().await }).expect("a session");
    let mut group = criterion.benchmark_group("admission and completion");
    group.sample_size(10).measurement_time(Duration::from_secs(4));
    group.bench_function("turnkeep", |bencher| {
        bencher.iter_custom(|times| {
            time(|| {
                runtime.block_on(async {
                    for _ in 0..times {
                        let run = session.begin_run(Message::user("why does it fail?")).await.expect("a run");
                        run.complete([Message::assistant("a semicolon is missing")]).await.expect("an end");
                    }
                });
            })
        });
    });
    let mut bare = floor::Runs::new(&copy(&filled, "bare.sqlite3"));
    group.bench_function("bare rusqlite", |bencher| bencher.iter(|| bare.admit_and_complete()));
    group.finish();
    drop(session);
    runtime.block_on(workspace.close()).expect("a close");
}

fn reads(criterion: &mut Criterion) {
    let (_folder, filled) = filled();
    let runtime = data::runtime();
    let store = runtime.block_on(data::open(&filled));
    let bare = floor::writer(&filled);
    let key = floor::key(&bare, 7);
    let mut group = criterion.benchmark_group("last 100 entries");
    let mut query = EntryQuery::new(data::workspace(), data::session(7));
    (query.order, query.limit) = (Order::Latest, 100);
    group.bench_function("turnkeep", |bencher| {
        bencher.iter(|| runtime.block_on(store.entries(&query)).expect("a page"));
    });
    group.bench_function("bare rusqlite", |bencher| bencher.iter(|| floor::last(&bare, key, 100)));
    group.finish();

    let mut group = criterion.benchmark_group("newest 50 sessions");
    let mut query = SessionQuery::new(data::workspace());
    query.limit = 50;
    group.bench_function("turnkeep", |bencher| {
        bencher.iter(|| runtime.block_on(store.sessions(&query)).expect("a page"));
    });
    group.bench_function("bare rusqlite", |bencher| bencher.iter(|| floor::newest(&bare, 50)));
    group.finish();

    let shared: Arc<dyn Store> = store.clone();
    let workspace = runtime.block_on(Workspace::open(shared, data::workspace())).expect("a workspace");
    let mut group = criterion.benchmark_group("replay 390 messages");
    group.bench_function("turnkeep", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let session = workspace.sessions().open(&data::session(7).id).await.expect("a session");
                session.replay().await.expect("a replay").messages.len()
            })
        });
    });
    group.bench_function("bare rusqlite, the bytes only", |bencher| {
        bencher.iter(|| floor::last(&bare, key, 100_000));
    });
    group.finish();
    drop(bare);
    runtime.block_on(workspace.close()).expect("a close");
}

criterion_group!(benches, commits, runs, reads);
criterion_main!(benches);
