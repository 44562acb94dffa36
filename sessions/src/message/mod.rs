//! Messages: what a person, a model and its tools said.
//!
//! A message is its bytes and a view of them. Read from an entry and written again unchanged it has the same bytes,
//! with every field, block and role that nobody here understands.
//!
//! The stored form is a JSON object with `role` and `content`, an array of blocks; `docs/export-format.md` lists them.

mod block;
mod entry;
pub(crate) mod json;

use std::fmt;

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::Role;
use turnkeep_core::model::role;
use turnkeep_core::payload::Payload;

pub use block::{Block, Content, Media, Thinking, ToolCall, ToolResult};

use json::{Object, ObjectWriter};

/// A message: its bytes, and what they mean.
#[derive(Clone)]
pub struct Message {
    payload: Payload,
    role: Role,
    blocks: Vec<Block>,
    /// Why the model stopped, as far as it is recorded.
    stop_reason: Option<String>,
    /// Whether the payload went through the checks of [`Payload::new`].
    checked: bool,
}

impl Message {
    /// A message of blocks. Its size is checked when it becomes an entry.
    #[must_use]
    pub fn new(role: Role, blocks: Vec<Block>) -> Self {
        let mut out = ObjectWriter::new();
        out.string("role", role.as_str()).list("content", blocks.iter().map(Block::json));
        let payload = Payload::from_stored(out.finish());
        Self { payload, role, blocks, stop_reason: None, checked: false }
    }

    /// Instructions.
    #[must_use]
    pub fn system(text: impl Into<String>) -> Self {
        Self::new(known(role::SYSTEM), vec![Block::text(text)])
    }

    /// A person's words.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(known(role::USER), vec![Block::text(text)])
    }

    /// A model's words.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(known(role::ASSISTANT), vec![Block::text(text)])
    }

    /// A model's words, left out when empty, and the tools it asks for.
    #[must_use]
    pub fn assistant_with_calls(text: impl Into<String>, calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let text = text.into();
        let words = (!text.is_empty()).then(|| Block::text(text));
        let blocks = words.into_iter().chain(calls.into_iter().map(Block::tool_call)).collect();
        Self::new(known(role::ASSISTANT), blocks)
    }

    /// The answer of one tool, in words.
    #[must_use]
    pub fn tool_result(call_id: impl Into<String>, text: impl Into<String>, is_error: bool) -> Self {
        Self::tool_results([ToolResult::new(call_id, text, is_error)])
    }

    /// Answers of tools.
    #[must_use]
    pub fn tool_results(results: impl IntoIterator<Item = ToolResult>) -> Self {
        Self::new(known(role::TOOL), results.into_iter().map(Block::tool_result).collect())
    }

    /// Reads a stored message and keeps its bytes.
    ///
    /// `content` may also be a plain string. Blocks, fields and roles that are not known are kept.
    ///
    /// # Errors
    /// `Invalid` when it is no object with a `role`.
    pub fn parse(payload: Payload) -> Result<Self> {
        Self::read(payload, None)
    }

    /// Reads a message of a host, which is a person's if it names no role.
    pub(crate) fn of_host(payload: Payload) -> Result<Self> {
        Self::read(payload, Some(known(role::USER)))
    }

    /// Reads a message whose role may stand outside of it.
    fn read(payload: Payload, fallback: Option<Role>) -> Result<Self> {
        let (role, blocks, stop_reason) = {
            let Some(object) = Object::parse(payload.as_str()) else {
                return Err(Error::new(ErrorKind::Invalid, "the message is not a JSON object"));
            };
            let role = match object.string("role") {
                Some(role) => Role::new(role)?,
                None => fallback.ok_or_else(|| {
                    Error::new(ErrorKind::Invalid, "the message has no `role`; give it one, such as `user`")
                })?,
            };
            let blocks =
                object.raw("content").map(|raw| block::read_content(&payload, raw)).unwrap_or_default();
            (role, blocks, object.string("stop_reason"))
        };
        Ok(Self { payload, role, blocks, stop_reason, checked: true })
    }

    /// Adds or replaces a field beside role and content, such as `model`, `usage` or `stop_reason`.
    ///
    /// # Errors
    /// `Invalid` for `role` and `content`, which have their own ways in.
    pub fn with_field(self, name: &str, value: &Payload) -> Result<Self> {
        if matches!(name, "role" | "content") {
            return Err(Error::new(ErrorKind::Invalid, "role and content of a message are not plain fields"));
        }
        let mut out = ObjectWriter::new();
        if let Some(object) = Object::parse(self.payload.as_str()) {
            for (field, raw) in object.iter().filter(|(field, _)| *field != name) {
                out.raw(field, raw);
            }
        }
        out.raw(name, value.as_str());
        let stop_reason =
            if name == "stop_reason" { json::string(value.as_str()) } else { self.stop_reason.clone() };
        let payload = Payload::from_stored(out.finish());
        Ok(Self { payload, role: self.role, blocks: self.blocks, stop_reason, checked: false })
    }

    /// The same message with other blocks; its other fields stay as they are.
    #[must_use]
    pub fn with_blocks(&self, blocks: Vec<Block>) -> Self {
        let mut out = ObjectWriter::new();
        let mut placed = false;
        if let Some(object) = Object::parse(self.payload.as_str()) {
            for (field, raw) in object.iter() {
                if field != "content" {
                    out.raw(field, raw);
                } else if !placed {
                    out.list("content", blocks.iter().map(Block::json));
                    placed = true;
                }
            }
        }
        if !placed {
            out.list("content", blocks.iter().map(Block::json));
        }
        let payload = Payload::from_stored(out.finish());
        Self {
            payload,
            role: self.role.clone(),
            blocks,
            stop_reason: self.stop_reason.clone(),
            checked: false,
        }
    }

    /// Who speaks.
    #[must_use]
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// Whether this role speaks, such as [`role::USER`].
    #[must_use]
    pub fn is_from(&self, role: &str) -> bool {
        self.role.as_str() == role
    }

    /// What it consists of.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Its bytes.
    #[must_use]
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// A field beside role and content, as raw JSON.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        Object::parse(self.payload.as_str())?.raw(name)
    }

    /// Why the model stopped, as far as it is recorded: `stop`, `tool_use`, `aborted`, `error`, …
    #[must_use]
    pub fn stop_reason(&self) -> Option<&str> {
        self.stop_reason.as_deref()
    }

    /// Whether the model was cut off: its stop reason is `aborted` or `error`.
    #[must_use]
    pub fn was_cut_off(&self) -> bool {
        matches!(self.stop_reason(), Some("aborted" | "error"))
    }

    /// The tools that are asked for, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(Block::as_tool_call)
    }

    /// The answers of tools, in order.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.blocks.iter().filter_map(Block::as_tool_result)
    }

    /// Whether it tells a model anything. A message of blank texts, or of nothing but thoughts, does not.
    #[must_use]
    pub fn has_substance(&self) -> bool {
        self.blocks.iter().any(Block::has_substance)
    }

    /// Its words, those of tool results too, for search, previews and display. NUL characters become U+FFFD, since
    /// not every store can hold them in a text column; the payload keeps them.
    #[must_use]
    pub fn text(&self) -> String {
        let mut texts = Vec::new();
        for block in &self.blocks {
            match block.content() {
                Content::Text(text) => texts.push(text.as_str()),
                Content::ToolResult(result) => texts.extend(result.content.iter().filter_map(Block::as_text)),
                _ => {}
            }
        }
        let text = block::join(texts.into_iter());
        if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
    }
}

/// A role that this crate writes.
fn known(role: &'static str) -> Role {
    Role::new(role).expect("the constants are valid roles")
}

impl PartialEq for Message {
    /// By their bytes.
    fn eq(&self, other: &Self) -> bool {
        self.payload == other.payload && self.role == other.role
    }
}

impl Eq for Message {}

impl fmt::Debug for Message {
    /// Role, kinds and sizes: messages hold people's words, and debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({}, {:?})", self.role, self.blocks)
    }
}
