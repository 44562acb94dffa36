//! Session rows: what moves with every append, and the profile, which hardly ever does.

use turnkeep_core::id::SessionId;
use turnkeep_core::model::{PathState, Profile, RestoreState, SessionRow, SessionState, Usage};
use turnkeep_core::{EntryNo, Incarnation, Result, SessionRef, WorkspaceId};

use super::{from_json, json, maybe_number};
use crate::codec::{Fields, Key, Value};
use crate::tables;

pub(crate) fn session_key(skey: u64) -> Key {
    Key::new().u64(skey)
}

/// A session without its profile, and its keys.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) wkey: u64,
    pub(crate) id: SessionId,
    pub(crate) incarnation: Incarnation,
    pub(crate) state: SessionState,
    pub(crate) revision: u64,
    pub(crate) activity: u64,
    pub(crate) created_at: turnkeep_core::Timestamp,
    pub(crate) updated_at: turnkeep_core::Timestamp,
    pub(crate) head: Option<EntryNo>,
    pub(crate) path: PathState,
    pub(crate) active_run: Option<turnkeep_core::RunId>,
    pub(crate) runs: u32,
    pub(crate) messages: u32,
    pub(crate) preview: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) restore: Option<RestoreState>,
}

impl Head {
    pub(crate) fn session_ref(&self) -> SessionRef {
        SessionRef { id: self.id.clone(), incarnation: self.incarnation }
    }

    /// The whole row.
    pub(crate) fn with(self, workspace: &WorkspaceId, profile: Profile) -> SessionRow {
        SessionRow {
            workspace: workspace.clone(),
            id: self.id,
            incarnation: self.incarnation,
            state: self.state,
            revision: self.revision,
            activity: self.activity,
            created_at: self.created_at,
            updated_at: self.updated_at,
            head: self.head,
            path: self.path,
            active_run: self.active_run,
            runs: self.runs,
            messages: self.messages,
            preview: self.preview,
            usage: self.usage,
            profile,
            restore: self.restore,
        }
    }
}

pub(crate) fn write_head(wkey: u64, row: &SessionRow) -> Value {
    let usage = &row.usage;
    let path = &row.path;
    let mut value = Value::sized(320)
        .u64(wkey)
        .str(row.id.as_str())
        .bytes(row.incarnation.as_bytes())
        .flag(row.state == SessionState::Restoring)
        .u64(row.revision)
        .u64(row.activity)
        .time(row.created_at)
        .time(row.updated_at);
    for number in [row.head, path.leaf, path.leaf_segment, path.tip, path.tip_segment] {
        value = value.u32(maybe_number(number));
    }
    value = value
        .maybe_str(row.active_run.as_ref().map(AsRef::as_ref))
        .u32(row.runs)
        .u32(row.messages)
        .maybe_str(row.preview.as_deref());
    for count in [
        usage.requests,
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.duration_ms,
    ] {
        value = value.u64(count);
    }
    match &row.restore {
        Some(restore) => value.flag(true).u64(restore.rows).bytes(&restore.digest),
        None => value.flag(false),
    }
}

pub(crate) fn read_head(body: &[u8]) -> Result<Head> {
    let fields = &mut Fields::of_value(tables::SESSIONS, body)?;
    let wkey = fields.u64()?;
    let id = fields.id()?;
    let incarnation = Incarnation::from_bytes(fields.bytes()?);
    let state = if fields.flag()? { SessionState::Restoring } else { SessionState::Active };
    let (revision, activity) = (fields.u64()?, fields.u64()?);
    let (created_at, updated_at) = (fields.time()?, fields.time()?);
    let mut number = || fields.u32().map(EntryNo::new);
    let head = number()?;
    let path = PathState { leaf: number()?, leaf_segment: number()?, tip: number()?, tip_segment: number()? };
    let active_run = fields.maybe_id()?;
    let (runs, messages) = (fields.u32()?, fields.u32()?);
    let preview = fields.maybe_str()?.map(str::to_owned);
    let usage = Usage {
        requests: fields.u64()?,
        input_tokens: fields.u64()?,
        output_tokens: fields.u64()?,
        total_tokens: fields.u64()?,
        cache_read_tokens: fields.u64()?,
        cache_write_tokens: fields.u64()?,
        duration_ms: fields.u64()?,
    };
    let restore = match fields.flag()? {
        true => Some(RestoreState { rows: fields.u64()?, digest: fields.bytes()? }),
        false => None,
    };
    Ok(Head {
        wkey,
        id,
        incarnation,
        state,
        revision,
        activity,
        created_at,
        updated_at,
        head,
        path,
        active_run,
        runs,
        messages,
        preview,
        usage,
        restore,
    })
}

pub(crate) fn write_profile(profile: &Profile) -> Result<Value> {
    let json = json(profile)?;
    Ok(Value::sized(json.len() + 4).str(&json))
}

pub(crate) fn read_profile(body: &[u8]) -> Result<Profile> {
    let mut fields = Fields::of_value(tables::PROFILES, body)?;
    let profile = from_json(tables::PROFILES, fields.str()?)?;
    fields.end()?;
    Ok(profile)
}
