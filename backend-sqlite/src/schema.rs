//! The tables, by the format that brought them. `docs/format.md` explains them to people.

use rusqlite::Connection;
use turnkeep_core::{Error, ErrorKind, Result};

use crate::error::sql;

/// Marks a database file as ours: "TuKe".
pub(crate) const APPLICATION_ID: i32 = 0x5475_4B65;

/// The format that this version reads and writes.
pub(crate) const FORMAT: i32 = 2;

/// Bytes of a page. Entries are about 1 KiB; at 4 KiB a page wastes more and a scan takes more steps.
pub(crate) const PAGE_SIZE: i64 = 8192;

/// The states of a run that is not over, as SQL. The partial index and every query that uses it say it alike.
macro_rules! active_states {
    () => {
        "state IN ('pending', 'running', 'waiting_approval', 'waiting_input', 'cancelling')"
    };
}
pub(crate) use active_states;

/// What format 2 brought: the index for searches. It keeps no text, only which words stand where; the words are made
/// by `turnkeep_core::query::words_of`, in lower case and of letters and digits alone, so that the simplest of the
/// engine's tokenizers gives them back as they are.
const FORMAT_2: &[&str] = &[
    "CREATE VIRTUAL TABLE search USING fts5(words, content='', contentless_delete=1, tokenize='ascii')",
    "CREATE TABLE indexed (
    skey    INTEGER PRIMARY KEY REFERENCES sessions (skey),
    through INTEGER NOT NULL -- entries up to this number are in the index
) STRICT",
];

/// Every table and index of a format, in the order of creation.
pub(crate) fn objects(format: i32) -> impl Iterator<Item = &'static str> {
    [(1, FORMAT_1), (2, FORMAT_2)]
        .into_iter()
        .filter(move |(since, _)| *since <= format)
        .flat_map(|(_, objects)| objects.iter().copied())
}

/// Brings the tables of one format to those of the next, in an open transaction. Rows of earlier formats stay as they
/// are.
///
/// # Errors
/// What the engine answers.
pub(crate) fn step_up(conn: &Connection, to: i32) -> Result<()> {
    for object in objects(to).skip(objects(to - 1).count()) {
        conn.execute_batch(object).map_err(sql)?;
    }
    conn.pragma_update(None, "user_version", to).map_err(sql)
}

/// Every table and index of format 1.
const FORMAT_1: &[&str] = &[
    "CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID",
    "CREATE TABLE workspaces (
    wkey           INTEGER PRIMARY KEY,
    id             TEXT NOT NULL UNIQUE,
    touches        INTEGER NOT NULL, -- changes that moved no session
    activity_floor INTEGER NOT NULL  -- highest activity of a session that is gone
) STRICT",
    "CREATE TABLE sessions (
    skey                INTEGER PRIMARY KEY AUTOINCREMENT, -- below 2^31
    wkey                INTEGER NOT NULL REFERENCES workspaces (wkey),
    id                  TEXT NOT NULL,
    incarnation         BLOB NOT NULL, -- 16 bytes; a used id gets new ones
    state               TEXT NOT NULL CHECK (state IN ('active', 'restoring', 'deleted')),
    revision            INTEGER NOT NULL,
    activity            INTEGER NOT NULL,
    created_at          INTEGER NOT NULL, -- all times: milliseconds since 1970, UTC
    updated_at          INTEGER NOT NULL,
    head                INTEGER, -- highest entry number
    leaf                INTEGER,
    leaf_segment        INTEGER,
    tip                 INTEGER,
    tip_segment         INTEGER,
    active_run          TEXT,
    runs                INTEGER NOT NULL,
    messages            INTEGER NOT NULL,
    preview             TEXT,
    requests            INTEGER NOT NULL,
    input_tokens        INTEGER NOT NULL,
    output_tokens       INTEGER NOT NULL,
    total_tokens        INTEGER NOT NULL,
    cache_read_tokens   INTEGER NOT NULL,
    cache_write_tokens  INTEGER NOT NULL,
    duration_ms         INTEGER NOT NULL,
    restore_rows        INTEGER, -- only while restoring
    restore_digest      BLOB,
    title               TEXT,
    title_source        TEXT,
    cwd                 TEXT,
    audience            TEXT NOT NULL,
    parent              TEXT,
    fork_kind           TEXT,
    fork_boundary       INTEGER,
    fork_length         INTEGER,
    channel_kind        TEXT,
    channel_id          TEXT,
    project             TEXT,
    pinned              INTEGER NOT NULL,
    archived            INTEGER NOT NULL
) STRICT",
    "CREATE UNIQUE INDEX sessions_by_id ON sessions (wkey, id) WHERE state <> 'deleted'",
    "CREATE INDEX sessions_by_activity ON sessions (wkey, activity DESC, id, state, audience)
    WHERE state <> 'deleted'",
    "CREATE INDEX sessions_by_parent ON sessions (wkey, parent) WHERE parent IS NOT NULL",
    "CREATE INDEX sessions_deleted ON sessions (skey) WHERE state = 'deleted'",
    "CREATE TABLE session_meta (
    skey INTEGER PRIMARY KEY REFERENCES sessions (skey),
    meta TEXT NOT NULL -- JSON of the host; apart, because an append rewrites the session row
) STRICT",
    "CREATE TABLE entries (
    rid        INTEGER PRIMARY KEY, -- skey << 32 | number
    parent     INTEGER, -- number of the entry it follows
    on_path    INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    role       TEXT,
    run        TEXT,
    turn       TEXT,
    key        TEXT,
    visibility TEXT NOT NULL,
    at         INTEGER NOT NULL,
    refs       TEXT, -- JSON
    text       TEXT,
    payload    TEXT NOT NULL -- JSON, byte for byte
) STRICT",
    "CREATE UNIQUE INDEX entries_by_key ON entries (rid >> 32, key) WHERE key IS NOT NULL",
    "CREATE INDEX entries_by_kind ON entries (rid >> 32, kind) WHERE kind <> 'message'",
    "CREATE TABLE segments (
    skey           INTEGER NOT NULL REFERENCES sessions (skey),
    first          INTEGER NOT NULL, -- number of its first entry
    parent         INTEGER, -- number of the entry that one follows
    parent_segment INTEGER,
    PRIMARY KEY (skey, first)
) STRICT, WITHOUT ROWID",
    "CREATE TABLE runs (
    rkey               INTEGER PRIMARY KEY, -- skey << 32 | number
    id                 TEXT NOT NULL,
    state              TEXT NOT NULL,
    intent             TEXT,
    attempt            INTEGER NOT NULL,
    retry_of           TEXT,
    source             TEXT,
    model              TEXT,
    mode               TEXT,
    work_dir           TEXT,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    finished_at        INTEGER,
    requests           INTEGER NOT NULL,
    input_tokens       INTEGER NOT NULL,
    output_tokens      INTEGER NOT NULL,
    total_tokens       INTEGER NOT NULL,
    cache_read_tokens  INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    duration_ms        INTEGER NOT NULL,
    error              TEXT, -- JSON
    progress           TEXT, -- JSON
    context_usage      TEXT  -- JSON
) STRICT",
    "CREATE UNIQUE INDEX runs_by_id ON runs (id, rkey >> 32)",
    concat!("CREATE INDEX runs_active ON runs (state) WHERE ", active_states!()),
    "CREATE INDEX runs_by_intent ON runs (intent, rkey >> 32, attempt) WHERE intent IS NOT NULL",
    "CREATE TABLE streams (
    stkey        INTEGER PRIMARY KEY,
    skey         INTEGER NOT NULL REFERENCES sessions (skey),
    name         TEXT NOT NULL,
    head         INTEGER NOT NULL, -- highest number given
    floor        INTEGER NOT NULL, -- events up to here were dropped
    closed       INTEGER NOT NULL,
    batch_first  INTEGER NOT NULL,
    batch_digest BLOB NOT NULL,
    UNIQUE (skey, name)
) STRICT",
    "CREATE TABLE events (
    ekey    INTEGER PRIMARY KEY,
    stkey   INTEGER NOT NULL REFERENCES streams (stkey),
    number  INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    run     TEXT,
    at      INTEGER NOT NULL,
    payload TEXT NOT NULL, -- JSON, byte for byte
    UNIQUE (stkey, number)
) STRICT",
    "CREATE TABLE records (
    reckey     INTEGER PRIMARY KEY,
    wkey       INTEGER NOT NULL REFERENCES workspaces (wkey),
    collection TEXT NOT NULL,
    key        TEXT NOT NULL,
    owner      INTEGER REFERENCES sessions (skey), -- skey; of a deleted session the record counts as absent
    status     TEXT,
    ordinal    INTEGER NOT NULL,
    birth      INTEGER NOT NULL, -- random bits
    count      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    payload    TEXT NOT NULL, -- JSON, byte for byte
    UNIQUE (wkey, collection, key)
) STRICT",
    "CREATE INDEX records_in_order ON records (wkey, collection, ordinal, key)",
    "CREATE INDEX records_by_owner ON records (owner, collection, ordinal, key) WHERE owner IS NOT NULL",
    "CREATE INDEX records_by_status ON records (wkey, collection, status, ordinal, key)
    WHERE status IS NOT NULL",
    "CREATE TABLE ordinals (
    wkey       INTEGER NOT NULL,
    collection TEXT NOT NULL,
    owner      INTEGER NOT NULL, -- skey, or 0 for records that nobody owns
    last       INTEGER NOT NULL,
    PRIMARY KEY (owner, wkey, collection)
) STRICT, WITHOUT ROWID",
    "CREATE TABLE leases (
    skey        INTEGER NOT NULL, -- 0 for a named lease
    wkey        INTEGER NOT NULL,
    name        TEXT NOT NULL, -- empty for the lease of a session
    state       TEXT NOT NULL,
    owner       BLOB NOT NULL, -- 16 bytes; its lock file lies in the .owners folder
    token       BLOB NOT NULL, -- SHA-256 of the secret
    epoch       INTEGER NOT NULL,
    purpose     TEXT NOT NULL,
    acquired_at INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (skey, wkey, name)
) STRICT, WITHOUT ROWID",
    "CREATE TABLE requests (
    skey        INTEGER NOT NULL, -- 0 for a request that is unique in its workspace
    wkey        INTEGER NOT NULL,
    id          TEXT NOT NULL, -- g: generated, h: given by the host
    owner       INTEGER, -- skey of the session that a workspace's request lives with
    fingerprint BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    receipt     TEXT NOT NULL, -- JSON
    PRIMARY KEY (skey, wkey, id)
) STRICT, WITHOUT ROWID",
    "CREATE INDEX requests_by_owner ON requests (owner) WHERE owner IS NOT NULL",
];

/// Creates every table in an open transaction, and marks the file as ours.
pub(crate) fn create(conn: &Connection) -> Result<()> {
    for format in 1..=FORMAT {
        step_up(conn, format)?;
    }
    conn.execute(
        "INSERT INTO meta (name, value) VALUES ('about', 'turnkeep store; docs/format.md of turnkeep explains it'),
         ('created_with', ?1)",
        [concat!("turnkeep-sqlite ", env!("CARGO_PKG_VERSION"))],
    )
    .map_err(sql)?;
    conn.pragma_update(None, "application_id", APPLICATION_ID).map_err(sql)
}

/// Every table and index of a format must be there as it was made. More may be: people add views and indexes. The ends
/// of lines are no part of what was made: a program that was built from files with other ones makes the same.
///
/// # Errors
/// `Corrupt`, with what is missing or was changed.
pub(crate) fn check(conn: &Connection, format: i32) -> Result<()> {
    let stored = stored_objects(conn)?;
    let lines = |text: &str| text.replace('\r', "");
    match objects(format).find(|object| !stored.iter().any(|stored| lines(stored) == lines(object))) {
        None => Ok(()),
        Some(object) => Err(Error::new(
            ErrorKind::Corrupt,
            "a table of the database is missing or was changed; restore a backup",
        )
        .with("table", object.split(['(', '\n']).next().unwrap_or_default().trim())),
    }
}

/// The text of every table and index that a database has, by name.
fn stored_objects(conn: &Connection) -> Result<Vec<String>> {
    let mut statement = conn
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name")
        .map_err(sql)?;
    let rows = statement.query_map([], |row| row.get(0)).map_err(sql)?;
    rows.collect::<rusqlite::Result<_>>().map_err(sql)
}
