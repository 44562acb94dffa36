//! What an import kept and what it dropped.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Serialize;
use turnkeep_core::id::SessionRef;
use turnkeep_core::model::{Entry, entry_kind, role};

use crate::message::Message;

/// The most dropped lines that are named. A file with more is no session file.
pub(super) const MOST_DROPPED: usize = 10_000;
/// The most messages with unanswered calls that are named; all are counted.
const MOST_NAMED: usize = 1_000;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// What [`export`](super::export()) writes.
    Turnkeep,
    /// A session of the pi coding agent, versions 1 to 3.
    Pi,
}

impl Format {
    /// A short name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turnkeep => "turnkeep",
            Self::Pi => "pi",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a line was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DropReason {
    /// The file ends in the middle of it.
    CutOff,
    /// It is no UTF-8.
    NotUtf8,
    /// It is longer than any row can be.
    TooLong,
    /// It is no JSON.
    NotJson,
    /// It escapes a lone surrogate, which has no UTF-8 form.
    LoneSurrogate,
    /// It is nested too deep.
    TooDeep,
    /// Its content is over the limit of the store.
    TooLarge,
    /// It is JSON, but nothing that belongs in such a file.
    NotARow,
    /// Its number was there already, or does not follow.
    OutOfOrder,
    /// It comes after the end.
    AfterEnd,
    /// Another session of the workspace has this record.
    RecordTaken,
}

impl DropReason {
    /// The reason in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CutOff => "the file ends in the middle of the line",
            Self::NotUtf8 => "the line is not UTF-8",
            Self::TooLong => "the line is longer than any row can be",
            Self::NotJson => "the line is not JSON",
            Self::LoneSurrogate => "the line escapes a lone surrogate",
            Self::TooDeep => "the line is nested too deep",
            Self::TooLarge => "the content is over the limit of the store",
            Self::NotARow => "the line is nothing that belongs in such a file",
            Self::OutOfOrder => "the number of the row was there already or does not follow",
            Self::AfterEnd => "the line comes after the footer",
            Self::RecordTaken => "another session of the workspace has this record",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A line that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// The line, from 1.
    pub line: u64,
    /// Why.
    pub reason: DropReason,
}

/// What a file should have and has no line for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The line before which it should be.
    pub before_line: u64,
    /// What: `entry 5`, `stream usage, events 3-4`.
    pub what: String,
}

/// Whether a file proves that nothing of it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wholeness {
    /// Its footer agrees with its lines.
    Proven,
    /// The format has no footer, so nobody can tell.
    Unproven,
    /// Lines are missing, damaged or changed: there is no footer, or it disagrees.
    Damaged,
}

/// A message with tool calls that nobody answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UnansweredIn {
    /// The line.
    pub line: u64,
    /// How many of its calls.
    pub calls: u64,
    /// Whether the message was cut off, by an error or by a person.
    pub cut_off: bool,
}

/// What an import kept and what it dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// The format of the file.
    pub format: Format,
    /// The session that holds it.
    pub session: SessionRef,
    /// Headers.
    pub headers: u64,
    /// Entries kept, headers not counted.
    pub entries: u64,
    /// The same by kind.
    pub kept: BTreeMap<String, u64>,
    /// Messages among them, by role.
    pub messages: BTreeMap<String, u64>,
    /// Rows beside entries: runs, streams, events, records.
    pub other_rows: u64,
    /// Tool calls in assistant messages.
    pub tool_calls: u64,
    /// Tool results.
    pub tool_results: u64,
    /// Tool calls without a result.
    pub unanswered_calls: u64,
    /// The messages with such calls; the first thousand.
    pub unanswered_in: Vec<UnansweredIn>,
    /// Assistant messages without any content.
    pub empty_assistant_messages: u64,
    /// Every line that was dropped.
    pub dropped: Vec<Dropped>,
    /// What there is no line for though later ones follow on it.
    pub missing: Vec<Missing>,
    /// Entries and events written in place of dropped and missing ones, so that all others keep their numbers.
    pub stand_ins: u64,
    /// Whether the file proves that nothing is missing.
    pub wholeness: Wholeness,
    /// Entries added by this import, headers not counted. A second import of the same file adds none.
    pub added: u64,
    /// Entries that an earlier import had added.
    pub already_there: u64,
}

/// Counts while a file is read.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) headers: u64,
    pub(super) entries: u64,
    pub(super) kept: BTreeMap<String, u64>,
    pub(super) messages: BTreeMap<String, u64>,
    pub(super) other_rows: u64,
    tool_calls: u64,
    tool_results: u64,
    empty_assistant_messages: u64,
    /// Calls that wait for their result: the line of the message, and whether it was cut off.
    open: HashMap<String, (u64, bool)>,
    unanswered_calls: u64,
    unanswered_in: BTreeMap<u64, UnansweredIn>,
    pub(super) stand_ins: u64,
    pub(super) missing: Vec<Missing>,
}

impl Tally {
    pub(super) fn entry(&mut self, line: u64, entry: &Entry) {
        if entry.kind.as_str() == entry_kind::SESSION {
            self.headers += 1;
            return;
        }
        self.entries += 1;
        *self.kept.entry(entry.kind.as_str().to_owned()).or_default() += 1;
        if entry.kind.as_str() != entry_kind::MESSAGE {
            return;
        }
        let Ok(message) = Message::from_entry(entry) else { return };
        *self.messages.entry(message.role().as_str().to_owned()).or_default() += 1;
        if message.is_from(role::ASSISTANT) && message.blocks().is_empty() {
            self.empty_assistant_messages += 1;
        }
        for result in message.results() {
            self.tool_results += 1;
            self.open.remove(&result.call_id);
        }
        for call in message.tool_calls() {
            self.tool_calls += 1;
            if let Some(earlier) = self.open.insert(call.id.clone(), (line, message.was_cut_off())) {
                self.unanswered(earlier);
            }
        }
    }

    fn unanswered(&mut self, (line, cut_off): (u64, bool)) {
        self.unanswered_calls += 1;
        if self.unanswered_in.len() < MOST_NAMED || self.unanswered_in.contains_key(&line) {
            let calls =
                &mut self.unanswered_in.entry(line).or_insert(UnansweredIn { line, calls: 0, cut_off });
            calls.calls += 1;
        }
    }

    /// The report, once everything was read.
    pub(super) fn report(
        mut self,
        format: Format,
        session: SessionRef,
        dropped: Vec<Dropped>,
        wholeness: Wholeness,
    ) -> ImportReport {
        for open in std::mem::take(&mut self.open).into_values() {
            self.unanswered(open);
        }
        ImportReport {
            format,
            session,
            headers: self.headers,
            entries: self.entries,
            kept: self.kept,
            messages: self.messages,
            other_rows: self.other_rows,
            tool_calls: self.tool_calls,
            tool_results: self.tool_results,
            unanswered_calls: self.unanswered_calls,
            unanswered_in: self.unanswered_in.into_values().collect(),
            empty_assistant_messages: self.empty_assistant_messages,
            dropped,
            missing: self.missing,
            stand_ins: self.stand_ins,
            wholeness,
            added: 0,
            already_there: 0,
        }
    }
}
