//! Measures a fork of a large session on SQLite, and what another writer feels of it.
//!
//! ```text
//! cargo run --release -p turnkeep-sessions --example fork -- 100000
//! ```
#![allow(clippy::print_stdout, reason = "a program that prints what it measured")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use turnkeep_core::{Result, WorkspaceId};
use turnkeep_sessions::{Message, Session, Workspace};
use turnkeep_sqlite::SqliteStore;

/// Entries of one append.
const BATCH: usize = 2_000;

async fn workspace(folder: &std::path::Path) -> Result<Workspace> {
    let store = SqliteStore::open(folder.join("state.sqlite3")).await?;
    Workspace::open(Arc::new(store), WorkspaceId::new("measured")?).await
}

async fn filled(ws: &Workspace, entries: usize) -> Result<Session> {
    let session = ws.sessions().create().title("large").await?;
    session.begin_run(Message::user("go")).await?.complete([Message::assistant("gone")]).await?;
    let words = "what a model says, of a length that is usual ".repeat(10);
    let mut left = entries.saturating_sub(4);
    while left > 0 {
        let now = left.min(BATCH);
        session.append((0..now).map(|_| Message::user(words.as_str()))).await?;
        left -= now;
    }
    Ok(session)
}

/// Appends until told to stop; answers how long each append took.
async fn write(session: Session, stop: Arc<AtomicBool>) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        session.append([Message::user("meanwhile")]).await?;
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    Ok(took)
}

fn told(what: &str, took: &[Duration]) {
    let at = |part: f64| {
        let index = (took.len().saturating_sub(1)) as f64 * part;
        took.get(index as usize).copied().unwrap_or_default()
    };
    println!(
        "{what}: {} commits, median {:.1?}, 99 % {:.1?}, longest {:.1?}",
        took.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let entries: usize = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let ws = workspace(folder.path()).await?;
    let session = filled(&ws, entries).await?;
    println!("a session of {} entries", session.info().await?.head.map_or(0, |head| head.get()));
    // A writer with a handle of its own, as another process has one.
    let other = workspace(folder.path()).await?.sessions().create().await?;
    let alone = {
        let stop = Arc::new(AtomicBool::new(false));
        let writer = tokio::spawn(write(other.clone(), stop.clone()));
        tokio::time::sleep(Duration::from_secs(2)).await;
        stop.store(true, Ordering::Relaxed);
        writer.await??
    };
    told("another writer alone, 2 s ", &alone);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write(other, stop.clone()));
    let begun = Instant::now();
    let child = session.fork("measure").await?;
    let took = begun.elapsed();
    stop.store(true, Ordering::Relaxed);
    let beside = writer.await??;
    println!(
        "fork: {} entries in {took:.2?}, {:.0} entries a second",
        child.origin.seed_length,
        f64::from(child.origin.seed_length) / took.as_secs_f64()
    );
    told("another writer meanwhile  ", &beside);
    Ok(())
}
