//! One line of pi as one entry of ours.

use turnkeep_core::error::Result;
use turnkeep_core::id::{EntryKind, Role};
use turnkeep_core::model::{Usage, entry_kind, role};
use turnkeep_core::payload::Payload;
use turnkeep_core::time::Timestamp;

use super::{Head, known_role};
use crate::message::json::{self, Object, ObjectWriter, push_string};
use crate::relation;

/// What a line came to.
pub(super) struct Converted {
    pub(super) kind: EntryKind,
    pub(super) role: Option<Role>,
    pub(super) at: Option<Timestamp>,
    pub(super) payload: Payload,
    pub(super) header: Option<Head>,
    /// What search finds, of a line that is no message.
    pub(super) text: Option<String>,
    /// Where a compaction says that the kept part begins, counted in lines.
    pub(super) first_kept: Option<u32>,
    /// Its name in the tree.
    pub(super) id: Option<String>,
    /// What it follows.
    pub(super) parent: Parent,
    /// What it refers to, by name.
    pub(super) refers: Option<(&'static str, String)>,
    /// The title it gives the session; an empty one takes it away.
    pub(super) title: Option<String>,
    pub(super) usage: Usage,
}

/// What a line follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parent {
    /// The line before it: there is no tree in version 1.
    Before,
    /// Nothing.
    Root,
    /// The line with this name.
    Named(String),
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
        text: None,
        first_kept: None,
        id: line.string("id"),
        parent: match line.raw("parentId") {
            None => Parent::Before,
            Some(raw) => json::string(raw).map_or(Parent::Root, Parent::Named),
        },
        refers: None,
        title: None,
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
            Some(message) if made_for_models(&message).is_some() => {
                converted.at = converted.at.or_else(|| millis(message.raw("timestamp")));
                // What its person kept from the model stays out of its sight.
                let hidden = message.flag("excludeFromContext") == Some(true);
                let kind = if hidden { entry_kind::CUSTOM } else { entry_kind::CUSTOM_MESSAGE };
                converted.kind = EntryKind::new(kind)?;
                converted.role = (!hidden).then(|| known_role(role::USER)).flatten();
                for_models(&message, line, stamp)
            }
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
            // The name of the session, and none in its tree.
            converted.id = None;
            text.to_owned()
        }
        entry_kind::THINKING_LEVEL_CHANGE => renamed(line, &[("thinkingLevel", "level")], stamp),
        entry_kind::MODEL_CHANGE => renamed(line, &[("modelId", "model")], stamp),
        entry_kind::COMPACTION => {
            converted.text = line.string("summary");
            converted.refers = line.string("firstKeptEntryId").map(|id| (relation::FIRST_KEPT, id));
            converted.first_kept = line.raw("firstKeptEntryIndex").and_then(|index| index.parse().ok());
            renamed(line, &[("tokensBefore", "tokens_before")], stamp)
        }
        entry_kind::BRANCH_SUMMARY => {
            converted.text = line.string("summary");
            converted.refers = line.string("fromId").map(|id| (relation::BRANCH_SOURCE, id));
            renamed(line, &[], stamp)
        }
        entry_kind::LABEL => {
            converted.text = line.string("label");
            converted.refers = line.string("targetId").map(|id| (relation::LABEL_TARGET, id));
            renamed(line, &[], stamp)
        }
        entry_kind::SESSION_INFO if line.string("name").is_some() => {
            converted.text = line.string("name");
            converted.title.clone_from(&converted.text);
            let payload = renamed(line, &[("name", "title")], stamp);
            format!("{},\"source\":\"manual\"}}", payload.strip_suffix('}').unwrap_or(&payload))
        }
        entry_kind::CUSTOM => renamed(line, &[], stamp),
        entry_kind::CUSTOM_MESSAGE => {
            converted.role = known_role(role::USER);
            custom_message(line, stamp)
        }
        _ => text.to_owned(),
    };
    converted.payload = Payload::new(json)?;
    Ok(converted)
}

/// The content of a message that pi shows to the model as a person's, although no person said it: what an extension put
/// in (`hookMessage` in version 2, `custom` in version 3), a command that a person ran, a summary.
fn made_for_models(message: &Object<'_>) -> Option<String> {
    let quoted = |text: &str| {
        let mut json = String::new();
        push_string(&mut json, text);
        json
    };
    match message.string("role")?.as_str() {
        "custom" | "hookMessage" => Some(content(message.raw("content")?)),
        "branchSummary" | "compactionSummary" => Some(quoted(&message.string("summary")?)),
        "bashExecution" => {
            let output = message.string("output").unwrap_or_default();
            Some(quoted(&format!("Ran `{}`:\n\n{output}", message.string("command")?)))
        }
        _ => None,
    }
}

/// Such a message as a person's; its own role comes under `pi`, with what the line says.
fn for_models(message: &Object<'_>, line: &Object<'_>, stamp: Option<&str>) -> String {
    let mut out = ObjectWriter::new();
    out.string("role", role::USER).raw("content", &made_for_models(message).unwrap_or_default());
    for (name, raw) in message.iter().filter(|(name, _)| !matches!(*name, "role" | "content")) {
        out.raw(name, raw);
    }
    let mut around = around(line, stamp);
    around.raw("role", message.raw("role").unwrap_or("null"));
    out.raw("pi", &around.finish());
    out.finish()
}

/// A line that is a message for the model by itself.
fn custom_message(line: &Object<'_>, stamp: Option<&str>) -> String {
    let mut out = ObjectWriter::new();
    for (name, raw) in line.iter().filter(|(name, _)| !matches!(*name, "type" | "timestamp")) {
        match name {
            "content" => out.raw(name, &content(raw)),
            _ => out.raw(name, raw),
        };
    }
    if let Some(stamp) = stamp {
        out.raw("timestamp", stamp);
    }
    out.finish()
}

/// A text or blocks.
fn content(raw: &str) -> String {
    match json::array(raw) {
        Some(blocks) => format!("[{}]", blocks.into_iter().map(block).collect::<Vec<_>>().join(",")),
        None => raw.to_owned(),
    }
}

/// What a line says beside its message, its type and its time.
fn around(line: &Object<'_>, stamp: Option<&str>) -> ObjectWriter {
    let mut around = ObjectWriter::new();
    for (name, raw) in line.iter().filter(|(name, _)| !matches!(*name, "type" | "timestamp" | "message")) {
        around.raw(name, raw);
    }
    if let Some(stamp) = stamp {
        around.raw("timestamp", stamp);
    }
    around
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
    let mut has_content = false;
    for (name, raw) in message.iter() {
        match name {
            "role" => match json::string(raw) {
                Some(role) => out.string("role", our_role(&role)),
                None => out.raw(name, raw),
            },
            "content" if is_result => {
                has_content = true;
                out.list("content", [result(message, Some(raw)).as_str()])
            }
            "content" => out.raw(name, &content(raw)),
            "toolCallId" | "toolName" | "isError" if is_result => continue,
            "stopReason" => match json::string(raw).as_deref() {
                Some("toolUse") => out.string("stop_reason", "tool_use"),
                _ => out.raw("stop_reason", raw),
            },
            _ => out.raw(name, raw),
        };
    }
    if is_result && !has_content {
        out.list("content", [result(message, None).as_str()]);
    }
    let around = around(line, stamp);
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
