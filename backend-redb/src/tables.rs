//! The tables of format 1. The README of this crate explains them to people.
//!
//! `skey` is the number of one life of a session, `wkey` that of a workspace; neither is ever given twice. Every table
//! but `meta` maps bytes to bytes: see `codec`.

use redb::TableDefinition;

/// The format that this version reads and writes.
pub(crate) const FORMAT: u32 = 1;

/// A table of bytes, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table(pub(crate) &'static str);

impl Table {
    pub(crate) const fn definition(self) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
        TableDefinition::new(self.0)
    }
}

/// What the store is and what it counts, as text: `format`, `about`, `created_with`, `next_session`,
/// `next_workspace`.
pub(crate) const META: TableDefinition<'static, &'static str, &'static str> = TableDefinition::new("meta");

/// workspace id -> wkey, mark
pub(crate) const WORKSPACES: Table = Table("workspaces");
/// skey -> the row but its profile
pub(crate) const SESSIONS: Table = Table("sessions");
/// skey -> the profile, as JSON; apart, because an append rewrites the row
pub(crate) const PROFILES: Table = Table("profiles");
/// wkey, session id -> skey
pub(crate) const SESSION_IDS: Table = Table("session_ids");
/// wkey, activity inverted, session id -> skey
pub(crate) const SESSIONS_BY_ACTIVITY: Table = Table("sessions_by_activity");
/// wkey, parent id, skey
pub(crate) const SESSIONS_BY_PARENT: Table = Table("sessions_by_parent");
/// skey -> wkey, session id, of deleted sessions that wait for the purge
pub(crate) const TOMBSTONES: Table = Table("tombstones");
/// skey, number -> entry
pub(crate) const ENTRIES: Table = Table("entries");
/// skey, key -> number
pub(crate) const ENTRY_KEYS: Table = Table("entry_keys");
/// skey, kind, number; but for ordinary messages, which nearly all entries are
pub(crate) const ENTRY_KINDS: Table = Table("entry_kinds");
/// skey, first -> parent, parent segment
pub(crate) const SEGMENTS: Table = Table("segments");
/// skey, number -> run, as JSON
pub(crate) const RUNS: Table = Table("runs");
/// skey, run id -> number
pub(crate) const RUN_IDS: Table = Table("run_ids");
/// skey, intent, attempt, number
pub(crate) const RUN_INTENTS: Table = Table("run_intents");
/// wkey, session id, number -> skey, of runs that are not over
pub(crate) const RUNS_ACTIVE: Table = Table("runs_active");
/// skey, name -> stream
pub(crate) const STREAMS: Table = Table("streams");
/// skey, stream, number -> event
pub(crate) const EVENTS: Table = Table("events");
/// wkey, collection, key -> record
pub(crate) const RECORDS: Table = Table("records");
/// wkey, collection, ordinal, key
pub(crate) const RECORDS_IN_ORDER: Table = Table("records_in_order");
/// owner's skey or 0, wkey, collection, ordinal, key
pub(crate) const RECORDS_BY_OWNER: Table = Table("records_by_owner");
/// owner's skey or 0, wkey, collection, key
pub(crate) const RECORD_KEYS_OF_OWNER: Table = Table("record_keys_of_owner");
/// wkey, collection, status, ordinal, key
pub(crate) const RECORDS_BY_STATUS: Table = Table("records_by_status");
/// owner's skey or 0, wkey, collection -> last
pub(crate) const ORDINALS: Table = Table("ordinals");
/// skey or 0, wkey, name or nothing -> lease
pub(crate) const LEASES: Table = Table("leases");
/// skey or 0, wkey, id -> stored receipt
pub(crate) const REQUESTS: Table = Table("requests");
/// owner's skey, wkey, id, of requests of a workspace that live with a session
pub(crate) const REQUESTS_BY_OWNER: Table = Table("requests_by_owner");
/// expiry, skey or 0, wkey, id
pub(crate) const REQUESTS_EXPIRING: Table = Table("requests_expiring");

/// Every table of bytes.
pub(crate) const ALL: [Table; 27] = [
    WORKSPACES,
    SESSIONS,
    PROFILES,
    SESSION_IDS,
    SESSIONS_BY_ACTIVITY,
    SESSIONS_BY_PARENT,
    TOMBSTONES,
    ENTRIES,
    ENTRY_KEYS,
    ENTRY_KINDS,
    SEGMENTS,
    RUNS,
    RUN_IDS,
    RUN_INTENTS,
    RUNS_ACTIVE,
    STREAMS,
    EVENTS,
    RECORDS,
    RECORDS_IN_ORDER,
    RECORDS_BY_OWNER,
    RECORD_KEYS_OF_OWNER,
    RECORDS_BY_STATUS,
    ORDINALS,
    LEASES,
    REQUESTS,
    REQUESTS_BY_OWNER,
    REQUESTS_EXPIRING,
];
