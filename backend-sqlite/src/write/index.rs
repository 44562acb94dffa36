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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    const KEY: i64 = 7;

    /// Tables with one session of the key 7, with these texts.
    fn with_texts(texts: &[Option<&str>]) -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        schema::create(&conn).unwrap();
        conn.execute("INSERT INTO workspaces VALUES (1, 'w', 0, 0)", []).unwrap();
        add_session(&conn, KEY, "active", texts);
        conn
    }

    fn add_session(conn: &Connection, skey: i64, state: &str, texts: &[Option<&str>]) {
        let head = (!texts.is_empty()).then_some(i64::try_from(texts.len()).unwrap());
        conn.execute(
            "INSERT INTO sessions (skey, wkey, id, incarnation, state, revision, activity, created_at, updated_at, head,
             runs, messages, requests, input_tokens, output_tokens, total_tokens, cache_read_tokens,
             cache_write_tokens, duration_ms, audience, pinned, archived)
             VALUES (?1, 1, 's' || ?1, x'00', ?2, 1, ?1, 0, 0, ?3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'user', 0, 0)",
            params![skey, state, head],
        )
        .unwrap();
        for (number, text) in (1_i64..).zip(texts) {
            conn.execute(
                "INSERT INTO entries (rid, on_path, kind, visibility, at, text, payload)
                 VALUES ((?1 << 32) | ?2, 1, 'message', 'conversation', 0, ?3, '{}')",
                params![skey, number, text],
            )
            .unwrap();
        }
    }

    fn through(conn: &Connection, skey: i64) -> Option<u32> {
        conn.query_row("SELECT through FROM indexed WHERE skey = ?1", [skey], |row| row.get(0))
            .optional()
            .unwrap()
    }

    /// The keys of rows that a word of the index leads to.
    fn rows_with(conn: &Connection, word: &str) -> Vec<i64> {
        let mut find = conn.prepare("SELECT rowid FROM search WHERE search MATCH ?1 ORDER BY rowid").unwrap();
        find.query_map([word], |row| row.get(0)).unwrap().map(|row| row.unwrap()).collect()
    }

    fn knows(sessions: &[i64]) -> Indexing {
        let mut work = Indexing { on: true, ..Indexing::default() };
        work.note(sessions.to_vec());
        work
    }

    #[test]
    fn work_is_wanted_when_it_is_quiet_and_looks_and_failures_wait_longer() {
        let mut work = Indexing::new(true);
        assert_eq!(work.wanted_after(), Some(QUIET), "a fresh handle looks for what others left");
        work.look = false;
        assert_eq!(work.wanted_after(), None, "nothing is known to be behind");
        work.note(Vec::new());
        assert_eq!(work.wanted_after(), None);
        work.next_look = Some(Instant::now() + LOOK_PAUSE * 100);
        work.look();
        assert!(work.wanted_after().is_some_and(|after| after > LOOK_PAUSE * 50), "{work:?}");
        work.note(vec![KEY]);
        assert_eq!(work.wanted_after(), Some(QUIET), "what is known waits for no look");
        work.give_up_for_now();
        let after = work.wanted_after().unwrap();
        assert!(after > GIVE_UP / 2 && after <= GIVE_UP, "{after:?}");
        work.next_look = None;
        work.given_up_until = Some(Instant::now());
        assert_eq!(work.wanted_after(), Some(QUIET), "what is over is no pause");
    }

    #[test]
    fn a_store_that_does_not_index_wants_nothing() {
        let conn = with_texts(&[Some("a"); FEW as usize]);
        let mut work = Indexing::new(false);
        work.note(vec![KEY]);
        work.look();
        assert_eq!(work.wanted_after(), None);
        work.give_up_for_now();
        assert_eq!((work.wanted_after(), work.is_worth_the_end(&conn)), (None, false));
        let handed = work.hand_over();
        work.take_up(handed);
        work.note(vec![KEY]);
        assert_eq!(work.wanted_after(), None);
    }

    #[test]
    fn what_comes_to_be_known_during_a_slice_is_kept_with_what_the_slice_left() {
        let mut kept = knows(&[1]);
        let mut slice = kept.hand_over();
        assert_eq!((kept.on, kept.wanted_after()), (true, None), "the slice has it");
        kept.note(vec![2]);
        slice.note(vec![3]);
        slice.next_look = Some(Instant::now());
        let (next, given_up) = (slice.next_look, slice.given_up_until);
        kept.take_up(slice);
        assert_eq!(kept.sessions, BTreeSet::from([1, 2, 3]));
        assert_eq!((kept.look, kept.next_look, kept.given_up_until), (false, next, given_up));

        // A look that is wanted stays wanted, whoever wanted it, and a failure is remembered.
        let mut slice = kept.hand_over();
        slice.give_up_for_now();
        let given_up = slice.given_up_until;
        kept.take_up(slice);
        assert_eq!((kept.look, kept.given_up_until.is_some(), kept.given_up_until), (true, true, given_up));
        let slice = knows(&[]);
        kept.look();
        kept.take_up(slice);
        assert!(kept.look);
    }

    #[test]
    fn a_slice_indexes_what_lies_beyond_and_says_how_far_it_came() {
        let conn = with_texts(&[Some("Alpha beta"), None, Some("  ...  "), Some("beta")]);
        assert!(!slice(&conn, &mut knows(&[KEY])).unwrap(), "all is done");
        assert_eq!(through(&conn, KEY), Some(4));
        assert_eq!(rows_with(&conn, "beta"), [row_key(KEY, 1), row_key(KEY, 4)]);
        assert_eq!(rows_with(&conn, "alpha"), [row_key(KEY, 1)]);
        let rows: i64 = conn.query_row("SELECT count(*) FROM search_docsize", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 2, "what has no words takes no room");
        // Again: nothing twice, and nothing before what is indexed is looked at.
        conn.execute_batch("UPDATE indexed SET through = 3; DELETE FROM search WHERE rowid = 7 << 32 | 4")
            .unwrap();
        let mut work = knows(&[KEY]);
        assert!(!slice(&conn, &mut work).unwrap());
        assert_eq!((through(&conn, KEY), work.sessions.is_empty()), (Some(4), true));
        assert_eq!(rows_with(&conn, "beta"), [row_key(KEY, 1), row_key(KEY, 4)]);
    }

    #[test]
    fn a_slice_ends_when_it_has_enough_rows_or_bytes_and_the_next_goes_on() {
        let rows = turnkeep_core::limits::SLICE_ROWS as usize;
        let large = "x ".repeat(SLICE_BYTES / 4);
        for (texts, first) in [
            (vec![Some("word"); rows + 1], rows),
            (vec![Some("word"); rows], rows),
            (vec![Some(large.as_str()); 5], 2),
        ] {
            let conn = with_texts(&texts);
            add_session(&conn, KEY + 1, "active", &[Some("of another")]);
            let mut work = knows(&[KEY, KEY + 1]);
            let mut more = slice(&conn, &mut work).unwrap();
            assert_eq!(through(&conn, KEY), u32::try_from(first).ok());
            assert!(more, "the other session has no turn yet");
            let mut slices = 1;
            while more {
                more = slice(&conn, &mut work).unwrap();
                slices += 1;
                assert!(slices < 10, "{work:?}");
            }
            assert_eq!(through(&conn, KEY), u32::try_from(texts.len()).ok());
            assert_eq!((through(&conn, KEY + 1), rows_with(&conn, "another").len()), (Some(1), 1));
        }
    }

    #[test]
    fn a_look_finds_sessions_in_use_with_entries_beyond_the_index_and_no_others() {
        let conn = with_texts(&[Some("mine")]);
        for (skey, state) in [(8, "deleted"), (9, "restoring"), (11, "active")] {
            add_session(&conn, skey, state, &[Some("theirs")]);
        }
        add_session(&conn, 10, "active", &[]);
        conn.execute("INSERT INTO indexed VALUES (11, 1)", []).unwrap();
        assert_eq!(behind(&conn).unwrap(), [KEY]);
        let mut work = Indexing::new(true);
        assert!(!slice(&conn, &mut work).unwrap());
        assert_eq!(
            [8, 9, 10, 11, KEY].map(|skey| through(&conn, skey)),
            [None, None, None, Some(1), Some(1)]
        );
        assert_eq!(rows_with(&conn, "theirs"), [0; 0], "not even those that are named in vain");
        assert!(!slice(&conn, &mut knows(&[8, 9, 10, 11])).unwrap());
        assert_eq!([8, 9, 10].map(|skey| through(&conn, skey)), [None; 3]);
        // One look is enough for a while.
        assert!(!work.look && work.next_look.is_some_and(|next| next > Instant::now()));
        conn.execute_batch("DELETE FROM indexed; DELETE FROM search").unwrap();
        work.look();
        assert!(!slice(&conn, &mut work).unwrap());
        assert_eq!((through(&conn, KEY), work.look), (None, true), "it is too early for the next look");
        work.next_look = Some(Instant::now());
        assert!(!slice(&conn, &mut work).unwrap());
        assert_eq!((through(&conn, KEY), work.look), (Some(1), false));
    }

    #[test]
    fn a_few_entries_are_not_worth_a_transaction_when_the_store_is_closed() {
        let few = usize::try_from(FEW).unwrap();
        let conn = with_texts(&vec![Some("word"); few - 1]);
        assert!(!knows(&[KEY]).is_worth_the_end(&conn));
        add_session(&conn, 8, "deleted", &vec![Some("word"); few]);
        assert!(!knows(&[KEY, 8]).is_worth_the_end(&conn));
        add_session(&conn, 9, "active", &[Some("one more")]);
        assert!(knows(&[9]).is_worth_the_end(&conn));
        assert!(Indexing::new(true).is_worth_the_end(&conn), "it does not know yet, so it looks");
        assert!(!knows(&[]).is_worth_the_end(&conn), "nothing is known to be behind");
        conn.execute("INSERT INTO indexed VALUES (7, 1)", []).unwrap();
        assert!(!knows(&[KEY]).is_worth_the_end(&conn));
    }
}
