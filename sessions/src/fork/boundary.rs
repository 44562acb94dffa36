//! Where a session may be forked: after a turn that is closed, with no tool call left open, and not before a turn was
//! completed. What a model said outside of any turn completes one: imported conversations have no boundaries.

use std::collections::HashMap;

use turnkeep_core::error::{Error, ErrorKind, ForkReason, Result};
use turnkeep_core::id::{EntryKind, EntryNo, Role, RunId, TurnId};
use turnkeep_core::model::{
    Entry, ForkKind, ForkOrigin, RunState, SessionRow, VisibilitySet, entry_kind, role,
};
use turnkeep_core::mutant;
use turnkeep_core::query::{Order, PathTo};

use crate::draft::{TurnEnd, TurnStatus};
use crate::message::Message;
use crate::run::close::end_key;
use crate::session::Session;

/// Entries of one page.
const PAGE: u32 = 1_000;
/// Messages of one page at the end of a path, where tool calls may be open.
const TAIL: u32 = 50;

/// Where a fork is cut, and where its child goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) origin: ForkOrigin,
    pub(super) leaf: Option<EntryNo>,
}

/// Finds the cut of a fork of everything, or up to an entry.
///
/// # Errors
/// `ForkRefused` with its reason.
pub(super) async fn find(session: &Session, row: &SessionRow, at: Option<EntryNo>) -> Result<Cut> {
    if let Some(run) = &row.active_run {
        return Err(refused(
            session,
            ForkReason::SourceActive,
            "the session has an active run; fork it when the run is over",
        )
        .with("run", run));
    }
    let head = row.head.ok_or_else(|| no_completed_turn(session))?;
    if let Some(at) = at.filter(|at| *at > head) {
        let message = "the session has no such entry (yet)";
        return Err(refused(session, ForkReason::Unavailable, message).with("entry", at).with("head", head));
    }
    let asked = at.unwrap_or(head);
    let turns = turns_until(session, asked).await?;
    let (boundary, completes) = match turns.open.as_slice() {
        [] => (asked, false),
        [(turn, _)] if at.is_some() => end_after(session, turn, asked).await?,
        [(turn, _), ..] => return Err(inside(session, turn, asked)),
    };
    if !turns.completed && !completes && !answered_outside(session, boundary).await? {
        return Err(no_completed_turn(session));
    }
    let leaf = if at.is_some() { on_path(session, boundary).await? } else { row.path.leaf };
    if let Some(leaf) = leaf {
        no_open_call(session, leaf, boundary).await?;
    }
    let kind = if at.is_some() { ForkKind::Message } else { ForkKind::Session };
    Ok(Cut { origin: ForkOrigin { kind, boundary, seed_length: boundary.get() }, leaf })
}

pub(super) fn refused(session: &Session, reason: ForkReason, message: &str) -> Error {
    Error::new(ErrorKind::ForkRefused(reason), message).with("session", session.id())
}

fn no_completed_turn(session: &Session) -> Error {
    let message =
        "no turn of the session was completed up to there; fork after an answer, or make a new session";
    refused(session, ForkReason::NoCompletedTurn, message)
}

fn inside(session: &Session, turn: &TurnId, at: EntryNo) -> Error {
    let message = "a turn is open there; fork at the end of a turn";
    refused(session, ForkReason::InvalidBoundary, message).with("turn", turn).with("entry", at)
}

fn unreadable(session: &Session, entry: &Entry) -> Error {
    let message = "an entry that decides over the boundary cannot be read; fork at another place";
    refused(session, ForkReason::UnsupportedEntry, message).with("entry", entry.number)
}

/// What turns there are up to an entry.
struct Turns {
    /// Begun and not ended there.
    open: Vec<(TurnId, EntryNo)>,
    /// Whether one was completed.
    completed: bool,
}

async fn turns_until(session: &Session, last: EntryNo) -> Result<Turns> {
    let kinds = vec![EntryKind::new(entry_kind::TURN_START)?, EntryKind::new(entry_kind::TURN_END)?];
    let mut open: HashMap<TurnId, EntryNo> = HashMap::new();
    let mut completed = false;
    let mut cursor = None;
    loop {
        let (kinds, from) = (kinds.clone(), cursor.take());
        let page = session
            .entries(move |query| {
                query.kinds = kinds;
                query.before = last.next();
                query.limit = PAGE;
                query.cursor = from;
            })
            .await?;
        for entry in page.items {
            // A boundary without a turn bounds nothing.
            let Some(turn) = entry.turn.clone() else { continue };
            if entry.kind.as_str() == entry_kind::TURN_START {
                open.insert(turn, entry.number);
            } else {
                let end = TurnEnd::from_entry(&entry).map_err(|_| unreadable(session, &entry))?;
                completed |= end.status == TurnStatus::Completed;
                open.remove(&turn);
            }
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    if mutant::is("fork/inside-a-turn") {
        open.clear();
    }
    let mut open: Vec<_> = open.into_iter().collect();
    open.sort_by_key(|(_, start)| *start);
    Ok(Turns { open, completed })
}

/// Whether a model said something outside of any turn, up to an entry.
async fn answered_outside(session: &Session, last: EntryNo) -> Result<bool> {
    let outside = |entry: &Entry| entry.turn.is_none() && entry.run.is_none();
    any_message(session, role::ASSISTANT, (None, last.next()), outside).await
}

/// Whether one of the calls is answered after an entry. A message that cannot be read answers nothing.
async fn answered_after(session: &Session, calls: &[String], boundary: EntryNo) -> Result<bool> {
    let answers = |entry: &Entry| {
        let message = Message::from_entry(entry).ok();
        message.is_some_and(|message| message.results().any(|result| calls.contains(&result.call_id)))
    };
    any_message(session, role::TOOL, (Some(boundary), None), answers).await
}

/// Whether a message of a role between two numbers is such a one.
async fn any_message(
    session: &Session,
    role: &str,
    (after, before): (Option<EntryNo>, Option<EntryNo>),
    is: impl Fn(&Entry) -> bool,
) -> Result<bool> {
    let (kind, role) = (EntryKind::new(entry_kind::MESSAGE)?, Role::new(role)?);
    let mut cursor = None;
    loop {
        let (kind, role, from) = (kind.clone(), role.clone(), cursor.take());
        let page = session
            .entries(move |query| {
                query.kinds = vec![kind];
                query.roles = vec![role];
                (query.after, query.before) = (after, before);
                query.limit = PAGE;
                query.cursor = from;
            })
            .await?;
        if page.items.iter().any(&is) {
            return Ok(true);
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(false);
        }
    }
}

/// The last words of a turn stand for its end: people name what they read, not the machinery behind it. Answers the end,
/// and whether the turn is completed with it.
async fn end_after(session: &Session, turn: &TurnId, at: EntryNo) -> Result<(EntryNo, bool)> {
    let (key, of) = (end_key(turn)?, turn.clone());
    let found = session.entries(move |query| query.key = Some(key)).await?.items;
    let Some(end) = found.into_iter().next() else { return Err(inside(session, turn, at)) };
    let status = TurnEnd::from_entry(&end).map_err(|_| unreadable(session, &end))?.status;
    let between = session
        .entries(move |query| {
            query.visibility = VisibilitySet::ALL;
            query.after = Some(at);
            query.before = Some(end.number);
            query.limit = 1;
        })
        .await?
        .items;
    if !between.is_empty() {
        return Err(inside(session, &of, at));
    }
    Ok((end.number, status == TurnStatus::Completed))
}

/// The entry of a path that a boundary stands for: labels and partials stand beside one.
async fn on_path(session: &Session, number: EntryNo) -> Result<Option<EntryNo>> {
    let entry = session.entry(number).await?;
    Ok(if entry.on_path { Some(number) } else { entry.parent })
}

/// Refuses a path that ends between a tool call and its result. What replay leaves out does not count, and neither does a
/// call that was passed over in the conversation and never answered.
async fn no_open_call(session: &Session, leaf: EntryNo, boundary: EntryNo) -> Result<()> {
    let kind = EntryKind::new(entry_kind::MESSAGE)?;
    let mut answered: Vec<String> = Vec::new();
    let mut passed_over = false;
    let mut verdicts: HashMap<RunId, bool> = HashMap::new();
    let mut cursor = None;
    loop {
        let (kind, from) = (kind.clone(), cursor.take());
        let page = session
            .entries(move |query| {
                query.kinds = vec![kind];
                query.path = Some(PathTo::Entry(leaf));
                query.order = Order::Descending;
                query.limit = TAIL;
                query.cursor = from;
            })
            .await?;
        for entry in page.items {
            if let Some(run) = &entry.run {
                let counts = match verdicts.get(run) {
                    Some(counts) => *counts,
                    None => {
                        let counts = session.runs().get(run).await?.state == RunState::Completed;
                        verdicts.insert(run.clone(), counts);
                        counts
                    }
                };
                if !counts {
                    continue;
                }
            }
            let message = Message::from_entry(&entry).map_err(|_| unreadable(session, &entry))?;
            answered.extend(message.results().map(|result| result.call_id.clone()));
            if message.is_from(role::TOOL) {
                continue;
            }
            if message.is_from(role::USER) {
                passed_over = true;
                continue;
            }
            let calls = message.tool_calls().map(|call| call.id.clone());
            let open: Vec<String> = calls.filter(|call| !answered.contains(call)).collect();
            let splits =
                !open.is_empty() && (!passed_over || answered_after(session, &open, boundary).await?);
            if splits && !mutant::is("fork/between-call-and-result") {
                return Err(refused(
                    session,
                    ForkReason::InvalidBoundary,
                    "a tool call has no result there; fork after its result",
                )
                .with("entry", entry.number));
            }
            return Ok(());
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(()),
        }
    }
}
