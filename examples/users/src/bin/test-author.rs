//! You write tests: the memory store, a clock that you move, ids that follow from a seed, and faults on demand. It prints
//! the same every time.
//!
//! ```text
//! cargo run -p turnkeep-examples --bin test-author
//! ```
#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::sync::Arc;

use turnkeep::testing::{Fault, FaultStore, SeededEntropy, abandon};
use turnkeep::{
    ErrorKind, ManualClock, MemoryOptions, Message, Result, Session, Store, Timestamp, Workspace,
    WorkspaceId, WorkspaceOptions,
};

/// The code under test: it keeps an incoming message once, however often the answer gets lost.
async fn keep(session: &Session, id: &str, words: &str) -> Result<u32> {
    let mut tries = 0;
    loop {
        tries += 1;
        match session.append([Message::user(words)]).request_id(id).await {
            Ok(_) => return Ok(tries),
            Err(error) if error.kind() == ErrorKind::CommitUnknown => {}
            Err(error) => return Err(error),
        }
    }
}

async fn open(store: Arc<dyn Store>, clock: &ManualClock) -> Result<Workspace> {
    let options = WorkspaceOptions::default().clock(clock.clone()).entropy(SeededEntropy::new(7));
    options.open(store, WorkspaceId::new("test")?).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let memory = MemoryOptions::new().clock(Arc::new(clock.clone())).build();
    let store = Arc::new(FaultStore::new(Arc::new(memory.reopen())));
    let ws = open(store.clone(), &clock).await?;
    let session = ws.sessions().create().await?;
    println!("the session is {}", session.id());

    // The answers to the next six commits are lost, after all was done.
    store.next([Fault::After(ErrorKind::CommitUnknown); 6]);
    let tries = keep(&session, "update-4711", "pay the bill").await?;
    println!("kept after {tries} tries, {} time(s)", session.info().await?.messages);

    // Time passes when you say so.
    let before = session.info().await?.updated_at;
    clock.advance_ms(60_000);
    session.append([Message::assistant("paid")]).await?;
    println!("a minute later: {} ms", session.info().await?.updated_at.since_ms(before));

    // A process dies in the middle of a run, and the next one finds out.
    let (id, run) = (session.id().clone(), session.begin_run(Message::user("and again")).await?);
    abandon(run);
    drop((session, ws, store));
    let ws = open(Arc::new(memory.reopen()), &clock).await?;
    println!("recovered {} run(s)", ws.recovered().interrupted.len());
    let shown = ws.sessions().open(&id).await?.replay().await?;
    println!("the model is shown {} messages of it", shown.messages.len());
    Ok(())
}
