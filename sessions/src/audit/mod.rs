//! The audit log: what happened to the runs of a session, for whoever looks for trouble; one file of JSON lines for each
//! session.
//!
//! It has the life of runs, the phases of their execution, stable error codes, redacted places in the code, and tokens
//! used. It never has keys, headers, raw answers of a provider or anyone's words: a line is made of what a commit does,
//! and not of what it carries. Ids and codes of a host that look like anything else than an id or a code are left out.
//!
//! The log is written beside the store and is no part of it. Whatever befalls it, no turn fails; [`Audit::trouble`]
//! tells. Several processes may write to one file: each line is one write at its end. A line that was cut off stays, and
//! the next one begins on a line of its own; readers name the torn one and go on.

mod event;
mod file;
mod reader;
mod store;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::error::Result;
use turnkeep_core::id::{OwnerId, RunId, SessionId};
use turnkeep_core::{Clock, Error};

pub use event::AuditEvent;
pub use reader::{AuditLine, AuditLines};
pub(crate) use store::AuditingStore;

use crate::run::RunError;

/// The audit log of a workspace. Without a folder it writes nothing.
#[derive(Clone, Debug)]
pub struct Audit(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    /// Which handle of the store writes.
    by: String,
    trouble: Mutex<Option<AuditTrouble>>,
}

/// What went wrong with the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditTrouble {
    /// How many writes failed since the workspace was opened. The lines of each are lost.
    pub failed: u64,
    /// The file of the last one.
    pub path: PathBuf,
    /// Why, in the words of the operating system.
    pub reason: String,
}

impl Audit {
    pub(crate) fn new(folder: Option<PathBuf>, clock: &Arc<dyn Clock>, owner: OwnerId) -> Self {
        Self(folder.map(|folder| {
            let by = to_hex(owner.as_bytes().get(..4).unwrap_or_default());
            Arc::new(Inner { folder, clock: Arc::clone(clock), by, trouble: Mutex::new(None) })
        }))
    }

    /// The folder of the files, if the log is on.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.0.as_ref().map(|inner| &*inner.folder)
    }

    /// The file of a session that is written now, if the log is on. Older ones lie beside it; see
    /// [`lines`](Self::lines). It is named by a hash, so that no id becomes a path, and stays when the session is deleted.
    #[must_use]
    pub fn path(&self, session: &SessionId) -> Option<PathBuf> {
        self.folder().map(|folder| file::path(folder, session, None))
    }

    /// Every line about a session, the oldest first. Reads as it goes; a torn line is named and passed over. Nothing if
    /// the log is off or has nothing.
    ///
    /// # Errors
    /// `Io` when a file cannot be opened.
    pub fn lines(&self, session: &SessionId) -> Result<AuditLines> {
        match self.folder() {
            Some(folder) => AuditLines::open(file::all(folder, session)),
            None => AuditLines::open(Vec::new()),
        }
    }

    /// What went wrong with the log since the workspace was opened; `None` if nothing did.
    #[must_use]
    pub fn trouble(&self) -> Option<AuditTrouble> {
        let inner = self.0.as_ref()?;
        inner.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A phase of a run, in the host's words. A literal, so that it can hold nothing of a conversation.
    pub(crate) fn phase(&self, session: &SessionId, run: &RunId, phase: &'static str) {
        self.write(session, [AuditEvent::phase(Some(run), phase, None)]);
    }

    /// An error that a host reports, with the place where it was made.
    pub(crate) fn error(&self, session: &SessionId, run: &RunId, error: &RunError) {
        self.write(session, [AuditEvent::error(run, error)]);
    }

    /// A commit that was refused.
    fn refused(&self, session: &SessionId, run: Option<&RunId>, error: &Error) {
        self.write(session, [AuditEvent::refused(run, error)]);
    }

    /// Writes lines, at once; whatever goes wrong is noted.
    fn write(&self, session: &SessionId, events: impl IntoIterator<Item = AuditEvent>) {
        let Some(inner) = &self.0 else { return };
        let at = inner.clock.now();
        let mut lines = String::new();
        for event in events {
            if let Ok(line) = serde_json::to_string(&event.stamped(at, &inner.by)) {
                lines.push_str(&line);
                lines.push('\n');
            }
        }
        if lines.is_empty() {
            return;
        }
        if let Err(error) = file::append(&inner.folder, session, lines) {
            let mut trouble = inner.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            let failed = trouble.as_ref().map_or(0, |trouble| trouble.failed).saturating_add(1);
            let path = file::path(&inner.folder, session, None);
            *trouble = Some(AuditTrouble { failed, path, reason: error.to_string() });
        }
    }
}

/// The name of a session's files.
fn stem(session: &SessionId) -> String {
    let digest = FieldDigest::new("session-log/1").text(session.as_str()).finish();
    to_hex(digest.get(..16).unwrap_or_default())
}
