//! Runs.

use turnkeep_core::Result;
use turnkeep_core::id::SessionRef;
use turnkeep_core::model::{Run, RunState};

use crate::columns::{Fields, number_of};

/// The columns of a run `r`, as [`run`] reads them.
pub(crate) const RUN_COLUMNS: &str = "r.rkey, r.id, r.state, r.intent, r.attempt, r.retry_of, r.source, \
     r.model, r.mode, r.work_dir, r.created_at, r.updated_at, r.finished_at, r.requests, r.input_tokens, \
     r.output_tokens, r.total_tokens, r.cache_read_tokens, r.cache_write_tokens, r.duration_ms, r.error, \
     r.progress, r.context_usage";

/// Reads a run of a session.
pub(crate) fn run(session: &SessionRef, fields: &mut Fields<'_>) -> Result<Run> {
    let number = number_of(fields.int()?);
    Ok(Run {
        session: session.clone(),
        number,
        id: fields.id()?,
        state: fields.named(RunState::from_name)?,
        intent: fields.maybe_id()?,
        attempt: fields.u32()?,
        retry_of: fields.maybe_id()?,
        source: fields.maybe_string()?,
        model: fields.maybe_string()?,
        mode: fields.maybe_string()?,
        work_dir: fields.maybe_string()?,
        created_at: fields.time()?,
        updated_at: fields.time()?,
        finished_at: fields.maybe_time()?,
        usage: fields.usage()?,
        error: fields.maybe_payload()?,
        progress: fields.maybe_payload()?,
        context_usage: fields.maybe_payload()?,
    })
}
