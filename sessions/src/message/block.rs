//! Content blocks: what a message consists of.

use std::fmt;
use std::ops::Range;

use turnkeep_core::Payload;

use super::json::{self, Object, ObjectWriter};

/// One part of a message: its bytes as they are stored, and what they mean.
///
/// A block that nobody understands is a block like any other: it is kept, handed on and written again unchanged.
#[derive(Clone)]
pub struct Block {
    source: Payload,
    range: Range<usize>,
    content: Content,
}

/// What a block means.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Words.
    Text(String),
    /// What a model thought before it answered.
    Thinking(Thinking),
    /// A picture, a document, a recording: named, not held.
    Media(Media),
    /// A model asks for a tool.
    ToolCall(ToolCall),
    /// What the tool answered.
    ToolResult(ToolResult),
    /// Anything else, with its type if it names one.
    Other(Option<String>),
}

/// What a model thought. The signature belongs to the provider and goes back to it untouched.
#[derive(Clone, PartialEq, Eq)]
pub struct Thinking {
    /// The words; empty when the provider hides them.
    pub text: String,
    /// The provider's proof that the words are its own.
    pub signature: Option<String>,
}

/// A reference to something that is not text.
#[derive(Clone, PartialEq, Eq)]
pub struct Media {
    /// Where it is, as the host names it.
    pub uri: String,
    /// Its media type, such as `image/png`.
    pub media_type: Option<String>,
    /// Its name for people.
    pub name: Option<String>,
}

/// A model asks for a tool.
#[derive(Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id, which the result repeats.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, byte for byte as the model wrote them.
    pub arguments: Payload,
}

impl ToolCall {
    /// A call of a tool.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Payload) -> Self {
        Self { id: id.into(), name: name.into(), arguments }
    }
}

/// What a tool answered.
#[derive(Clone, PartialEq)]
pub struct ToolResult {
    /// The id of the call.
    pub call_id: String,
    /// The tool, where it is known.
    pub name: Option<String>,
    /// The answer.
    pub content: Vec<Block>,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl ToolResult {
    /// An answer in words.
    #[must_use]
    pub fn new(call_id: impl Into<String>, text: impl Into<String>, is_error: bool) -> Self {
        Self { call_id: call_id.into(), name: None, content: vec![Block::text(text)], is_error }
    }

    /// What a model is told about a call that never got an answer.
    #[must_use]
    pub fn interrupted(call: &ToolCall) -> Self {
        let text = "interrupted: this tool call ended without a result; it may or may not have had effects";
        Self {
            call_id: call.id.clone(),
            name: Some(call.name.clone()),
            content: vec![Block::text(text)],
            is_error: true,
        }
    }

    /// The words of the answer, block after block.
    #[must_use]
    pub fn text(&self) -> String {
        join(self.content.iter().filter_map(Block::as_text))
    }
}

impl Block {
    /// Words.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        let mut out = ObjectWriter::new();
        out.string("type", "text").string("text", &text);
        Self::built(out, Content::Text(text))
    }

    /// What a model thought.
    #[must_use]
    pub fn thinking(text: impl Into<String>, signature: Option<String>) -> Self {
        let thinking = Thinking { text: text.into(), signature };
        let mut out = ObjectWriter::new();
        out.string("type", "thinking").string("thinking", &thinking.text);
        if let Some(signature) = &thinking.signature {
            out.string("signature", signature);
        }
        Self::built(out, Content::Thinking(thinking))
    }

    /// A reference to something that is not text.
    #[must_use]
    pub fn media(media: Media) -> Self {
        let mut out = ObjectWriter::new();
        out.string("type", "media").string("uri", &media.uri);
        if let Some(media_type) = &media.media_type {
            out.string("media_type", media_type);
        }
        if let Some(name) = &media.name {
            out.string("name", name);
        }
        Self::built(out, Content::Media(media))
    }

    /// A call of a tool.
    #[must_use]
    pub fn tool_call(call: ToolCall) -> Self {
        let mut out = ObjectWriter::new();
        out.string("type", "tool_call").string("id", &call.id).string("name", &call.name);
        out.raw("arguments", call.arguments.as_str());
        Self::built(out, Content::ToolCall(call))
    }

    /// The answer of a tool.
    #[must_use]
    pub fn tool_result(result: ToolResult) -> Self {
        let mut out = ObjectWriter::new();
        out.string("type", "tool_result").string("call_id", &result.call_id);
        if let Some(name) = &result.name {
            out.string("name", name);
        }
        out.list("content", result.content.iter().map(Block::json));
        out.raw("is_error", if result.is_error { "true" } else { "false" });
        Self::built(out, Content::ToolResult(result))
    }

    /// A block of any shape: read if its type is known, kept in any case.
    #[must_use]
    pub fn raw(json: Payload) -> Self {
        let range = 0..json.as_str().len();
        let content = read(&json, json.as_str());
        Self { source: json, range, content }
    }

    fn built(out: ObjectWriter, content: Content) -> Self {
        let source = Payload::from_stored(out.finish());
        let range = 0..source.as_str().len();
        Self { source, range, content }
    }

    /// Reads a block that is a piece of `source`.
    pub(super) fn within(source: &Payload, piece: &str) -> Self {
        // The piece is borrowed from the source, so the distance of their beginnings is its place in it.
        let start = (piece.as_ptr() as usize).saturating_sub(source.as_str().as_ptr() as usize);
        let content = read(source, piece);
        Self { source: source.clone(), range: start..start + piece.len(), content }
    }

    /// What it means.
    #[must_use]
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Its bytes.
    #[must_use]
    pub fn json(&self) -> &str {
        self.source.as_str().get(self.range.clone()).unwrap_or_default()
    }

    /// The words, if it is a text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The call, if it is one.
    #[must_use]
    pub fn as_tool_call(&self) -> Option<&ToolCall> {
        match &self.content {
            Content::ToolCall(call) => Some(call),
            _ => None,
        }
    }

    /// The answer of a tool, if it is one.
    #[must_use]
    pub fn as_tool_result(&self) -> Option<&ToolResult> {
        match &self.content {
            Content::ToolResult(result) => Some(result),
            _ => None,
        }
    }

    /// Whether it tells a model anything: a blank text and a thought without an answer do not.
    #[must_use]
    pub fn has_substance(&self) -> bool {
        match &self.content {
            Content::Text(text) => !text.trim().is_empty(),
            Content::Thinking(_) => false,
            _ => true,
        }
    }
}

/// Reads a block. What does not have the shape of its type is `Other`: kept, not understood.
fn read(source: &Payload, piece: &str) -> Content {
    let Some(object) = Object::parse(piece) else { return Content::Other(None) };
    let Some(kind) = object.string("type") else { return Content::Other(None) };
    let content = match kind.as_str() {
        "text" => object.string("text").map(Content::Text),
        "thinking" => object
            .string("thinking")
            .map(|text| Content::Thinking(Thinking { text, signature: object.string("signature") })),
        "media" => object.string("uri").map(|uri| {
            Content::Media(Media {
                uri,
                media_type: object.string("media_type"),
                name: object.string("name"),
            })
        }),
        "tool_call" => read_call(&object).map(Content::ToolCall),
        "tool_result" => object.string("call_id").map(|call_id| {
            Content::ToolResult(ToolResult {
                call_id,
                name: object.string("name"),
                content: object.raw("content").map(|raw| read_content(source, raw)).unwrap_or_default(),
                is_error: object.flag("is_error").unwrap_or(false),
            })
        }),
        _ => None,
    };
    content.unwrap_or(Content::Other(Some(kind)))
}

fn read_call(object: &Object<'_>) -> Option<ToolCall> {
    Some(ToolCall {
        id: object.string("id")?,
        name: object.string("name")?,
        arguments: object
            .raw("arguments")
            .map_or_else(Payload::empty, |arguments| Payload::from_stored(arguments.to_owned())),
    })
}

/// The blocks of a `content` field: an array of blocks, or a plain string that stands for one text.
pub(super) fn read_content(source: &Payload, raw: &str) -> Vec<Block> {
    if let Some(items) = json::array(raw) {
        return items.into_iter().map(|item| Block::within(source, item)).collect();
    }
    match json::string(raw) {
        Some(text) => vec![Block::text(text)],
        None if raw == "null" => Vec::new(),
        None => vec![Block::within(source, raw)],
    }
}

/// Texts as one, a line break between them.
pub(super) fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for text in texts.filter(|text| !text.is_empty()) {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(text);
    }
    out
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.content.fmt(f)
    }
}

// Debug output ends up in logs, and blocks hold people's words: it shows kinds, ids and sizes only.

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Thinking(thinking) => thinking.fmt(f),
            Self::Media(media) => media.fmt(f),
            Self::ToolCall(call) => call.fmt(f),
            Self::ToolResult(result) => result.fmt(f),
            Self::Other(kind) => write!(f, "Other({kind:?})"),
        }
    }
}

impl fmt::Debug for Thinking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Thinking({} bytes)", self.text.len())
    }
}

impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Media({:?})", self.media_type)
    }
}

impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolCall({:?}, {:?}, {:?})", self.id, self.name, self.arguments)
    }
}

impl fmt::Debug for ToolResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolResult({:?}, {:?}, is_error: {})", self.call_id, self.content, self.is_error)
    }
}
