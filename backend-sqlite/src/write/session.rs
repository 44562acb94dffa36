//! Session rows: new, changed, deleted.

use rusqlite::params;
use turnkeep_core::model::{Profile, SessionRow};
use turnkeep_core::rules::SessionChange;
use turnkeep_core::{Result, SessionRef};

use crate::columns::{
    audience_name, fork_kind_name, int, maybe_number, session_state_name, title_source_name,
};
use crate::error::damaged;
use crate::write::apply::{Target, one_row};
use crate::write::cache::Cached;

pub(super) fn write(target: &mut Target<'_>, row: &SessionRow, change: SessionChange) -> Result<()> {
    *target.activity = row.activity.max(*target.activity);
    let skey = match change {
        SessionChange::New => {
            target.touch(row.activity)?;
            insert(target, row)?
        }
        SessionChange::All => {
            let session = row.session_ref();
            let skey = target.life(&session)?;
            let known = target.cache.session(target.conn, target.wkey, target.workspace, &row.id)?;
            let (before, meta) =
                known.map_or((0, None), |known| (known.row.activity, known.row.profile.meta.clone()));
            // A session that is sealed or restored may carry a lower activity number than before.
            target.touch(before)?;
            counters(target, skey, row)?;
            profile(target, skey, row)?;
            // A session that is sealed is searched from now on.
            target.touched.texts.push(skey);
            if meta != row.profile.meta {
                write_meta(target, skey, &row.profile)?;
            }
            skey
        }
        SessionChange::Counters => {
            let skey = target.life(&row.session_ref())?;
            counters(target, skey, row)?;
            skey
        }
    };
    target.cache.put(target.wkey, Cached { skey, row: row.clone() });
    Ok(())
}

fn insert(target: &Target<'_>, row: &SessionRow) -> Result<i64> {
    const INSERT: &str = "INSERT INTO sessions (wkey, id, incarnation, state, revision, activity, created_at,
         updated_at, runs, messages, requests, input_tokens, output_tokens, total_tokens, cache_read_tokens,
         cache_write_tokens, duration_ms, audience, pinned, archived)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'user', 0, 0)";
    let values = params![
        target.wkey,
        row.id.as_str(),
        row.incarnation.as_bytes(),
        session_state_name(row.state),
        int(row.revision)?,
        int(row.activity)?,
        row.created_at.as_millis(),
        row.updated_at.as_millis(),
    ];
    target.run_sql(INSERT, values)?;
    let skey = target.conn.last_insert_rowid();
    // A row key is the session key and 32 bits of number.
    if skey >= 1 << 31 {
        return Err(damaged("sessions", "skey"));
    }
    counters(target, skey, row)?;
    profile(target, skey, row)?;
    write_meta(target, skey, &row.profile)?;
    Ok(skey)
}

/// Everything that moves with appends and runs. The one update of a plain append.
fn counters(target: &Target<'_>, skey: i64, row: &SessionRow) -> Result<()> {
    const UPDATE: &str =
        "UPDATE sessions SET revision = ?2, activity = ?3, updated_at = ?4, head = ?5, leaf = ?6,
         leaf_segment = ?7, tip = ?8, tip_segment = ?9, active_run = ?10, runs = ?11, messages = ?12,
         preview = ?13, requests = ?14, input_tokens = ?15, output_tokens = ?16, total_tokens = ?17,
         cache_read_tokens = ?18, cache_write_tokens = ?19, duration_ms = ?20, restore_rows = ?21,
         restore_digest = ?22 WHERE skey = ?1";
    let (path, usage, restore) = (&row.path, &row.usage, row.restore.as_ref());
    let written = target.run_sql(
        UPDATE,
        params![
            skey,
            int(row.revision)?,
            int(row.activity)?,
            row.updated_at.as_millis(),
            maybe_number(row.head),
            maybe_number(path.leaf),
            maybe_number(path.leaf_segment),
            maybe_number(path.tip),
            maybe_number(path.tip_segment),
            row.active_run.as_ref().map(AsRef::<str>::as_ref),
            row.runs,
            row.messages,
            row.preview,
            int(usage.requests)?,
            int(usage.input_tokens)?,
            int(usage.output_tokens)?,
            int(usage.total_tokens)?,
            int(usage.cache_read_tokens)?,
            int(usage.cache_write_tokens)?,
            int(usage.duration_ms)?,
            restore.map(|restore| int(restore.rows)).transpose()?,
            restore.map(|restore| restore.digest),
        ],
    )?;
    one_row(written, "sessions")
}

fn profile(target: &Target<'_>, skey: i64, row: &SessionRow) -> Result<()> {
    const UPDATE: &str = "UPDATE sessions SET state = ?2, created_at = ?3, title = ?4, title_source = ?5,
         cwd = ?6, audience = ?7, parent = ?8, fork_kind = ?9, fork_boundary = ?10, fork_length = ?11,
         channel_kind = ?12, channel_id = ?13, project = ?14, pinned = ?15, archived = ?16 WHERE skey = ?1";
    let Profile { title, cwd, audience, parent, fork, channel, project, pinned, archived, meta: _ } =
        &row.profile;
    let written = target.run_sql(
        UPDATE,
        params![
            skey,
            session_state_name(row.state),
            row.created_at.as_millis(),
            title.as_ref().map(|title| title.text.as_str()),
            title.as_ref().map(|title| title_source_name(title.source)),
            cwd,
            audience_name(*audience),
            parent.as_ref().map(AsRef::<str>::as_ref),
            fork.as_ref().map(|fork| fork_kind_name(fork.kind)),
            fork.as_ref().map(|fork| fork.boundary.get()),
            fork.as_ref().map(|fork| fork.seed_length),
            channel.as_ref().map(|channel| channel.kind.as_str()),
            channel.as_ref().map(|channel| channel.id.as_str()),
            project,
            pinned,
            archived,
        ],
    )?;
    one_row(written, "sessions")
}

fn write_meta(target: &Target<'_>, skey: i64, profile: &Profile) -> Result<()> {
    match &profile.meta {
        Some(meta) => target.run_sql(
            "INSERT INTO session_meta (skey, meta) VALUES (?1, ?2)
             ON CONFLICT DO UPDATE SET meta = excluded.meta",
            params![skey, meta.as_str()],
        ),
        None => target.run_sql("DELETE FROM session_meta WHERE skey = ?1", [skey]),
    }
    .map(drop)
}

/// The row stays as the tombstone that queues the purge; every read passes it over.
pub(super) fn delete(target: &mut Target<'_>, session: &SessionRef) -> Result<()> {
    let skey = target.life(session)?;
    let known = target.cache.session(target.conn, target.wkey, target.workspace, &session.id)?;
    let activity = known.map_or(0, |known| known.row.activity);
    target.touch(activity)?;
    let written = target.run_sql("UPDATE sessions SET state = 'deleted' WHERE skey = ?1", [skey])?;
    one_row(written, "sessions")?;
    target.cache.forget(target.wkey, &session.id);
    target.touched.deleted = true;
    Ok(())
}
