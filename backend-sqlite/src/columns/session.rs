//! Session rows.

use turnkeep_core::model::{
    Audience, Channel, ForkKind, ForkOrigin, PathState, Profile, RestoreState, SessionRow, SessionState,
    Title, TitleSource,
};
use turnkeep_core::{Incarnation, Result, WorkspaceId};

use crate::columns::Fields;

/// The columns of a session `s` with its meta `m`, as [`session`] reads them.
macro_rules! session_columns {
    () => {
        "s.skey, s.id, s.incarnation, s.state, s.revision, s.activity, s.created_at, s.updated_at, s.head, \
         s.leaf, s.leaf_segment, s.tip, s.tip_segment, s.active_run, s.runs, s.messages, s.preview, s.requests, \
         s.input_tokens, s.output_tokens, s.total_tokens, s.cache_read_tokens, s.cache_write_tokens, \
         s.duration_ms, s.restore_rows, s.restore_digest, s.title, s.title_source, s.cwd, s.audience, s.parent, \
         s.fork_kind, s.fork_boundary, s.fork_length, s.channel_kind, s.channel_id, s.project, s.pinned, \
         s.archived, m.meta"
    };
}

pub(crate) const SESSION_COLUMNS: &str = session_columns!();

pub(crate) const fn session_state_name(state: SessionState) -> &'static str {
    match state {
        SessionState::Active => "active",
        SessionState::Restoring => "restoring",
    }
}

pub(crate) const fn audience_name(audience: Audience) -> &'static str {
    match audience {
        Audience::User => "user",
        Audience::SubAgent => "sub_agent",
    }
}

pub(crate) const fn title_source_name(source: TitleSource) -> &'static str {
    match source {
        TitleSource::Manual => "manual",
        TitleSource::Auto => "auto",
    }
}

pub(crate) const fn fork_kind_name(kind: ForkKind) -> &'static str {
    match kind {
        ForkKind::Session => "session",
        ForkKind::Message => "message",
    }
}

/// Reads a session row that is not deleted, with its key.
pub(crate) fn session(workspace: &WorkspaceId, fields: &mut Fields<'_>) -> Result<(i64, SessionRow)> {
    let skey = fields.int()?;
    let row = SessionRow {
        workspace: workspace.clone(),
        id: fields.id()?,
        incarnation: Incarnation::from_bytes(fields.bytes()?),
        state: fields.named(|name| match name {
            "active" => Some(SessionState::Active),
            "restoring" => Some(SessionState::Restoring),
            _ => None,
        })?,
        revision: fields.u64()?,
        activity: fields.u64()?,
        created_at: fields.time()?,
        updated_at: fields.time()?,
        head: fields.maybe_number()?,
        path: PathState {
            leaf: fields.maybe_number()?,
            leaf_segment: fields.maybe_number()?,
            tip: fields.maybe_number()?,
            tip_segment: fields.maybe_number()?,
        },
        active_run: fields.maybe_id()?,
        runs: fields.u32()?,
        messages: fields.u32()?,
        preview: fields.maybe_string()?,
        usage: fields.usage()?,
        restore: match (fields.maybe_u64()?, fields.maybe_bytes()?) {
            (Some(rows), Some(digest)) => Some(RestoreState { rows, digest }),
            _ => None,
        },
        profile: profile(fields)?,
    };
    Ok((skey, row))
}

fn profile(fields: &mut Fields<'_>) -> Result<Profile> {
    let title = fields.maybe_string()?;
    let source = fields.maybe_named(|name| match name {
        "manual" => Some(TitleSource::Manual),
        "auto" => Some(TitleSource::Auto),
        _ => None,
    })?;
    Ok(Profile {
        title: title.zip(source).map(|(text, source)| Title { text, source }),
        cwd: fields.maybe_string()?,
        audience: fields.named(|name| match name {
            "user" => Some(Audience::User),
            "sub_agent" => Some(Audience::SubAgent),
            _ => None,
        })?,
        parent: fields.maybe_id()?,
        fork: fork(fields)?,
        channel: {
            let kind = fields.maybe_string()?;
            let id = fields.maybe_string()?;
            kind.zip(id).map(|(kind, id)| Channel { kind, id })
        },
        project: fields.maybe_string()?,
        pinned: fields.flag()?,
        archived: fields.flag()?,
        meta: fields.maybe_payload()?,
    })
}

fn fork(fields: &mut Fields<'_>) -> Result<Option<ForkOrigin>> {
    let kind = fields.maybe_named(|name| match name {
        "session" => Some(ForkKind::Session),
        "message" => Some(ForkKind::Message),
        _ => None,
    })?;
    let boundary = fields.maybe_number()?;
    let seed_length = fields.maybe_u32()?;
    match (kind, boundary, seed_length) {
        (Some(kind), Some(boundary), Some(seed_length)) => {
            Ok(Some(ForkOrigin { kind, boundary, seed_length }))
        }
        _ => Ok(None),
    }
}
