//! Killed in the middle of commits that must not be split.

use turnkeep_core::commit::{NewEntry, Op};
use turnkeep_core::model::role;
use turnkeep_core::{Commit, SessionRef};

use crate::clause::Running;
use crate::context::Context;
use crate::crash::{self, Books};
use crate::kit::{Kit, event, keyed, name, payload, put};
use crate::verdict::Outcome;

/// Calls with their results in one commit.
const PAIRS: usize = 3;
/// Commits of a process that nobody kills.
const MOST: u64 = 300;

/// A call or its result: long, so that the commit takes many pages and a while.
fn half(of: u64, role: &str, at: usize) -> NewEntry {
    let filler = "of many words ".repeat(300);
    let content =
        format!("{{\"role\":\"{role}\",\"id\":\"{of}/{at}\",\"content\":\"{filler}\",\"tool_calls\":[]}}");
    let key = format!("{role}/{of}/{at}");
    NewEntry { role: Some(name(role)), payload: payload(&content), ..keyed(&key, &key) }
}

fn halves(of: u64) -> Vec<NewEntry> {
    (0..PAIRS).flat_map(|at| [half(of, role::ASSISTANT, at), half(of, role::TOOL, at)]).collect()
}

/// The calls, their results, the record of the last round and its event: one commit.
fn round(kit: &Kit, session: &SessionRef, of: u64) -> Commit {
    let events = Op::AppendEvents {
        session: session.clone(),
        stream: name("rounds"),
        expect_next: None,
        events: vec![event("round", of)],
    };
    let record = put("rounds", session.id.as_str(), &of.to_string());
    kit.appending(session, halves(of)).op(Op::PutRecord(record)).op(events)
}

/// Commits rounds to the session that is called like the role.
pub(super) fn call<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let kit = cx.kit().await?;
        let session = kit.there(role).await?;
        for of in 1..=MOST {
            crash::begin(&of.to_string())?;
            kit.apply(round(&kit, &session, of)).await?;
            crash::done(&of.to_string())?;
        }
        Ok(())
    })
}

/// Smoke: 3 kills, full: 20, soak: 400.
pub(super) async fn run_008_a_kill_splits_no_call_from_its_result(cx: &Context) -> Outcome {
    for kill in 0..cx.scaled(3, 20, 400) {
        let kit = cx.kit().await?;
        let session = kit.create(&format!("session {kill}")).await?;
        cx.leave(kit).await?;
        let books = cx.killed(session.id.as_str(), cx.moment("RUN-008", kill, 12)).await?;
        let kit = cx.kit().await?;
        whole_rounds(&kit, &session, &books).await?;
        cx.leave(kit).await?;
    }
    Ok(())
}

async fn whole_rounds(kit: &Kit, session: &SessionRef, books: &Books) -> Outcome {
    let entries = kit.entries(session).await?;
    let mut rounds = Vec::new();
    for (of, seen) in (1..).zip(entries.chunks(2 * PAIRS)) {
        let whole = halves(of);
        let seen_keys: Vec<_> = seen.iter().map(|entry| entry.key.as_ref()).collect();
        let keys: Vec<_> = whole.iter().map(|entry| entry.key.as_ref()).collect();
        ensure_eq!(seen_keys, keys, "calls and results of commit {of} after a kill");
        let same = whole.iter().zip(seen).all(|(whole, seen)| whole.payload == seen.payload);
        ensure!(same, "commit {of} is there after a kill, but with other payloads than were written");
        rounds.push(of.to_string());
    }
    books.compare("calls with their results", &rounds)?;
    let record = kit.record("rounds", session.id.as_str()).await?;
    let record = record.map(|record| record.payload.as_str().to_owned());
    ensure_eq!(record.as_ref(), rounds.last(), "the record that the last commit wrote");
    let events = kit.events(kit.stream(session, "rounds")).await?;
    ensure_eq!(events.len(), rounds.len(), "events beside as many commits");
    Ok(())
}
