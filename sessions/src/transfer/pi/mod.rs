//! Sessions of the pi coding agent, versions 1 to 3: a header and entries, one a line. In version 1 each follows the one
//! before it; since version 2 each names its parent, so that they are a tree, and the last one is its leaf.
//!
//! What has a meaning here gets our names; every other field is kept under its own. A line that is JSON is never
//! dropped, whatever its type.

mod convert;

use std::collections::HashMap;
use std::io::BufRead;

use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{EntryKind, EntryNo, Relation, Role, SessionId};
use turnkeep_core::limits::{COLUMN_BYTES, PAYLOAD_BYTES};
use turnkeep_core::model::{
    Entry, Profile, Reference, Row, SessionImage, Title, TitleSource, Usage, Visibility, entry_kind,
};
use turnkeep_core::payload::Payload;
use turnkeep_core::time::Timestamp;

use super::content::why_not_json;
use super::lines::Lines;
use super::report::{DropReason, Dropped, Wholeness};
use super::survey::{Item, read_failed};
use crate::message::Message;
use crate::message::json::Object;
use crate::relation;
use convert::{Converted, Parent};

/// A line is one payload and little else.
const LONGEST_LINE: usize = PAYLOAD_BYTES + 1024 * 1024;
/// The newest version of the format that is read.
const VERSION: u64 = 3;

/// Whether a line is one of a pi session.
///
/// # Errors
/// `Unsupported` if it is the header of a later version.
pub(super) fn is_line(text: &str) -> Result<bool> {
    let Some(object) = Object::parse(text) else { return Ok(false) };
    let Some(kind) = object.string("type") else { return Ok(false) };
    match kind.as_str() {
        "session" => {
            check_version(&object)?;
            Ok(object.string("id").is_some() && object.string("timestamp").is_some())
        }
        "message" => {
            let message = object.raw("message").and_then(Object::parse);
            Ok(message.is_some_and(|message| message.string("role").is_some()))
        }
        "thinking_level_change" => Ok(object.string("thinkingLevel").is_some()),
        "model_change" => Ok(object.string("modelId").is_some()),
        "compaction" => Ok(object.string("summary").is_some()),
        // Any line of a tree.
        _ => Ok(object.raw("parentId").is_some() && object.string("id").is_some()),
    }
}

fn check_version(header: &Object<'_>) -> Result<()> {
    let Some(version) = header.raw("version") else { return Ok(()) };
    if version.parse().is_ok_and(|version: u64| (1..=VERSION).contains(&version)) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, "only versions 1 to 3 of pi's session format can be imported")
        .with("known", VERSION))
}

/// Reads a pi session.
pub(super) struct PiReader<R> {
    lines: Lines<R>,
    header: Option<Head>,
    /// The number of the newest entry.
    head: u32,
    /// The newest entry that others can follow.
    leaf: Option<EntryNo>,
    /// The entry of the header, which the first entry of a tree follows.
    root: Option<EntryNo>,
    /// Which entry a name in the tree stands for; that of a label stands for what the label follows.
    named: HashMap<String, EntryNo>,
    title: Option<String>,
    at: Option<Timestamp>,
    first_at: Option<Timestamp>,
    last_at: Option<Timestamp>,
    usage: Usage,
}

struct Head {
    id: Option<SessionId>,
    created_at: Option<Timestamp>,
    cwd: Option<String>,
    parent: Option<SessionId>,
}

impl<R: BufRead> PiReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            lines: Lines::new(input, LONGEST_LINE),
            header: None,
            head: 0,
            leaf: None,
            root: None,
            named: HashMap::new(),
            title: None,
            at: None,
            first_at: None,
            last_at: None,
            usage: Usage::default(),
        }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.lines.bytes_read()
    }

    pub(super) fn file_digest(&self) -> [u8; 32] {
        self.lines.digest()
    }

    pub(super) fn session_id(&self) -> Option<SessionId> {
        self.header.as_ref().and_then(|header| header.id.clone())
    }

    pub(super) fn wholeness(&self, dropped: usize) -> Wholeness {
        if dropped == 0 { Wholeness::Unproven } else { Wholeness::Damaged }
    }

    /// What the file shows of the session. Complete only after the last line.
    pub(super) fn image(&self) -> SessionImage {
        let header = self.header.as_ref();
        let created_at = header.and_then(|header| header.created_at).or(self.first_at).unwrap_or_default();
        SessionImage {
            created_at,
            updated_at: self.last_at.map_or(created_at, |last| last.max(created_at)),
            activity: 0,
            leaf: self.leaf,
            usage: self.usage,
            profile: Profile {
                title: self.title.clone().map(|text| Title { text, source: TitleSource::Manual }),
                cwd: header.and_then(|header| header.cwd.clone()),
                parent: header.and_then(|header| header.parent.clone()),
                ..Profile::default()
            },
        }
    }

    /// The next entry or dropped line.
    pub(super) fn next_item(&mut self, payload_bytes: usize) -> Result<Option<Item>> {
        let Some(line) = self.lines.next_line().map_err(read_failed)? else { return Ok(None) };
        let number = line.number;
        let read = match line.text {
            Err(reason) => Err(reason),
            Ok(text) => read(text, line.ended)?,
        };
        let placed = read.and_then(|read| self.place(read, payload_bytes));
        Ok(Some(match placed {
            Ok(entry) => Item::Row { line: number, row: Row::Entry(entry) },
            Err(reason) => Item::Dropped(Dropped { line: number, reason }),
        }))
    }

    fn place(&mut self, read: Converted, payload_bytes: usize) -> Result<Entry, DropReason> {
        if read.payload.as_str().len() > payload_bytes {
            return Err(DropReason::TooLarge);
        }
        let number = self.head.checked_add(1).and_then(EntryNo::new).ok_or(DropReason::OutOfOrder)?;
        let at = read.at.or(self.at).unwrap_or_default();
        let parent = match &read.parent {
            Parent::Before => self.leaf,
            Parent::Root => self.root,
            // Of a line that was dropped nobody knows what it followed; the one before is most likely.
            Parent::Named(id) => self.named.get(id).copied().or(self.leaf),
        };
        let on_path = read.kind.as_str() != entry_kind::LABEL;
        let text = match read.kind.as_str() {
            entry_kind::MESSAGE => Message::parse(read.payload.clone()).map(|message| message.text()).ok(),
            entry_kind::CUSTOM_MESSAGE => {
                Message::of_host(read.payload.clone()).map(|message| message.text()).ok()
            }
            _ => read.text.map(|text| text.replace('\0', "\u{fffd}")),
        };
        // The index of a kept entry counts lines from 0, the header among them; lines that are no JSON count nowhere.
        let kept = read.first_kept.and_then(|index| EntryNo::new(index.checked_add(1)?));
        let refers = match read.refers {
            Some((relation, id)) => self.named.get(&id).map(|entry| (relation, *entry)),
            None => kept.map(|entry| (relation::FIRST_KEPT, entry)),
        };
        let refs = match refers.filter(|(_, entry)| *entry < number) {
            Some((relation, entry)) => Relation::new(relation)
                .map(|relation| vec![Reference { relation, entry }])
                .unwrap_or_default(),
            None => Vec::new(),
        };
        if on_path {
            self.leaf = Some(number);
        }
        if let Some(stands_for) = if on_path { Some(number) } else { parent }
            && let Some(id) = read.id
        {
            self.named.insert(id, stands_for);
        }
        // After a label the leaf is what the label follows, which may be elsewhere in the tree.
        if !on_path && parent.is_some() {
            self.leaf = parent;
        }
        if let Some(title) = read.title {
            self.title = Some(title)
                .filter(|title| !title.is_empty() && title.len() <= COLUMN_BYTES && !title.contains('\0'));
        }
        if read.header.is_some() && self.root.is_none() {
            self.root = Some(number);
        }
        if let Some(header) = read.header {
            self.header.get_or_insert(header);
        } else if let Some(at) = read.at {
            self.first_at.get_or_insert(at);
            self.last_at = self.last_at.max(Some(at));
        }
        self.usage = self.usage.plus(&read.usage);
        self.at = read.at.or(self.at);
        self.head = number.get();
        let visibility = match read.kind.as_str() {
            entry_kind::MESSAGE => Visibility::Conversation,
            _ => Visibility::Internal,
        };
        Ok(Entry {
            number,
            parent,
            on_path,
            kind: read.kind,
            role: read.role,
            run: None,
            turn: None,
            key: None,
            visibility,
            at,
            refs,
            text: text.filter(|text| !text.is_empty()),
            payload: read.payload,
        })
    }
}

fn read(text: &str, ended: bool) -> Result<Result<Converted, DropReason>> {
    // Checked as it is first, so that the reason speaks of the line and not of what it is made into.
    if Payload::new(text).is_err() {
        return Ok(Err(why_not_json(text, ended)));
    }
    let Some(object) = Object::parse(text) else { return Ok(Err(DropReason::NotARow)) };
    let Some(kind) = object.string("type").and_then(|kind| EntryKind::new(kind).ok()) else {
        return Ok(Err(DropReason::NotARow));
    };
    if kind.as_str() == entry_kind::SESSION {
        check_version(&object)?;
    }
    Ok(convert::line(kind, &object, text).map_err(|error| match error.kind() {
        ErrorKind::TooLarge if text.len() > PAYLOAD_BYTES / 2 => DropReason::TooLarge,
        ErrorKind::TooLarge => DropReason::TooDeep,
        _ => DropReason::NotARow,
    }))
}

impl Head {
    fn read(header: &Object<'_>) -> Self {
        Self {
            id: header.string("id").and_then(|id| SessionId::new(id).ok()),
            created_at: header.string("timestamp").and_then(|text| convert::moment(&text)),
            parent: header.string("parentSession").as_deref().and_then(session_of),
            cwd: header.string("cwd").filter(|cwd| cwd.len() <= COLUMN_BYTES && !cwd.contains('\0')),
        }
    }
}

/// The session that a file of pi holds, by its name: `<time>_<id>.jsonl`.
fn session_of(path: &str) -> Option<SessionId> {
    let name = path.rsplit(['/', '\\']).next()?.strip_suffix(".jsonl")?;
    SessionId::new(name.rsplit_once('_').map_or(name, |(_, id)| id)).ok()
}

fn known_role(role: &str) -> Option<Role> {
    Role::new(role).ok()
}
