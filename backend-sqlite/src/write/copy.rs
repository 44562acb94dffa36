//! A slice of a fork: copied inside the engine, so that no row travels through the program.

use rusqlite::{Connection, params};
use turnkeep_core::Result;

use crate::columns::row_key;
use crate::error::sql;
use crate::schema::active_states;
use crate::statement::Prepare as _;

/// Copies the entries `after+1 ..= through` with their numbers, the segments that begin among them, and the runs
/// they name that the child does not have yet. A run that is active arrives interrupted.
pub(super) fn slice(conn: &Connection, from: i64, to: i64, after: u32, through: u32) -> Result<()> {
    const ENTRIES: &str = "INSERT INTO entries (rid, parent, on_path, kind, role, run, turn, key, visibility, at,
         refs, text, payload)
         SELECT (?3 << 32) | (rid & 4294967295), parent, on_path, kind, role, run, turn, key, visibility, at, refs,
         text, payload FROM entries WHERE rid > ?1 AND rid <= ?2 ORDER BY rid";
    const SEGMENTS: &str = "INSERT INTO segments (skey, first, parent, parent_segment)
         SELECT ?2, first, parent, parent_segment FROM segments WHERE skey = ?1 AND first > ?3 AND first <= ?4";
    const RUNS: &str = concat!(
        "INSERT INTO runs (rkey, id, state, intent, attempt, retry_of, source, model, mode, work_dir, created_at,
         updated_at, finished_at, requests, input_tokens, output_tokens, total_tokens, cache_read_tokens,
         cache_write_tokens, duration_ms, error, progress, context_usage)
         SELECT (?3 << 32) | (r.rkey & 4294967295), r.id,
         CASE WHEN r.",
        active_states!(),
        " THEN 'interrupted' ELSE r.state END, r.intent, r.attempt, r.retry_of, r.source, r.model, r.mode,
         r.work_dir, r.created_at, r.updated_at,
         CASE WHEN r.",
        active_states!(),
        " THEN r.updated_at ELSE r.finished_at END, r.requests, r.input_tokens, r.output_tokens, r.total_tokens,
         r.cache_read_tokens, r.cache_write_tokens, r.duration_ms, r.error, r.progress, r.context_usage
         FROM (SELECT DISTINCT run FROM entries WHERE rid > ?1 AND rid <= ?2) named
         CROSS JOIN runs r ON r.id = named.run AND r.rkey >> 32 = ?4
         WHERE NOT EXISTS (SELECT 1 FROM runs c WHERE c.id = r.id AND c.rkey >> 32 = ?3)"
    );
    let (low, high) = (row_key(from, after), row_key(from, through));
    let run = |text: &str, values: &[&dyn rusqlite::ToSql]| {
        conn.prepared(text).and_then(|mut statement| statement.execute(values)).map_err(sql)
    };
    run(ENTRIES, params![low, high, to])?;
    run(SEGMENTS, params![from, to, after, through])?;
    run(RUNS, params![low, high, to, from])?;
    Ok(())
}
