//! The ways out, one file per query. Each is a function of a snapshot.

mod changes;
mod entries;
mod events;
mod lease;
mod records;
mod rows;
mod runs;
mod search;
mod sessions;

pub(crate) use changes::{changes, newest_activity};
pub(crate) use entries::entries;
pub(crate) use events::events;
pub(crate) use lease::{lease, stored as stored_lease};
pub(crate) use records::{owner_state, records, visible};
pub(crate) use rows::rows;
pub(crate) use runs::runs;
pub(crate) use search::search;
pub(crate) use sessions::{activity_key, session, sessions};

use turnkeep_core::id::SessionId;
use turnkeep_core::model::{Profile, SessionState};
use turnkeep_core::mutant;
use turnkeep_core::query::no_session;
use turnkeep_core::{EntryNo, Result, SessionRef, WorkspaceId};

use crate::codec::{Fields, Key};
use crate::error::damaged;
use crate::rows::{Head, read_head, read_number, read_profile, session_key};
use crate::source::{Source, Span, Toward, first};
use crate::tables;

/// A workspace that was written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkspaceRow {
    pub(crate) wkey: u64,
    /// The activity number of the newest change that is not the newest change of a session.
    pub(crate) mark: u64,
}

pub(crate) fn workspace_key(workspace: &WorkspaceId) -> Key {
    Key::new().tail(workspace.as_str())
}

pub(crate) fn read_workspace(body: &[u8]) -> Result<WorkspaceRow> {
    let mut fields = Fields::of_value(tables::WORKSPACES, body)?;
    let row = WorkspaceRow { wkey: fields.u64()?, mark: fields.u64()? };
    fields.end()?;
    Ok(row)
}

pub(crate) fn workspace(source: &dyn Source, workspace: &WorkspaceId) -> Result<Option<WorkspaceRow>> {
    let body = source.get(tables::WORKSPACES, &workspace_key(workspace))?;
    body.map(|body| read_workspace(&body)).transpose()
}

/// The session with an id, in use or being built.
pub(crate) fn head_by_id(source: &dyn Source, wkey: u64, id: &SessionId) -> Result<Option<(u64, Head)>> {
    let key = Key::new().u64(wkey).tail(id.as_str());
    let Some(body) = source.get(tables::SESSION_IDS, &key)? else { return Ok(None) };
    let skey = read_number(tables::SESSION_IDS, &body)?;
    let head = head(source, skey)?.ok_or_else(|| damaged(tables::SESSIONS, "row"))?;
    // An id that leads to another session must not show its contents.
    if (head.wkey, &head.id) != (wkey, id) {
        return Err(damaged(tables::SESSION_IDS, "id"));
    }
    Ok(Some((skey, head)))
}

/// A session by its key; `None` once it is deleted.
pub(crate) fn head(source: &dyn Source, skey: u64) -> Result<Option<Head>> {
    source.get(tables::SESSIONS, &session_key(skey))?.map(|body| read_head(&body)).transpose()
}

pub(crate) fn profile(source: &dyn Source, skey: u64) -> Result<Profile> {
    let body = source.get(tables::PROFILES, &session_key(skey))?;
    read_profile(&body.ok_or_else(|| damaged(tables::PROFILES, "row"))?)
}

/// One life of a session, in use or being built. Lives that are over are not found.
fn life(source: &dyn Source, wkey: u64, session: &SessionRef) -> Result<Option<(u64, Head)>> {
    let found = head_by_id(source, wkey, &session.id)?;
    Ok(found
        .filter(|(_, head)| head.incarnation == session.incarnation || mutant::is("redb/any-life-is-read")))
}

/// A session in use, and its key. Lives that are over or still being built are not found.
fn find(source: &dyn Source, id: &WorkspaceId, session: &SessionRef) -> Result<(u64, Head)> {
    let found = match workspace(source, id)? {
        Some(row) => life(source, row.wkey, session)?,
        None => None,
    };
    found.filter(|(_, head)| head.state == SessionState::Active).ok_or_else(|| no_session(id, session))
}

/// A segment: its first entry, the parent of that one, and the segment that holds the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentRow {
    pub(crate) first: u32,
    pub(crate) parent: Option<EntryNo>,
    pub(crate) parent_segment: Option<EntryNo>,
}

pub(crate) fn segment_key(skey: u64, first: u32) -> Key {
    Key::new().u64(skey).u32(first)
}

pub(crate) fn read_segment(key: &[u8], body: &[u8]) -> Result<SegmentRow> {
    let mut place = Fields::of_key(tables::SEGMENTS, key);
    place.u64()?;
    let mut fields = Fields::of_value(tables::SEGMENTS, body)?;
    let row = SegmentRow {
        first: place.u32()?,
        parent: EntryNo::new(fields.u32()?),
        parent_segment: EntryNo::new(fields.u32()?),
    };
    fields.end()?;
    // A parent that is not older than its child would make a walk along the path endless.
    if row.parent.is_some_and(|parent| parent.get() >= row.first) {
        return Err(damaged(tables::SEGMENTS, "parent"));
    }
    Ok(row)
}

/// The segment at a number: the last one that begins at or before it.
pub(crate) fn segment_at(source: &dyn Source, skey: u64, number: u32) -> Result<Option<SegmentRow>> {
    let span = Span::within(Key::new().u64(skey)).through(segment_key(skey, number));
    let found = first(source, tables::SEGMENTS, &span, Toward::Lower)?;
    found.map(|(key, body)| read_segment(&key, &body)).transpose()
}

/// The number of the entry with a key.
pub(crate) fn number_with_key(source: &dyn Source, skey: u64, key: &str) -> Result<Option<EntryNo>> {
    let Some(body) = source.get(tables::ENTRY_KEYS, &Key::new().u64(skey).tail(key))? else {
        return Ok(None);
    };
    let number = read_number(tables::ENTRY_KEYS, &body)?;
    let number = u32::try_from(number).ok().and_then(EntryNo::new);
    number.map(Some).ok_or_else(|| damaged(tables::ENTRY_KEYS, "number"))
}

#[cfg(test)]
mod tests {
    use turnkeep_core::ErrorKind;

    use super::*;
    use crate::codec::{Value, unseal};

    #[test]
    fn a_segment_follows_an_entry_before_it_or_nothing() {
        let key = segment_key(1, 5);
        let read = |parent: u32| {
            let stored = Value::new().u32(parent).u32(1).seal(key.as_bytes());
            let body = unseal(tables::SEGMENTS, key.as_bytes(), &stored).unwrap();
            read_segment(key.as_bytes(), body).map(|row| row.parent).map_err(|error| error.kind())
        };
        assert_eq!((read(0), read(4)), (Ok(None), Ok(EntryNo::new(4))));
        assert_eq!((read(5), read(6)), (Err(ErrorKind::Corrupt), Err(ErrorKind::Corrupt)));
    }
}
