//! The bare engine: the same rows, the same settings, nothing else. The statements are those of the SQLite backend.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::data::{self, message};

/// A connection with the settings of the backend's writer.
#[must_use]
pub fn writer(path: &Path) -> Connection {
    let conn = Connection::open(path).expect("a database");
    conn.pragma_update(None, "journal_mode", "WAL").expect("WAL");
    conn.pragma_update(None, "synchronous", "FULL").expect("FULL");
    conn.pragma_update(None, "cache_size", -32_000).expect("a cache");
    conn.pragma_update(None, "mmap_size", 0).expect("no map");
    conn.set_prepared_statement_cache_capacity(256);
    conn
}

/// The key of session `number`.
#[must_use]
pub fn key(conn: &Connection, number: usize) -> i64 {
    let find = "SELECT skey FROM sessions WHERE id = ?1";
    conn.query_row(find, [data::session(number).id.as_str()], |row| row.get(0)).expect("a session")
}

/// The update that an append makes to its session, and the entry.
const COUNTERS: &str =
    "UPDATE sessions SET revision = revision + 1, activity = ?2, updated_at = ?3, head = ?4, leaf = ?4,
     leaf_segment = 1, tip = ?4, tip_segment = 1, messages = ?4 WHERE skey = ?1";
const ENTRY: &str =
    "INSERT INTO entries (rid, parent, on_path, kind, role, run, turn, key, visibility, at, refs, text,
     payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

/// Appends `count` entries to one session, each in a durable transaction of its own. Answers commits per second.
pub fn append(conn: &Connection, skey: i64, count: usize) -> f64 {
    let mut head: i64 = conn
        .query_row("SELECT coalesce(head, 0) FROM sessions WHERE skey = ?1", [skey], |row| row.get(0))
        .expect("a head");
    let mut activity: i64 =
        conn.query_row("SELECT max(activity) FROM sessions", [], |row| row.get(0)).expect("an activity");
    let run = |text: &str| conn.prepare_cached(text).and_then(|mut s| s.execute([])).expect("a statement");
    let took = crate::rounds::time(|| {
        for number in 0..count {
            let entry = message(number);
            head += 1;
            activity += 1;
            run("BEGIN IMMEDIATE");
            conn.prepare_cached(COUNTERS)
                .and_then(|mut update| update.execute(params![skey, activity, activity / 1000, head]))
                .expect("an update");
            conn.prepare_cached(ENTRY)
                .and_then(|mut insert| {
                    insert.execute(params![
                        skey << 32 | head,
                        head - 1,
                        true,
                        entry.kind.as_str(),
                        entry.role.as_ref().map(|role| role.as_str()),
                        None::<&str>,
                        None::<&str>,
                        None::<&str>,
                        "conversation",
                        entry.at.as_millis(),
                        None::<&str>,
                        entry.text,
                        entry.payload.as_str(),
                    ])
                })
                .expect("an insert");
            run("COMMIT");
            // What the engine does by itself at this size of its log.
            if number % 500 == 499 {
                conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).expect("a checkpoint");
            }
        }
    });
    count as f64 / took.as_secs_f64()
}

/// Reads the last `count` entries of a session, every column copied out. Answers the bytes.
pub fn last(conn: &Connection, skey: i64, count: usize) -> usize {
    let text = "SELECT rid, parent, on_path, kind, role, run, turn, key, visibility, at, refs, text, payload FROM entries
         WHERE rid > ?1 AND rid <= ?2 ORDER BY rid DESC LIMIT ?3";
    let mut select = conn.prepare_cached(text).expect("a select");
    let mut rows = select.query(params![skey << 32, skey << 32 | 0xffff_ffff, count as i64]).expect("rows");
    let mut kept: Vec<(i64, Vec<Option<String>>)> = Vec::with_capacity(count);
    while let Some(row) = rows.next().expect("a row") {
        let texts =
            [3, 4, 5, 6, 7, 8, 10, 11, 12].map(|at| row.get::<_, Option<String>>(at).expect("a text"));
        kept.push((row.get(0).expect("a key"), texts.into()));
    }
    kept.iter().flat_map(|(_, texts)| texts.iter().flatten().map(String::len)).sum()
}

/// Reads the newest `count` session rows, every column copied out. Answers how many.
pub fn newest(conn: &Connection, count: usize) -> usize {
    let text = "SELECT * FROM sessions WHERE wkey = 1 AND state <> 'deleted' AND state = 'active' AND audience = 'user'
         ORDER BY activity DESC, id LIMIT ?1";
    let mut select = conn.prepare_cached(text).expect("a select");
    let columns = select.column_count();
    let mut rows = select.query([count as i64]).expect("rows");
    let mut kept: Vec<Vec<rusqlite::types::Value>> = Vec::with_capacity(count);
    while let Some(row) = rows.next().expect("a row") {
        kept.push((0..columns).map(|at| row.get(at).expect("a value")).collect());
    }
    kept.len()
}

/// Admission and closing of runs: the rows that the sessions API makes durable, written by hand.
#[derive(Debug)]
pub struct Runs {
    conn: Connection,
    skey: i64,
    number: i64,
    head: i64,
    events: i64,
    stream: i64,
}

impl Runs {
    /// On a copy of a filled database.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let conn = writer(path);
        let skey = key(&conn, 0);
        let head = conn
            .query_row("SELECT head FROM sessions WHERE skey = ?1", [skey], |row| row.get(0))
            .expect("a head");
        conn.execute(
            "INSERT INTO streams (skey, name, head, floor, closed, batch_first, batch_digest)
             VALUES (?1, 'runs', 0, 0, 0, 0, zeroblob(32))",
            [skey],
        )
        .expect("a stream");
        let stream = conn.last_insert_rowid();
        Self { conn, skey, number: 0, head, events: 0, stream }
    }

    fn run(&self, text: &str, values: impl rusqlite::Params) {
        self.conn
            .prepare_cached(text)
            .and_then(|mut statement| statement.execute(values))
            .expect("a statement");
    }

    fn entry(
        &mut self,
        kind: &str,
        role: Option<&str>,
        run: &str,
        turn: &str,
        key: Option<String>,
        payload: &str,
    ) {
        self.head += 1;
        let visibility = if role.is_some() { "conversation" } else { "internal" };
        let text = role.map(|_| "why does it fail?");
        self.run(
            ENTRY,
            params![
                self.skey << 32 | self.head,
                self.head - 1,
                true,
                kind,
                role,
                run,
                turn,
                key,
                visibility,
                1_764_000_000_000_i64,
                None::<&str>,
                text,
                payload
            ],
        );
    }

    fn event(&mut self, kind: &str, run: &str) {
        self.events += 1;
        self.run("UPDATE streams SET head = ?2 WHERE stkey = ?1", params![self.stream, self.events]);
        self.run(
            "INSERT INTO events (stkey, number, kind, run, at, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                self.stream,
                self.events,
                kind,
                run,
                1_764_000_000_000_i64,
                r#"{"turn":"t","state":"s"}"#
            ],
        );
    }

    fn request(&self, id: &str) {
        self.run(
            "INSERT INTO requests (skey, wkey, id, owner, fingerprint, created_at, expires_at, receipt)
             VALUES (?1, 1, ?2, NULL, zeroblob(32), ?3, ?3, ?4)",
            params![self.skey, id, 1_764_000_000_000_i64, "x".repeat(330)],
        );
    }

    /// Two durable transactions.
    pub fn admit_and_complete(&mut self) {
        self.number += 1;
        let (run, turn) = (format!("run-{:032}", self.number), format!("turn-{:031}", self.number));
        self.run("BEGIN IMMEDIATE", []);
        self.entry("turn_start", None, &run, &turn, Some(format!("turn/{turn}/start")), r#"{"attempt":1}"#);
        self.entry(
            "message",
            Some("user"),
            &run,
            &turn,
            None,
            r#"{"role":"user","content":[{"type":"text","text":"why does it fail?"}]}"#,
        );
        self.run(COUNTERS, params![self.skey, self.number, self.number, self.head]);
        self.run(
            "INSERT INTO runs (rkey, id, state, intent, attempt, created_at, updated_at, requests, input_tokens,
             output_tokens, total_tokens, cache_read_tokens, cache_write_tokens, duration_ms)
             VALUES (?1, ?2, 'pending', ?2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)",
            params![self.skey << 32 | self.number, run],
        );
        self.run(
            "INSERT INTO records (wkey, collection, key, owner, status, ordinal, birth, count, created_at, updated_at,
             payload) VALUES (1, 'intents', ?1, ?2, NULL, ?3, ?3, 1, 0, 0, '{}')",
            params![run, self.skey, self.number],
        );
        self.run(
            "INSERT INTO ordinals (owner, wkey, collection, last) VALUES (?1, 1, 'intents', ?2)
             ON CONFLICT DO UPDATE SET last = excluded.last",
            params![self.skey, self.number],
        );
        self.event("run_started", &run);
        self.lease("held");
        self.request(&format!("g:admit-{}", self.number));
        self.run("COMMIT", []);

        self.run("BEGIN IMMEDIATE", []);
        self.entry(
            "message",
            Some("assistant"),
            &run,
            &turn,
            None,
            r#"{"role":"assistant","content":[{"type":"text","text":"a semicolon is missing"}]}"#,
        );
        self.entry(
            "turn_end",
            None,
            &run,
            &turn,
            Some(format!("turn/{turn}/end")),
            r#"{"status":"completed"}"#,
        );
        self.run(COUNTERS, params![self.skey, self.number, self.number, self.head]);
        self.run(
            "UPDATE runs SET state = 'completed', finished_at = 1 WHERE rkey = ?1",
            [self.skey << 32 | self.number],
        );
        self.event("run_completed", &run);
        self.lease("released");
        self.request(&format!("g:close-{}", self.number));
        self.run("COMMIT", []);
        if self.number % 100 == 0 {
            self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).expect("a checkpoint");
        }
    }

    fn lease(&self, state: &str) {
        self.run(
            "INSERT INTO leases (skey, wkey, name, state, owner, token, epoch, purpose, acquired_at, expires_at)
             VALUES (?1, 1, '', ?2, zeroblob(16), zeroblob(32), ?3, 'execution', 0, 0)
             ON CONFLICT DO UPDATE SET state = excluded.state, epoch = excluded.epoch",
            params![self.skey, state, self.number],
        );
    }
}
