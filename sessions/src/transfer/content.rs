//! What a session consists of, whatever store and id it has.

use turnkeep_core::digest::FieldDigest;
use turnkeep_core::error::ErrorKind;
use turnkeep_core::id::{Incarnation, SessionId, SessionRef};
use turnkeep_core::limits::PAYLOAD_BYTES;
use turnkeep_core::model::{Row, RunState, Version};
use turnkeep_core::payload::Payload;

use super::report::DropReason;

/// The row without what belongs to one store: incarnations and record versions are zero. A run and a record name the
/// session by `id` alone.
pub(super) fn portable(mut row: Row, id: &SessionId) -> Row {
    let session = || SessionRef { id: id.clone(), incarnation: Incarnation::from_bytes([0; 16]) };
    match &mut row {
        Row::Run(run) => run.session = session(),
        Row::Record(record) => {
            record.owner = record.owner.is_some().then(session);
            record.version = Version { birth: 0, count: 0 };
        }
        Row::Session(_) | Row::Entry(_) | Row::Stream(_) | Row::Event { .. } => {}
    }
    row
}

/// A rolling digest over the rows of a session, the same in every store that holds the same.
///
/// The image of the session is no part of it, so that a session that was renamed or pinned is still the same content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContentDigest {
    id: SessionId,
    digest: [u8; 32],
}

impl ContentDigest {
    /// The digest of nothing. `id` stands for the session's own id in what is digested.
    pub(super) fn new(id: SessionId) -> Self {
        Self { id, digest: [0; 32] }
    }

    pub(super) fn fold(&mut self, row: &Row) {
        if matches!(row, Row::Session(_)) {
            return;
        }
        let mut row = portable(row.clone(), &self.id);
        // An active run arrives interrupted, so it counts as that.
        if let Row::Run(run) = &mut row
            && !run.state.is_terminal()
        {
            run.state = RunState::Interrupted;
            run.finished_at = Some(run.updated_at);
        }
        let bytes = serde_json::to_vec(&row).unwrap_or_default();
        self.digest = FieldDigest::new("session-content/1").bytes(&self.digest).bytes(&bytes).finish();
    }

    pub(super) fn finish(&self) -> [u8; 32] {
        self.digest
    }
}

/// Why a line cannot be read as what it should be. `ended` says whether a line break ends it.
pub(super) fn why_not_json(text: &str, ended: bool) -> DropReason {
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return if ended { DropReason::NotJson } else { DropReason::CutOff };
    }
    match Payload::new(text) {
        Ok(_) => DropReason::NotARow,
        Err(error) if error.kind() != ErrorKind::TooLarge => DropReason::LoneSurrogate,
        Err(_) if text.len() > PAYLOAD_BYTES => DropReason::TooLarge,
        Err(_) => DropReason::TooDeep,
    }
}

/// Where in a row something is kept that is no JSON, though it was when it was written.
pub(super) fn unsound(row: &Row) -> Option<String> {
    let broken = |payload: &Payload| Payload::new(payload.as_str()).is_err();
    match row {
        Row::Session(image) => image.profile.meta.as_ref().is_some_and(broken).then(|| "meta".to_owned()),
        Row::Entry(entry) => broken(&entry.payload).then(|| format!("entry {}", entry.number)),
        Row::Run(run) => [&run.error, &run.progress, &run.context_usage]
            .into_iter()
            .flatten()
            .any(broken)
            .then(|| format!("run {}", run.id)),
        Row::Stream(_) => None,
        Row::Event { stream, event } => {
            broken(&event.payload).then(|| format!("stream {stream}, event {}", event.number))
        }
        Row::Record(record) => {
            broken(&record.payload).then(|| format!("record {} {}", record.collection, record.key))
        }
    }
}
