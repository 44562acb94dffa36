//! Tool calls and their results: each call answered once, the answers right after it, in its order.

use std::collections::{HashMap, HashSet};

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::EntryNo;
use turnkeep_core::model::role;
use turnkeep_core::mutant;

use super::{CutOff, LeftOut, LeftOutReason, ReplayMessage, ReplayPolicy, Unanswered};
use crate::message::{Block, Message, ToolCall, ToolResult};

/// A message and the entry it comes from.
pub(super) struct Piece {
    pub(super) entry: EntryNo,
    pub(super) message: Message,
}

impl Piece {
    /// The calls that count: people and tools ask for none.
    pub(super) fn calls(&self) -> impl Iterator<Item = (usize, &ToolCall)> {
        let asks = asks_for_tools(&self.message);
        let blocks = self.message.blocks().iter().enumerate();
        blocks.filter(move |_| asks).filter_map(|(index, block)| Some((index, block.as_tool_call()?)))
    }
}

/// Whether calls in a message of this role count. Unknown roles may be a model's.
pub(super) fn asks_for_tools(message: &Message) -> bool {
    ![role::USER, role::SYSTEM, role::TOOL].contains(&message.role().as_str())
}

/// A block by message and place.
type Place = (usize, usize);

/// Which result answers which call.
#[derive(Default)]
struct Answers {
    /// From a call to its result.
    by_call: HashMap<Place, Place>,
    /// Calls whose id occurs earlier in the same message.
    repeated: HashSet<Place>,
}

/// Orders calls and results. Answers how many calls had to be answered in the copy.
pub(super) fn pair(
    pieces: Vec<Piece>,
    policy: &ReplayPolicy,
    left_out: &mut LeftOut,
    out: &mut Vec<ReplayMessage>,
) -> Result<u32> {
    let answers = find_answers(&pieces, left_out);
    let mut repaired = 0;
    for (at, piece) in pieces.iter().enumerate() {
        let message = &piece.message;
        if message.is_from(role::TOOL) {
            // Its answers are written with their calls.
            if message.blocks().is_empty() {
                left_out.add(LeftOutReason::Empty);
            }
            for _ in message.blocks().iter().filter(|block| block.as_tool_result().is_none()) {
                left_out.add(LeftOutReason::Misplaced);
            }
            continue;
        }
        let drops_calls = policy.cut_off == CutOff::DropCalls && message.was_cut_off();
        let mut calls: Vec<(Place, &ToolCall)> = Vec::new();
        let mut kept: Vec<Block> = Vec::with_capacity(message.blocks().len());
        let mut moved = false;
        for (index, block) in message.blocks().iter().enumerate() {
            let place = (at, index);
            if block.as_tool_result().is_some() {
                moved = true;
                continue;
            }
            if let Some(call) = block.as_tool_call() {
                if !asks_for_tools(message) {
                    left_out.add(LeftOutReason::Misplaced);
                    moved = true;
                    continue;
                }
                if answers.repeated.contains(&place) {
                    left_out.add(LeftOutReason::RepeatedCall);
                    continue;
                }
                if drops_calls && !answers.by_call.contains_key(&place) {
                    left_out.add(LeftOutReason::CutOffCall);
                    continue;
                }
                calls.push((place, call));
            }
            kept.push(block.clone());
        }
        if !kept.iter().any(Block::has_substance) {
            if !moved {
                left_out.add(LeftOutReason::Empty);
            }
        } else if kept.len() == message.blocks().len() {
            out.push(ReplayMessage { entry: Some(piece.entry), message: message.clone() });
        } else {
            out.push(ReplayMessage { entry: Some(piece.entry), message: message.with_blocks(kept) });
        }
        repaired += push_answers(piece.entry, &calls, &answers, &pieces, policy, out)?;
    }
    Ok(repaired)
}

/// Matches each result with the latest call of its id before it.
fn find_answers(pieces: &[Piece], left_out: &mut LeftOut) -> Answers {
    let mut answers = Answers::default();
    let mut latest: HashMap<&str, Place> = HashMap::new();
    for (at, piece) in pieces.iter().enumerate() {
        let asks = asks_for_tools(&piece.message);
        for (index, block) in piece.message.blocks().iter().enumerate() {
            if let Some(call) = block.as_tool_call().filter(|_| asks) {
                match latest.get(call.id.as_str()) {
                    Some((message, _)) if *message == at => {
                        answers.repeated.insert((at, index));
                    }
                    _ => {
                        latest.insert(&call.id, (at, index));
                    }
                }
            } else if let Some(result) = block.as_tool_result() {
                match latest.get(result.call_id.as_str()) {
                    None => left_out.add(LeftOutReason::ResultWithoutCall),
                    Some(call) if answers.by_call.contains_key(call) => {
                        left_out.add(LeftOutReason::RepeatedResult);
                    }
                    Some(_) if mutant::is("replay/results-not-found") => {}
                    Some(call) => {
                        answers.by_call.insert(*call, (at, index));
                    }
                }
            }
        }
    }
    answers
}

/// Writes the answers of one message's calls.
fn push_answers(
    asked_in: EntryNo,
    calls: &[(Place, &ToolCall)],
    answers: &Answers,
    pieces: &[Piece],
    policy: &ReplayPolicy,
    out: &mut Vec<ReplayMessage>,
) -> Result<u32> {
    let mut repaired = 0;
    let mut rest = calls;
    while let Some(((place, call), following)) = rest.split_first() {
        let Some((at, index)) = answers.by_call.get(place).copied() else {
            if policy.unanswered == Unanswered::Refuse {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "a tool call has no result; append one, or replay with the policy that repairs it",
                )
                .with("entry", asked_in));
            }
            let message = Message::tool_results([ToolResult::interrupted(call)]);
            out.push(ReplayMessage { entry: None, message });
            repaired += 1;
            rest = following;
            continue;
        };
        let Some(Piece { entry, message }) = pieces.get(at) else { break };
        // A stored message that answers just these calls in this order is handed out as it is.
        let whole = message.is_from(role::TOOL)
            && rest.len() >= message.blocks().len()
            && rest
                .iter()
                .zip(0..message.blocks().len())
                .all(|((call, _), block)| answers.by_call.get(call) == Some(&(at, block)));
        if whole {
            out.push(ReplayMessage { entry: Some(*entry), message: message.clone() });
            rest = rest.get(message.blocks().len()..).unwrap_or_default();
            continue;
        }
        let blocks: Vec<Block> = message.blocks().get(index).cloned().into_iter().collect();
        let message = if message.is_from(role::TOOL) {
            message.with_blocks(blocks)
        } else {
            Message::tool_results([]).with_blocks(blocks)
        };
        out.push(ReplayMessage { entry: Some(*entry), message });
        rest = following;
    }
    Ok(repaired)
}
