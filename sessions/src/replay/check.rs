//! Whether a list of messages can be sent to a provider.

use std::collections::HashSet;

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::model::role;

use super::pairs::asks_for_tools;
use crate::message::{Block, Message};

/// Checks that a provider would take these messages: none is empty, tools are asked for by models only, every
/// call is answered exactly once, and the answers follow right after the message with the calls, in their order.
///
/// # Errors
/// `Invalid` with the place (from 0) of the first message that is wrong.
pub fn provider_valid(messages: &[Message]) -> Result<()> {
    let mut at = 0;
    while let Some(message) = messages.get(at) {
        let wrong = |what: &'static str| Error::new(ErrorKind::Invalid, what).with("message", at);
        if message.is_from(role::TOOL) || message.results().next().is_some() {
            return Err(wrong("a tool result does not follow the message with its call"));
        }
        if !message.has_substance() {
            return Err(wrong("the message says nothing"));
        }
        let calls: Vec<&str> = message.tool_calls().map(|call| call.id.as_str()).collect();
        if !calls.is_empty() && !asks_for_tools(message) {
            return Err(wrong("only a model asks for tools"));
        }
        if calls.iter().collect::<HashSet<_>>().len() != calls.len() {
            return Err(wrong("two calls of the message have the same id"));
        }
        at += 1;
        let mut open = calls.as_slice();
        while let Some(answer) = messages.get(at).filter(|answer| answer.is_from(role::TOOL)) {
            let wrong = |what: &'static str| Error::new(ErrorKind::Invalid, what).with("message", at);
            if answer.blocks().is_empty() {
                return Err(wrong("the tool message holds no result"));
            }
            for block in answer.blocks() {
                let Some(result) = Block::as_tool_result(block) else {
                    return Err(wrong("the tool message holds something that is no result"));
                };
                match open.split_first() {
                    Some((call, rest)) if *call == result.call_id => open = rest,
                    _ => return Err(wrong("the result answers no open call, or not the next one")),
                }
            }
            at += 1;
        }
        if !open.is_empty() {
            return Err(
                Error::new(ErrorKind::Invalid, "a tool call is not answered").with("before_message", at)
            );
        }
    }
    Ok(())
}
