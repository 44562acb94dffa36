//! The accepted request behind a run, kept as it was.

use serde::{Deserialize, Serialize};
use turnkeep_core::commit::{Expect, Op};
use turnkeep_core::error::Result;
use turnkeep_core::id::{IntentId, RecordKey, SessionRef};
use turnkeep_core::model::{Record, collection};
use turnkeep_core::{Payload, Timestamp, mutant};

use crate::redact::Redaction;
use crate::state::records;

/// An accepted request, as it was when it came in. It never changes; every attempt at it points here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Its id, unique in the workspace.
    pub id: IntentId,
    /// Where it came from.
    pub source: Option<String>,
    /// The model asked for.
    pub model: Option<String>,
    /// The mode.
    pub mode: Option<String>,
    /// The working directory.
    pub work_dir: Option<String>,
    /// What tells it from other requests, as the host computes it.
    pub fingerprint: Option<String>,
    /// The request itself, byte for byte.
    pub request: Option<Payload>,
    /// The policy under which it was accepted, byte for byte.
    pub policy: Option<Payload>,
    /// When it was accepted.
    pub created_at: Timestamp,
}

/// The stored form. Request and policy are JSON inside of strings, so that their bytes are kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Accepted {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) work_dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fingerprint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<Payload>,
}

impl Accepted {
    pub(crate) fn redact(&mut self, redaction: &Redaction) -> Result<()> {
        let Self { source, model, mode, work_dir, fingerprint, request, policy } = self;
        [source, model, mode, work_dir, fingerprint].into_iter().for_each(|text| redaction.maybe_text(text));
        [request, policy].into_iter().try_for_each(|payload| redaction.maybe_payload(payload))
    }

    /// The op that keeps it. Never overwrites.
    pub(crate) fn put(&self, id: &IntentId, session: &SessionRef) -> Result<Op> {
        let key = RecordKey::new(id.as_str())?;
        let kept = if mutant::is("intents/request-not-kept") { &Self::default() } else { self };
        records::put(collection::INTENTS, key, Some(session), None, Expect::Absent, kept)
    }
}

impl Intent {
    pub(crate) fn from_record(record: &Record) -> Result<Self> {
        let accepted: Accepted = record.payload.parse()?;
        let Accepted { source, model, mode, work_dir, fingerprint, request, policy } = accepted;
        Ok(Self {
            id: IntentId::new(record.key.as_str())?,
            source,
            model,
            mode,
            work_dir,
            fingerprint,
            request,
            policy,
            created_at: record.created_at,
        })
    }
}
