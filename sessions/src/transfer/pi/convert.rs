//! One line of pi as one entry of ours.

use turnkeep_core::error::Result;
use turnkeep_core::id::{EntryKind, Role};
use turnkeep_core::model::{Usage, entry_kind, role};
use turnkeep_core::payload::Payload;
use turnkeep_core::time::Timestamp;

use super::{Head, known_role};
use crate::message::json::{self, Object, ObjectWriter};

/// What a line came to.
pub(super) struct Converted {
    pub(super) kind: EntryKind,
    pub(super) role: Option<Role>,
    pub(super) at: Option<Timestamp>,
    pub(super) payload: Payload,
    pub(super) header: Option<Head>,
    /// The summary of a compaction.
    pub(super) summary: Option<String>,
    /// Where a compaction says that the kept part begins.
    pub(super) first_kept: Option<u32>,
    pub(super) usage: Usage,
}

/// The time in an ISO 8601 text, in whole milliseconds.
pub(super) fn moment(text: &str) -> Option<Timestamp> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp::from_millis(moment.as_millisecond()))
}

/// Whether a time is written just as pi writes it, so that the milliseconds say it all.
fn is_plain(text: &str, at: Timestamp) -> bool {
    jiff::Timestamp::from_millisecond(at.as_millis()).is_ok_and(|moment| format!("{moment:.3}") == text)
}

pub(super) fn line(kind: EntryKind, line: &Object<'_>, text: &str) -> Result<Converted> {
    let stamp = line.string("timestamp");
    let mut converted = Converted {
        at: stamp.as_deref().and_then(moment),
        role: None,
        payload: Payload::empty(),
        header: None,
        summary: None,
        first_kept: None,
        usage: Usage::default(),
        kind,
    };
    // The time of the line is the time of the entry; it is kept as it was only where that is not the same.
    let odd_stamp = match (&stamp, converted.at) {
        (Some(text), Some(at)) => !is_plain(text, at),
        (None, None) => line.raw("timestamp").is_some(),
        _ => true,
    };
    let stamp = odd_stamp.then(|| line.raw("timestamp")).flatten();
    let json = match converted.kind.as_str() {
        entry_kind::MESSAGE => match line.raw("message").and_then(Object::parse) {
            Some(message) => {
                let who = message.string("role").map(|role| our_role(&role).to_owned());
                converted.role = who.as_deref().and_then(known_role);
                converted.at = converted.at.or_else(|| millis(message.raw("timestamp")));
                if converted.role.as_ref().is_some_and(|who| who.as_str() == role::ASSISTANT) {
                    converted.usage = message.raw("usage").map(usage).unwrap_or_default();
                }
                self::message(&message, line, stamp)
            }
            None => text.to_owned(),
        },
        entry_kind::SESSION => {
            converted.header = Some(Head::read(line));
            text.to_owned()
        }
        entry_kind::THINKING_LEVEL_CHANGE => renamed(line, &[("thinkingLevel", "level")], stamp),
        entry_kind::MODEL_CHANGE => renamed(line, &[("modelId", "model")], stamp),
        entry_kind::COMPACTION => {
            converted.summary = line.string("summary");
            converted.first_kept = line.raw("firstKeptEntryIndex").and_then(|index| index.parse().ok());
            renamed(line, &[("tokensBefore", "tokens_before")], stamp)
        }
        _ => text.to_owned(),
    };
    converted.payload = Payload::new(json)?;
    Ok(converted)
}

fn our_role(theirs: &str) -> &str {
    if theirs == "toolResult" { role::TOOL } else { theirs }
}

fn millis(raw: Option<&str>) -> Option<Timestamp> {
    raw?.parse().ok().map(Timestamp::from_millis)
}

/// The fields of a line but its type, with other names for some.
fn renamed(line: &Object<'_>, names: &[(&str, &str)], stamp: Option<&str>) -> String {
    let mut out = ObjectWriter::new();
    for (name, raw) in line.iter().filter(|(name, _)| !matches!(*name, "type" | "timestamp")) {
        let ours = names.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| *ours);
        out.raw(ours, raw);
    }
    if let Some(stamp) = stamp {
        out.raw("timestamp", stamp);
    }
    out.finish()
}

/// The message of a line. Fields of the line around it that say more than type and time come under `pi`.
fn message(message: &Object<'_>, line: &Object<'_>, stamp: Option<&str>) -> String {
    let is_result =
        message.string("role").as_deref() == Some("toolResult") && message.string("toolCallId").is_some();
    let mut out = ObjectWriter::new();
    let mut content = false;
    for (name, raw) in message.iter() {
        match name {
            "role" => match json::string(raw) {
                Some(role) => out.string("role", our_role(&role)),
                None => out.raw(name, raw),
            },
            "content" if is_result => {
                content = true;
                out.list("content", [result(message, Some(raw)).as_str()])
            }
            "content" => match json::array(raw) {
                Some(blocks) => {
                    let blocks: Vec<String> = blocks.into_iter().map(block).collect();
                    out.list("content", blocks.iter().map(String::as_str))
                }
                None => out.raw(name, raw),
            },
            "toolCallId" | "toolName" | "isError" if is_result => continue,
            "stopReason" => match json::string(raw).as_deref() {
                Some("toolUse") => out.string("stop_reason", "tool_use"),
                _ => out.raw("stop_reason", raw),
            },
            _ => out.raw(name, raw),
        };
    }
    if is_result && !content {
        out.list("content", [result(message, None).as_str()]);
    }
    let mut around = ObjectWriter::new();
    for (name, raw) in line.iter().filter(|(name, _)| !matches!(*name, "type" | "timestamp" | "message")) {
        around.raw(name, raw);
    }
    if let Some(stamp) = stamp {
        around.raw("timestamp", stamp);
    }
    if !around.is_empty() {
        out.raw("pi", &around.finish());
    }
    out.finish()
}

/// The block of a tool's answer, whose parts pi keeps in the message itself.
fn result(message: &Object<'_>, content: Option<&str>) -> String {
    let mut out = ObjectWriter::new();
    out.string("type", "tool_result");
    for (theirs, ours) in [("toolCallId", "call_id"), ("toolName", "name")] {
        if let Some(raw) = message.raw(theirs) {
            out.raw(ours, raw);
        }
    }
    match (content, content.and_then(json::array)) {
        (_, Some(blocks)) => {
            let blocks: Vec<String> = blocks.into_iter().map(block).collect();
            out.list("content", blocks.iter().map(String::as_str));
        }
        // A plain text, or something unheard of.
        (Some(raw), None) => {
            out.raw("content", raw);
        }
        (None, None) => {}
    }
    if let Some(raw) = message.raw("isError") {
        out.raw("is_error", raw);
    }
    out.finish()
}

/// A block with our names where it has a meaning here.
fn block(raw: &str) -> String {
    let Some(object) = Object::parse(raw) else { return raw.to_owned() };
    let kind = object.string("type");
    let names: &[(&str, &str)] = match kind.as_deref() {
        Some("toolCall") => &[],
        Some("thinking") => &[("thinkingSignature", "signature")],
        Some("image") if object.string("data").is_some() => return image(&object),
        _ => return raw.to_owned(),
    };
    let mut out = ObjectWriter::new();
    for (name, raw) in object.iter() {
        match (name, kind.as_deref()) {
            ("type", Some("toolCall")) => out.string("type", "tool_call"),
            _ => {
                let ours = names.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| *ours);
                out.raw(ours, raw)
            }
        };
    }
    out.finish()
}

/// A picture within the line becomes a reference that holds it.
fn image(object: &Object<'_>) -> String {
    let media_type = object.string("mimeType");
    let data = object.string("data").unwrap_or_default();
    let mut out = ObjectWriter::new();
    out.string("type", "media");
    out.string("uri", &format!("data:{};base64,{data}", media_type.as_deref().unwrap_or_default()));
    for (name, raw) in object.iter() {
        match name {
            "type" | "data" => {}
            "mimeType" => {
                out.raw("media_type", raw);
            }
            _ => {
                out.raw(name, raw);
            }
        }
    }
    out.finish()
}

/// What one request consumed. Cached tokens are counted beside the others, so all four make the total.
fn usage(raw: &str) -> Usage {
    let Some(object) = Object::parse(raw) else { return Usage::default() };
    let count = |name| object.raw(name).and_then(|raw| raw.parse::<u64>().ok());
    let [input, output, read, written] =
        ["input", "output", "cacheRead", "cacheWrite"].map(|name| count(name).unwrap_or(0));
    let sum = [input, output, read, written].into_iter().fold(0, u64::saturating_add);
    Usage {
        requests: u64::from(sum > 0),
        input_tokens: input,
        output_tokens: output,
        total_tokens: count("totalTokens").unwrap_or(sum),
        cache_read_tokens: read,
        cache_write_tokens: written,
        duration_ms: 0,
    }
}
