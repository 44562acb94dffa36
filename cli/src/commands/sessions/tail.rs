//! `turnkeep sessions tail`

use std::collections::HashMap;

use serde::Serialize;
use turnkeep::{HistoryItem, News, Session};

use super::{runs, show};
use crate::args::{Global, Tail};
use crate::commands::interrupt::Interrupts;
use crate::failure::{Failure, Outcome};
use crate::output::session::MessageData;
use crate::output::{Out, text, time};
use crate::{exit, open, pick};

/// One line for scripts.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Message(MessageData<'a>),
    Event { number: u64, kind: &'a str, run: Option<&'a str>, at: String },
    Text { turn: &'a str, text: &'a str },
}

pub(crate) async fn run(global: &Global, tail: Tail, out: &mut Out) -> Outcome<u8> {
    let mut interrupts = if tail.follow { Some(Interrupts::listen()?) } else { None };
    let workspace = open::workspace(global).await?;
    let session = pick::session(&workspace, &tail.pick).await?;
    // It begins before the words are read that are there, so that none falls between the two.
    let mut following = session.follow().text().await?;
    newest(&session, &tail, following.place().entry, out).await?;
    let Some(interrupts) = &mut interrupts else { return Ok(exit::OK) };
    loop {
        out.flush()?;
        let news = tokio::select! {
            news = following.next() => news?,
            () = interrupts.next() => return Ok(exit::OK),
            () = out.reader_gone() => return Err(Failure::ClosedPipe),
        };
        match news {
            Some(news) => show_one(news, &tail, out)?,
            None => {
                return Err(Failure::told(
                    exit::NOT_FOUND,
                    "the session was deleted; there is nothing to follow",
                ));
            }
        }
    }
}

/// The newest messages, up to the entry where following begins.
async fn newest(
    session: &Session,
    tail: &Tail,
    last: Option<turnkeep::EntryNo>,
    out: &mut Out,
) -> Outcome<()> {
    let Some(last) = last.filter(|_| tail.lines > 0) else { return Ok(()) };
    let mut history = session.history().latest(tail.lines);
    if let Some(next) = last.next() {
        history = history.before(next);
    }
    let items = history.await?.items;
    let runs = runs::all(session).await?;
    let by_id = show::by_id(&runs);
    for (at, item) in items.iter().enumerate() {
        if out.json {
            line(&Line::Message(item.into()), out)?;
        } else {
            if at > 0 {
                out.line("")?;
            }
            show::message(item, &by_id, tail.full, out)?;
        }
    }
    Ok(())
}

fn show_one(news: News, tail: &Tail, out: &mut Out) -> Outcome<()> {
    match news {
        News::Entry(entry) => {
            let item = HistoryItem::new(*entry);
            if !item.is_original() {
                return Ok(());
            }
            if out.json {
                return line(&Line::Message((&item).into()), out);
            }
            out.line("")?;
            show::message(&item, &HashMap::new(), tail.full, out)
        }
        News::Event { event, .. } if out.json => {
            let run = event.run.as_ref().map(|run| run.as_str());
            let at = time::rfc3339(event.at);
            line(&Line::Event { number: event.number, kind: event.kind.as_str(), run, at }, out)
        }
        News::Event { event, .. } => match ended(event.kind.as_str()) {
            Some(words) => {
                out.line("")?;
                let words = out.paint.dim(&format!("-- {words}"));
                out.line(words)
            }
            None => Ok(()),
        },
        News::Text { turn, text } if out.json => line(&Line::Text { turn: turn.as_str(), text: &text }, out),
        // A person reads the answer when it is whole.
        News::Text { .. } => Ok(()),
    }
}

/// What a person wants to know of a run, beside what was said.
fn ended(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "run_failed" => "the turn failed",
        "run_cancelled" => "the turn was cancelled",
        "run_interrupted" => "the turn was interrupted",
        "run_waiting_approval" => "it waits for an approval",
        "run_waiting_input" => "it waits for an input",
        _ => return None,
    })
}

fn line(line: &Line<'_>, out: &mut Out) -> Outcome<()> {
    let json = serde_json::to_string(line)
        .map_err(|error| Failure::program(format!("the line has no JSON form: {error}")))?;
    out.line(text::json(&json))
}
