//! The ways out, one file per query. Each is a function of the tables; the lock is the caller's.

mod entries;
mod events;
mod ledger;
mod rows;
mod runs;
mod search;
mod sessions;

use turnkeep_core::model::{Entry, Run, SessionRow};
use turnkeep_core::{Error, ErrorKind, Payload, SessionRef, WorkspaceId};

/// What a read of an unknown session answers, and of a life that is over.
pub(crate) fn no_session(workspace: &WorkspaceId, session: &SessionRef) -> Error {
    Error::new(ErrorKind::NotFound, "there is no such session, or this life of it is over")
        .with("workspace", workspace)
        .with("session", session)
}

fn payload_bytes(payload: Option<&Payload>) -> usize {
    payload.map_or(0, |payload| payload.as_str().len())
}

fn entry_bytes(entry: &Entry) -> usize {
    entry.payload.as_str().len() + entry.text.as_ref().map_or(0, String::len)
}

fn run_bytes(run: &Run) -> usize {
    [&run.error, &run.progress, &run.context_usage]
        .map(|payload| payload_bytes(payload.as_ref()))
        .iter()
        .sum()
}

fn session_bytes(row: &SessionRow) -> usize {
    payload_bytes(row.profile.meta.as_ref())
}
