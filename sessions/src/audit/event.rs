//! What a line says: the one form for writing and reading.

use std::panic::Location;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use turnkeep_core::commit::{NewEntry, Op};
use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::id::{RunId, SessionId};
use turnkeep_core::model::{
    LeaseName, LeasePurpose, SessionState, Usage, Visibility, entry_kind, role, stream,
};
use turnkeep_core::{Error, Payload, Timestamp, mutant};

use crate::redact::{CommonSecrets, Redactor};
use crate::run::RunError;

/// The longest id that is written as it is.
const ID_BYTES: usize = 64;
/// The longest code.
const CODE_BYTES: usize = 48;

/// One thing that happened. Fields that a newer version adds are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AuditEvent {
    /// When, as RFC 3339 in UTC with milliseconds.
    pub at: String,
    /// What: `session.created`, `session.restoring`, `session.sealed`, `session.deleted`, `run.started`, `run.retried`,
    /// `run.reopened`, `run.` and the state it came to, `phase`, `usage`, `error` (reported by the host), `refused`
    /// (a commit that the store did not take), `recovery`.
    pub event: String,
    /// Which handle of the store wrote it: the same within one process from opening to closing.
    pub by: String,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The phase of the run: `input`, `streaming`, `model`, `tools`, `compaction`, or one of the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How many entries the phase stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// A stable code: of the host, such as `provider.timeout`, or of the store, such as `TK-LEASE-LOST`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Where in the host's code an error was made: the last two parts of the path and the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Tokens and requests that were added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether the store had done it before, and was asked again: the first answer may have been lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

impl AuditEvent {
    fn of(event: impl Into<String>, run: Option<&RunId>) -> Self {
        Self { event: event.into(), run: run.map(|run| id(run.as_str())), ..Self::default() }
    }

    pub(super) fn phase(run: Option<&RunId>, phase: &str, entries: Option<u64>) -> Self {
        Self { phase: Some(phase.to_owned()), entries, ..Self::of("phase", run) }
    }

    pub(super) fn error(run: &RunId, error: &RunError) -> Self {
        let place = error.place().map(place);
        Self { code: Some(code(&error.area, &error.code)), place, ..Self::of("error", Some(run)) }
    }

    pub(super) fn refused(run: Option<&RunId>, error: &Error) -> Self {
        Self { code: Some(error.code().to_owned()), ..Self::of("refused", run) }
    }

    pub(super) fn stamped(mut self, at: Timestamp, by: &str) -> Self {
        self.at = jiff::Timestamp::from_millisecond(at.as_millis())
            .map_or_else(|_| String::new(), |moment| format!("{moment:.3}"));
        by.clone_into(&mut self.by);
        self
    }
}

/// What the ops of a commit mean for the log, each with its session.
pub(super) fn of_ops(ops: &[Op]) -> Vec<(SessionId, AuditEvent)> {
    let mut events = Vec::new();
    ops.iter().for_each(|op| of_op(op, &mut events));
    events
}

fn of_op(op: &Op, events: &mut Vec<(SessionId, AuditEvent)>) {
    let (session, event) = match op {
        Op::WhenKey { then, .. } => return of_op(then, events),
        Op::CreateSession(new) => {
            let event = match new.state {
                SessionState::Active => "session.created",
                SessionState::Restoring => "session.restoring",
            };
            (&new.id, AuditEvent::of(event, None))
        }
        Op::SealSession { session, .. } => (&session.id, AuditEvent::of("session.sealed", None)),
        Op::DeleteSession { session, .. } => (&session.id, AuditEvent::of("session.deleted", None)),
        Op::StartRun { session, run } => {
            let event = if run.after.is_some() { "run.retried" } else { "run.started" };
            (&session.id, AuditEvent::of(event, Some(&run.id)))
        }
        Op::TransitionRun { session, run, to, error, .. } => {
            let mut event = AuditEvent::of(format!("run.{}", to.as_str()), Some(run));
            event.code = error.as_ref().and_then(stored_code);
            (&session.id, event)
        }
        Op::ReopenRun { session, run } => (&session.id, AuditEvent::of("run.reopened", Some(run))),
        Op::AddUsage { session, run, usage } => {
            let event = AuditEvent { usage: Some(*usage), ..AuditEvent::of("usage", run.as_ref()) };
            (&session.id, event)
        }
        Op::Append { session, entries } => {
            for (phase, run, count) in phases(entries) {
                events.push((session.id.clone(), AuditEvent::phase(run, phase, Some(count))));
            }
            return;
        }
        Op::AppendEvents { session, stream, expect_next: Some(1), events: pieces }
            if stream.as_str().starts_with(stream::PARTIAL_PREFIX) =>
        {
            let run = pieces.first().and_then(|piece| piece.run.as_ref());
            (&session.id, AuditEvent::phase(run, "streaming", None))
        }
        Op::AcquireLease(grant) if grant.purpose == LeasePurpose::Recovery => match &grant.name {
            LeaseName::Session(session) => (&session.id, AuditEvent::of("recovery", None)),
            LeaseName::Named(_) => return,
        },
        _ => return,
    };
    events.push((session.clone(), event));
}

/// The session and the run that a commit is about, for one that was refused.
pub(super) fn subject(ops: &[Op]) -> Option<(SessionId, Option<RunId>)> {
    ops.iter().find_map(|op| match op {
        Op::WhenKey { session, .. }
        | Op::PatchSession { session, .. }
        | Op::DeleteSession { session, .. }
        | Op::Append { session, .. }
        | Op::MoveLeaf { session, .. }
        | Op::SealSession { session, .. }
        | Op::Restore { session, .. }
        | Op::AppendEvents { session, .. } => Some((session.id.clone(), run_of(ops))),
        Op::CreateSession(new) => Some((new.id.clone(), None)),
        Op::StartRun { session, .. }
        | Op::TransitionRun { session, .. }
        | Op::ReopenRun { session, .. }
        | Op::PatchRun { session, .. }
        | Op::AddUsage { session, .. } => Some((session.id.clone(), run_of(ops))),
        Op::RenewLease { fence, .. } => match &fence.name {
            LeaseName::Session(session) => Some((session.id.clone(), None)),
            LeaseName::Named(_) => None,
        },
        _ => None,
    })
}

fn run_of(ops: &[Op]) -> Option<RunId> {
    ops.iter().find_map(|op| match op {
        Op::StartRun { run, .. } => Some(run.id.clone()),
        Op::TransitionRun { run, .. } | Op::ReopenRun { run, .. } | Op::PatchRun { run, .. } => {
            Some(run.clone())
        }
        Op::AddUsage { run, .. } => run.clone(),
        Op::Append { entries, .. } => entries.iter().find_map(|entry| entry.run.clone()),
        _ => None,
    })
}

/// What entries stand for, told by kind and role alone, with how many follow each other.
fn phases(entries: &[NewEntry]) -> Vec<(&'static str, Option<&RunId>, u64)> {
    let mut found: Vec<(&'static str, Option<&RunId>, u64)> = Vec::new();
    for entry in entries {
        let phase = match (entry.kind.as_str(), entry.role.as_ref().map(|role| role.as_str())) {
            _ if entry.visibility == Visibility::Partial => "unfinished",
            (entry_kind::COMPACTION, _) => "compaction",
            (entry_kind::MESSAGE, Some(role::USER)) => "input",
            (entry_kind::MESSAGE, Some(role::ASSISTANT)) => "model",
            (entry_kind::MESSAGE, Some(role::TOOL)) => "tools",
            _ => continue,
        };
        let run = entry.run.as_ref();
        match found.last_mut() {
            Some((last, of, count)) if *last == phase && *of == run => *count += 1,
            _ => found.push((phase, run, 1)),
        }
    }
    found
}

/// The code of a stored error, if it is one of ours.
fn stored_code(error: &Payload) -> Option<String> {
    let error: RunError = error.parse().ok()?;
    Some(code(&error.area, &error.code))
}

/// An error's area and code. What is no such word is named `other`: a host may have put a provider's answer there.
fn code(area: &str, code: &str) -> String {
    let word = |text: &str| {
        let fits = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.')
        };
        let is_word = !text.is_empty() && text.len() <= CODE_BYTES && text.bytes().all(fits);
        let is_safe = is_word && !looks_secret(text) || mutant::is("audit/codes-as-they-come");
        if is_safe { text.to_owned() } else { "other".to_owned() }
    };
    format!("{}.{}", word(area), word(code))
}

/// An id as it is, or a hash of one that looks like something else.
fn id(text: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/');
    if text.len() <= ID_BYTES && text.bytes().all(fits) && !looks_secret(text) {
        return text.to_owned();
    }
    let digest = FieldDigest::new("audit-id/1").text(text).finish();
    format!("#{}", to_hex(digest.get(..8).unwrap_or_default()))
}

/// Whether a word has the shape of a secret. Short words and UUIDs have none.
fn looks_secret(text: &str) -> bool {
    static COMMON: OnceLock<Option<CommonSecrets>> = OnceLock::new();
    if text.len() < 16 || uuid::Uuid::try_parse(text).is_ok() {
        return false;
    }
    match COMMON.get_or_init(|| CommonSecrets::new().ok()) {
        Some(common) => common.text(text).is_some_and(|hidden| hidden != text),
        None => true,
    }
}

/// A place in the code without the folders of whoever compiled it.
fn place(at: &Location<'_>) -> String {
    let mut parts: Vec<&str> = at.file().rsplit(['/', '\\']).take(2).collect();
    parts.reverse();
    format!("{}:{}", parts.join("/"), at.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_ids_that_look_like_something_else_are_not_written() {
        assert_eq!(code("provider", "rate_limited"), "provider.rate_limited");
        assert_eq!(code("provider", "401 Unauthorized"), "provider.other");
        assert_eq!(code("Provider said", &"x".repeat(49)), "other.other");
        assert_eq!(code("tool", "ghp_0123456789abcdefghijabcdefghij012345"), "tool.other");
        assert_eq!(id("run-7/a.b"), "run-7/a.b");
        assert_eq!(id("550e8400-e29b-41d4-a716-446655440000"), "550e8400-e29b-41d4-a716-446655440000");
        for odd in ["why does it fail?", "ghp_0123456789abcdefghijABCDEFGHIJ012345", &"x".repeat(65)] {
            assert!(id(odd).starts_with('#') && id(odd).len() == 17, "{odd}");
        }
        let here = Location::caller();
        assert_eq!(place(here), format!("audit/event.rs:{}", here.line()));
    }
}
