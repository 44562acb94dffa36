//! Killed while an answer streams in.

use turnkeep_core::SessionRef;
use turnkeep_core::commit::NewEvent;
use turnkeep_core::model::Visibility;

use super::{closing, pieces};
use crate::clause::Running;
use crate::context::Context;
use crate::crash::{self, Books};
use crate::kit::{Kit, event, keyed, payload};
use crate::verdict::{Outcome, Stop};

/// Pieces that come in one commit.
const BATCH: u64 = 3;
/// Batches of a stream that nobody kills.
const MOST: u64 = 400;

/// Characters of two to four bytes, so that a cut between bytes shows.
const LETTERS: [&str; 6] = ["é", "ß", "漢", "字", "🦀", "👩‍🔧"];

fn text(number: u64) -> String {
    let letter = LETTERS[(number % LETTERS.len() as u64) as usize];
    format!("{number}{}", letter.repeat(40 + (number % 7) as usize))
}

fn piece(number: u64) -> NewEvent {
    let content = serde_json::Value::from(text(number)).to_string();
    NewEvent { payload: payload(&format!("{{\"text\":{content}}}")), ..event("text", 0) }
}

fn batch(first: u64) -> Vec<NewEvent> {
    (first..first + BATCH).map(piece).collect()
}

/// Streams an answer into the session that is called like the role.
pub(super) fn stream<'a>(cx: &'a Context, role: &'a str) -> Running<'a> {
    Box::pin(async move {
        let kit = cx.kit().await?;
        let session = kit.there(role).await?;
        for first in (0..MOST).map(|at| at * BATCH + 1) {
            crash::begin(&first.to_string())?;
            kit.apply(pieces(&kit, &session, "t", Some(first), batch(first))).await?;
            crash::done(&first.to_string())?;
        }
        Ok(())
    })
}

/// Smoke: 3 kills, full: 20, soak: 400.
pub(super) async fn par_005_a_kill_leaves_what_was_acknowledged_of_a_stream(cx: &Context) -> Outcome {
    for kill in 0..cx.scaled(3, 20, 400) {
        let kit = cx.kit().await?;
        let session = kit.create(&format!("session {kill}")).await?;
        cx.leave(kit).await?;
        let books = cx.killed(session.id.as_str(), cx.moment("PAR-005", kill, 30)).await?;
        let kit = cx.kit().await?;
        whole_pieces(&kit, &session, &books).await?;
        cx.leave(kit).await?;
    }
    Ok(())
}

async fn whole_pieces(kit: &Kit, session: &SessionRef, books: &Books) -> Outcome {
    let events = kit.events(kit.stream(session, "partial/t")).await?;
    for (number, event) in (1..).zip(&events) {
        ensure_eq!(event.number, number, "the number of the next piece after a kill");
        ensure_eq!(event.payload.as_str(), piece(number).payload.as_str(), "piece {number} after a kill");
    }
    let batches: Vec<_> = events.chunks(BATCH as usize).map(|batch| batch[0].number.to_string()).collect();
    books.compare("streamed batches", &batches)?;
    let count = events.len() as u64;
    ensure!(count.is_multiple_of(BATCH), "{count} pieces are there, but {BATCH} came with each commit");

    // Whoever goes on neither repeats nor leaves out a word, and what is kept for display is what was streamed.
    if let Some(last) = count.checked_sub(BATCH) {
        kit.apply(pieces(kit, session, "t", Some(last + 1), batch(last + 1))).await?;
        ensure_eq!(kit.events(kit.stream(session, "partial/t")).await?.len() as u64, count, "after a repeat");
    }
    kit.apply(pieces(kit, session, "t", Some(count + 1), batch(count + 1))).await?;
    let events = kit.events(kit.stream(session, "partial/t")).await?;
    let streamed: String = (1..=count + BATCH).map(text).collect();
    let mut seen = String::new();
    for event in &events {
        let value: serde_json::Value = serde_json::from_str(event.payload.as_str())
            .map_err(|error| Stop::fail(format!("a piece is no JSON: {error}")))?;
        seen.push_str(value["text"].as_str().unwrap_or_default());
    }
    ensure_eq!(seen, streamed, "the text streamed so far");
    let mut kept = keyed("turn/t/end", &seen);
    (kept.visibility, kept.advance_leaf) = (Visibility::Partial, false);
    kit.apply(kit.appending(session, vec![kept]).op(closing(session, "t"))).await?;
    let kept = kit.walk(kit.every_entry(session)).await?;
    ensure_eq!(
        kept.iter().map(|entry| entry.text.as_deref()).collect::<Vec<_>>(),
        [Some(streamed.as_str())],
        "the partial that is kept"
    );
    ensure_eq!(kit.texts(session).await?.len(), 0, "committed entries beside the partial");
    Ok(())
}
