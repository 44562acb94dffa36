//! Keeping the index for searches up, while nobody commits.
//!
//! The index is never written in a commit. For each session the table `indexed` says how far it is; a search reads what
//! lies beyond, so that its answer is exact at any moment.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};
use turnkeep_core::Result;
use turnkeep_core::local::Slice;
use turnkeep_core::query::words_of;

use crate::columns::{Fields, number_of, row_key};
use crate::error::sql;
use crate::statement::Prepare as _;

/// How long nobody may have come before the index is written. A turn writes its entries one soon after another, and
/// one slice for all of them costs little more than one for each.
const QUIET: Duration = Duration::from_millis(250);
/// How often sessions are looked for that another process wrote to.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// How long an index that cannot be written is left alone.
const GIVE_UP: Duration = Duration::from_secs(30);
/// Bytes of texts after which a slice ends early.
const SLICE_BYTES: usize = 1024 * 1024;
/// Entries beyond the index that are not worth a transaction when a store is closed.
const FEW: i64 = 64;
/// How long a store that is closed goes on indexing.
pub(super) const AT_THE_END: Duration = Duration::from_millis(200);

/// Sessions in use with entries beyond the index, as joined rows `s` and `i`.
macro_rules! behind {
    () => {
        "sessions s LEFT JOIN indexed i ON i.skey = s.skey
         WHERE s.state = 'active' AND coalesce(s.head, 0) > coalesce(i.through, 0)"
    };
}

/// What is to be indexed, as far as this handle knows.
#[derive(Debug, Default)]
pub(super) struct Indexing {
    on: bool,
    /// Sessions that may have entries beyond the index.
    sessions: BTreeSet<i64>,
    /// There may be others that this handle does not know of.
    look: bool,
    next_look: Option<Instant>,
    given_up_until: Option<Instant>,
}

impl Indexing {
    pub(super) fn new(on: bool) -> Self {
        Self { on, look: on, ..Self::default() }
    }

    /// These sessions got entries.
    pub(super) fn note(&mut self, sessions: Vec<i64>) {
        if self.on {
            self.sessions.extend(sessions);
        }
    }

    /// Another process has written something.
    pub(super) fn look(&mut self) {
        self.look = self.on;
    }

    /// How long nobody may have come before a slice is wanted.
    pub(super) fn wanted_after(&self) -> Option<Duration> {
        let left = |until: Option<Instant>| {
            until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
        };
        let pause = match (self.sessions.is_empty(), self.look) {
            (false, _) => Duration::ZERO,
            (true, true) => left(self.next_look),
            (true, false) => return None,
        };
        Some(pause.max(left(self.given_up_until)).max(QUIET))
    }

    /// Hands the work to a slice. What comes to be known meanwhile is kept here.
    pub(super) fn hand_over(&mut self) -> Self {
        let kept = Self { on: self.on, ..Self::default() };
        std::mem::replace(self, kept)
    }

    /// Goes on with what a slice left.
    pub(super) fn take_up(&mut self, left: Self) {
        self.sessions.extend(left.sessions);
        self.look |= left.look;
        self.next_look = left.next_look;
        self.given_up_until = left.given_up_until;
    }

    /// What cannot be written now is tried again much later, and by whoever opens the store next.
    pub(super) fn give_up_for_now(&mut self) {
        self.given_up_until = Some(Instant::now() + GIVE_UP);
        // What the slice had done was undone with it.
        self.look = self.on;
    }

    /// Whether so much is beyond the index that a store takes a moment for it before it is closed.
    pub(super) fn is_worth_the_end(&self, conn: &Connection) -> bool {
        const BACKLOG: &str = concat!("SELECT sum(s.head - coalesce(i.through, 0)) FROM ", behind!());
        let known = self.on && (self.look || !self.sessions.is_empty());
        let backlog = || conn.prepared(BACKLOG)?.query_row([], |row| row.get::<_, Option<i64>>(0));
        known && backlog().is_ok_and(|entries| entries.unwrap_or(0) >= FEW)
    }
}

/// Indexes one slice of entries, within a write transaction. Answers whether more is to be done.
pub(super) fn slice(conn: &Connection, work: &mut Indexing) -> Result<bool> {
    let now = Instant::now();
    if work.look && work.next_look.is_none_or(|next| next <= now) {
        work.look = false;
        work.next_look = Some(now + LOOK_PAUSE);
        work.sessions.extend(behind(conn)?);
    }
    let mut slice = Slice::of_bytes(SLICE_BYTES);
    // Ascending, as the index likes it best.
    while let Some(skey) = work.sessions.first().copied() {
        if index_session(conn, skey, &mut slice)? {
            return Ok(true);
        }
        work.sessions.remove(&skey);
    }
    Ok(false)
}

fn behind(conn: &Connection) -> Result<Vec<i64>> {
    const BEHIND: &str = concat!("SELECT s.skey FROM ", behind!());
    let mut find = conn.prepared(BEHIND).map_err(sql)?;
    let found = find.query_map([], |row| row.get(0)).map_err(sql)?;
    found.collect::<rusqlite::Result<_>>().map_err(sql)
}

/// Indexes the entries of a session until there are enough; answers whether it has more.
fn index_session(conn: &Connection, skey: i64, slice: &mut Slice) -> Result<bool> {
    const THROUGH: &str = "SELECT coalesce(i.through, 0), coalesce(s.head, 0) FROM sessions s
         LEFT JOIN indexed i ON i.skey = s.skey WHERE s.skey = ?1 AND s.state = 'active'";
    const TEXTS: &str = "SELECT rid, text FROM entries WHERE rid > ?1 AND rid <= ?2 ORDER BY rid";
    const INSERT: &str = "INSERT INTO search (rowid, words) VALUES (?1, ?2)";
    const MARK: &str = "INSERT INTO indexed (skey, through) VALUES (?1, ?2)
         ON CONFLICT DO UPDATE SET through = excluded.through";
    let state: Option<(u32, u32)> = conn
        .prepared(THROUGH)
        .and_then(|mut read| read.query_row([skey], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .map_err(sql)?;
    let Some((through, head)) = state.filter(|(through, head)| through < head) else { return Ok(false) };
    let (mut last, mut more) = (through, false);
    {
        let mut insert = conn.prepared(INSERT).map_err(sql)?;
        let mut texts = conn.prepared(TEXTS).map_err(sql)?;
        let mut texts = texts.query([row_key(skey, through), row_key(skey, head)]).map_err(sql)?;
        while let Some(row) = texts.next().map_err(sql)? {
            let fields = &mut Fields::new("entries", row);
            let (rid, text) = (fields.int()?, fields.maybe_text()?.unwrap_or_default());
            if !slice.take(text.len()) {
                more = true;
                break;
            }
            let words = words_of(text);
            if !words.is_empty() {
                insert.execute(params![rid, words]).map_err(sql)?;
            }
            last = number_of(rid);
        }
    }
    // Numbers have no gap, so a session whose rows ended early is damaged, which reading it says.
    let through = if more { last } else { head };
    conn.prepared(MARK).and_then(|mut mark| mark.execute(params![skey, through])).map_err(sql)?;
    Ok(more)
}
