//! Which entries of a path are replayed.

use std::collections::{HashMap, HashSet};

use turnkeep_core::error::Result;
use turnkeep_core::id::{EntryNo, RunId};
use turnkeep_core::model::{Entry, RunState, Visibility, entry_kind, role};
use turnkeep_core::mutant;

use super::pairs::{Piece, asks_for_tools, pair};
use super::{LeftOut, LeftOutReason, Replay, ReplayMessage, ReplayPolicy};
use crate::message::Message;
use crate::relation;

/// The kinds that replay looks at.
pub(super) const KINDS: [&str; 4] =
    [entry_kind::MESSAGE, entry_kind::CUSTOM_MESSAGE, entry_kind::BRANCH_SUMMARY, entry_kind::COMPACTION];

/// Builds a replay from the entries of a path and the states of the runs that they name.
///
/// `entries` ascend and reach the leaf. They need not begin at the root: what lies before the first entry that the
/// latest compaction keeps is only looked at to keep calls and results together. An entry whose run is not in `runs`
/// has nothing against it.
///
/// # Errors
/// `Invalid` when a call is unanswered and the policy says to refuse.
pub fn build(entries: &[Entry], runs: &HashMap<RunId, RunState>, policy: &ReplayPolicy) -> Result<Replay> {
    let Selection { compaction, items, .. } = select(entries, runs, policy);
    let mut left_out = LeftOut::default();
    let mut pieces = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Item::Message(piece) => pieces.push(piece),
            Item::LeftOut(reason) => left_out.add(reason),
        }
    }
    let mut messages = Vec::with_capacity(pieces.len() + 1);
    let mut number = None;
    if let Some(Piece { entry, message }) = compaction {
        number = Some(entry);
        messages.push(ReplayMessage { entry: Some(entry), message });
    }
    let repaired = pair(pieces, policy, &mut left_out, &mut messages)?;
    Ok(Replay { messages, compaction: number, left_out, repaired })
}

/// What of a path is replayed.
pub(super) struct Selection {
    /// The latest compaction, as the message of its summary.
    pub(super) compaction: Option<Piece>,
    /// What follows it.
    items: Vec<Item>,
    /// Whether a result was kept whose call was not found in the entries given.
    pub(super) misses_calls: bool,
}

enum Item {
    Message(Piece),
    LeftOut(LeftOutReason),
}

pub(super) fn select(entries: &[Entry], runs: &HashMap<RunId, RunState>, policy: &ReplayPolicy) -> Selection {
    let found =
        entries.iter().enumerate().rev().find_map(|(at, entry)| {
            compaction_message(entry, runs, policy).map(|message| (at, entry, message))
        });
    let Some((at, entry, message)) = found else {
        let items = entries.iter().filter_map(|entry| look_at(entry, runs, policy)).collect();
        return Selection { compaction: None, items, misses_calls: false };
    };
    let start = first_kept(entry)
        .map_or(at + 1, |kept| entries.partition_point(|entry| entry.number < kept).min(at + 1));
    let (before, kept) = entries.split_at(start);
    let mut items: Vec<Item> = kept
        .iter()
        .filter(|kept| kept.number != entry.number)
        .filter_map(|entry| look_at(entry, runs, policy))
        .collect();
    let misses_calls = reach_back(before, &mut items, runs, policy);
    Selection { compaction: Some(Piece { entry: entry.number, message }), items, misses_calls }
}

/// The summary of an entry, if it is a compaction that holds.
pub(super) fn compaction_message(
    entry: &Entry,
    runs: &HashMap<RunId, RunState>,
    policy: &ReplayPolicy,
) -> Option<Message> {
    if entry.kind.as_str() != entry_kind::COMPACTION || entry.visibility == Visibility::Partial {
        return None;
    }
    if against(entry, runs, policy).is_some() {
        return None;
    }
    Message::from_entry(entry).ok()
}

/// The first entry that a compaction leaves as it is; without one, nothing before it stays.
pub(super) fn first_kept(compaction: &Entry) -> Option<EntryNo> {
    compaction
        .refs
        .iter()
        .find(|reference| reference.relation.as_str() == relation::FIRST_KEPT)
        .map(|reference| reference.entry)
}

/// Moves the beginning back as long as a result is kept whose call lies before it, so that no pair is split.
/// Answers whether such a call was not found.
fn reach_back(
    before: &[Entry],
    items: &mut Vec<Item>,
    runs: &HashMap<RunId, RunState>,
    policy: &ReplayPolicy,
) -> bool {
    let mut end = before.len();
    loop {
        let missing = results_without_call(items);
        if missing.is_empty() {
            return false;
        }
        let mut passed = Vec::new();
        let mut found = false;
        for entry in before.iter().take(end).rev() {
            end -= 1;
            let Some(item) = look_at(entry, runs, policy) else { continue };
            found = matches!(&item, Item::Message(piece)
                if piece.calls().any(|(_, call)| missing.contains(&call.id)));
            passed.push(item);
            if found {
                break;
            }
        }
        if !found {
            return true;
        }
        passed.reverse();
        passed.append(items);
        *items = passed;
    }
}

fn results_without_call(items: &[Item]) -> HashSet<String> {
    let mut calls = HashSet::new();
    let mut missing = HashSet::new();
    for item in items {
        let Item::Message(piece) = item else { continue };
        let asks = asks_for_tools(&piece.message);
        for block in piece.message.blocks() {
            if let Some(call) = block.as_tool_call().filter(|_| asks) {
                calls.insert(call.id.as_str());
            } else if let Some(result) = block.as_tool_result()
                && !calls.contains(result.call_id.as_str())
            {
                missing.insert(result.call_id.clone());
            }
        }
    }
    missing
}

/// What becomes of an entry; `None` if it is nothing that a model is shown.
fn look_at(entry: &Entry, runs: &HashMap<RunId, RunState>, policy: &ReplayPolicy) -> Option<Item> {
    let kind = entry.kind.as_str();
    if !KINDS.contains(&kind) {
        return None;
    }
    if kind == entry_kind::COMPACTION {
        let unreadable = Message::from_entry(entry).is_err();
        let why = if unreadable { LeftOutReason::Unreadable } else { LeftOutReason::OlderCompaction };
        return Some(Item::LeftOut(against(entry, runs, policy).unwrap_or(why)));
    }
    if entry.visibility == Visibility::Partial {
        return Some(Item::LeftOut(LeftOutReason::Partial));
    }
    // Custom messages and branch summaries are made for models: they are shown whoever else may see them.
    if kind == entry_kind::MESSAGE && entry.visibility == Visibility::Internal && !policy.internal {
        return Some(Item::LeftOut(LeftOutReason::Internal));
    }
    if let Some(reason) = against(entry, runs, policy) {
        return Some(Item::LeftOut(reason));
    }
    Some(match Message::from_entry(entry) {
        Ok(message) => Item::Message(Piece { entry: entry.number, message }),
        Err(_) => Item::LeftOut(LeftOutReason::Unreadable),
    })
}

/// What the run of an entry has against it.
fn against(entry: &Entry, runs: &HashMap<RunId, RunState>, policy: &ReplayPolicy) -> Option<LeftOutReason> {
    let run = entry.run.as_ref()?;
    if policy.own_run.as_ref() == Some(run) {
        return None;
    }
    let reason = match runs.get(run)? {
        RunState::Completed => return None,
        RunState::Failed if mutant::is("replay/failed-runs-shown") => return None,
        RunState::Failed => LeftOutReason::FailedRun,
        RunState::Cancelled => LeftOutReason::CancelledRun,
        RunState::Interrupted => LeftOutReason::InterruptedRun,
        RunState::Pending
        | RunState::Running
        | RunState::WaitingApproval
        | RunState::WaitingInput
        | RunState::Cancelling => return Some(LeftOutReason::UnfinishedRun),
    };
    let is_input = entry.role.as_ref().is_some_and(|role| role.as_str() == role::USER);
    (!(policy.failed_input && is_input)).then_some(reason)
}
