//! Commit rates beside the bare engine, and the time of opening after a kill. One run on a quiet machine:
//!
//! ```text
//! cargo run --release -p turnkeep-redb --example measure -- rates
//! cargo run --release -p turnkeep-redb --example measure -- kill
//! ```

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redb::{Durability, TableDefinition};
use turnkeep_core::commit::{Commit, NewEntry, NewSession, Op};
use turnkeep_core::id::{EntryKind, Role};
use turnkeep_core::{Incarnation, Payload, SessionId, SessionRef, Store, Timestamp, WorkspaceId};
use turnkeep_redb::{RedbOptions, RedbStore};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const LISTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("lists");
const SESSIONS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("sessions");
/// How long each rate is measured.
const WHILE: Duration = Duration::from_secs(4);

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    match arguments.as_slice() {
        ["rates"] => rates(&runtime),
        ["kill"] => after_kill(),
        ["write", path, quick, megabytes] => {
            write(&runtime, Path::new(path), *quick == "quick", megabytes.parse()?)
        }
        _ => Err("say `rates` or `kill`".into()),
    }
}

fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{line}");
    let _ = std::io::stdout().flush();
}

fn life(number: u64) -> Result<SessionRef, turnkeep_core::Error> {
    let mut bits = [0; 16];
    bits[..8].copy_from_slice(&number.to_be_bytes());
    Ok(SessionRef {
        id: SessionId::new(format!("session-{number}"))?,
        incarnation: Incarnation::from_bytes(bits),
    })
}

fn message() -> Result<NewEntry, turnkeep_core::Error> {
    let payload = Payload::from_value(&"x".repeat(1_000))?;
    let mut entry = NewEntry::new(EntryKind::new("message")?, Timestamp::from_millis(1), payload);
    entry.role = Some(Role::new("assistant")?);
    Ok(entry)
}

async fn session(store: &RedbStore, number: u64) -> Result<SessionRef, turnkeep_core::Error> {
    let session = life(number)?;
    let new = NewSession {
        id: session.id.clone(),
        incarnation: session.incarnation,
        state: Default::default(),
        profile: Default::default(),
    };
    store.commit(Commit::new(WorkspaceId::new("w")?).op(Op::CreateSession(new))).await?;
    Ok(session)
}

fn rates(runtime: &tokio::runtime::Runtime) -> Result<(), Failure> {
    for producers in [1, 8, 64] {
        let mut line = format!("{producers:>3} producers:");
        for quick in [true, false] {
            let ours = runtime.block_on(ours(producers, quick))?;
            let bare = bare(producers, quick)?;
            let name = if quick { "quick repair" } else { "plain" };
            line += &format!("  {name}: ours {ours:.0}/s, bare {bare:.0}/s, {:.2}x;", ours / bare);
        }
        say(&line);
    }
    Ok(())
}

/// Appends per second; every producer has a session of its own and waits for each answer.
async fn ours(producers: u64, quick: bool) -> Result<f64, Failure> {
    let folder = tempfile::tempdir()?;
    let store = RedbOptions::new(folder.path().join("s.redb")).quick_repair(quick).open().await?;
    let done = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut tasks = Vec::new();
    for number in 0..producers {
        let (store, done) = (store.clone(), Arc::clone(&done));
        tasks.push(tokio::spawn(async move {
            let session = session(&store, number).await?;
            while began.elapsed() < WHILE {
                let append = Op::Append { session: session.clone(), entries: vec![message()?] };
                store.commit(Commit::new(WorkspaceId::new("w")?).op(append)).await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), turnkeep_core::Error>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let rate = done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    store.close().await?;
    Ok(rate)
}

/// The same rows through the engine alone: an entry, a session row, a move in the list by activity; as many to a
/// transaction as there are producers.
fn bare(producers: u64, quick: bool) -> Result<f64, Failure> {
    let folder = tempfile::tempdir()?;
    let engine =
        redb::Builder::new().set_cache_size(64 * 1024 * 1024).create(folder.path().join("s.redb"))?;
    let (entry, row) = ([7_u8; 1_100], [7_u8; 230]);
    let began = Instant::now();
    let mut done = 0_u64;
    while began.elapsed() < WHILE {
        let mut transaction = engine.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        transaction.set_quick_repair(quick);
        {
            let mut rows = transaction.open_table(ROWS)?;
            let mut sessions = transaction.open_table(SESSIONS)?;
            let mut lists = transaction.open_table(LISTS)?;
            for producer in 0..producers {
                let number = done / producers;
                let key = [producer.to_be_bytes(), number.to_be_bytes()].concat();
                rows.insert(key.as_slice(), entry.as_slice())?;
                sessions.insert(producer.to_be_bytes().as_slice(), row.as_slice())?;
                let place = |activity: u64| [(!activity).to_be_bytes(), producer.to_be_bytes()].concat();
                lists.remove(place((done + producer).saturating_sub(producers)).as_slice())?;
                lists.insert(place(done + producer).as_slice(), [0; 13].as_slice())?;
            }
        }
        transaction.commit()?;
        done += producers;
    }
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

/// Fills a store, then goes on with single appends until it is killed.
fn write(runtime: &tokio::runtime::Runtime, path: &Path, quick: bool, megabytes: u64) -> Result<(), Failure> {
    runtime.block_on(async {
        let store = RedbOptions::new(path).quick_repair(quick).open().await?;
        let session = session(&store, 1).await?;
        let append = |count| -> Result<Commit, turnkeep_core::Error> {
            let entries = (0..count).map(|_| message()).collect::<Result<_, _>>()?;
            let append = Op::Append { session: session.clone(), entries };
            Ok(Commit::new(WorkspaceId::new("w")?).op(append))
        };
        while std::fs::metadata(path)?.len() < megabytes * 1024 * 1024 {
            store.commit(append(2_000)?).await?;
        }
        say("full");
        loop {
            store.commit(append(1)?).await?;
        }
    })
}

fn after_kill() -> Result<(), Failure> {
    for quick in ["quick", "plain"] {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("s.redb");
        let mut writer = Command::new(std::env::current_exe()?)
            .arg("write")
            .arg(&path)
            .args([quick, "200"])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut said = [0; 4];
        if let Some(stdout) = &mut writer.stdout {
            std::io::Read::read_exact(stdout, &mut said)?;
        }
        std::thread::sleep(Duration::from_millis(500));
        writer.kill()?;
        writer.wait()?;
        let megabytes = std::fs::metadata(&path)?.len() / 1024 / 1024;
        let began = Instant::now();
        let store = RedbStore::open_blocking(&path)?;
        let opened = began.elapsed();
        drop(store);
        say(&format!("{quick}: {megabytes} MiB opened {:.0} ms after a kill", opened.as_secs_f64() * 1000.0));
    }
    Ok(())
}
