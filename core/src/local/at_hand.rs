//! Session rows that a writer has at hand.
//!
//! Nearly every commit needs a session row that an earlier commit of the same store wrote.

use std::collections::HashMap;
use std::hash::Hash;

use crate::error::Result;
use crate::id::{SessionId, SessionRef};
use crate::model::SessionRow;

/// Bytes, roughly, that the rows at hand may take.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// A session that is not deleted, with the key that its engine knows it by.
#[derive(Clone, Debug)]
pub struct StoredSession<K> {
    /// Its key.
    pub skey: K,
    /// Its row.
    pub row: SessionRow,
}

impl<K: Copy> StoredSession<K> {
    /// The key, if it is this life of the session.
    pub fn key_of(&self, session: &SessionRef) -> Option<K> {
        (self.row.incarnation == session.incarnation).then_some(self.skey)
    }
}

/// The rows at hand, by the key of their workspace and their id. Whoever has them drops them after a rollback, and when
/// somebody else may have written.
#[derive(Debug, Default)]
pub struct SessionsAtHand<K> {
    rows: HashMap<K, HashMap<SessionId, Held<K>>>,
    /// The sum over all rows.
    bytes: usize,
}

#[derive(Debug)]
struct Held<K> {
    session: StoredSession<K>,
    /// What it counts for, however it is changed in its place.
    bytes: usize,
}

impl<K: Copy + Eq + Hash> SessionsAtHand<K> {
    /// A session in use or being built; `read` looks for one that is not at hand.
    ///
    /// # Errors
    /// What `read` answers.
    pub fn get(
        &mut self,
        wkey: K,
        id: &SessionId,
        read: impl FnOnce() -> Result<Option<StoredSession<K>>>,
    ) -> Result<Option<&mut StoredSession<K>>> {
        if !self.rows.entry(wkey).or_default().contains_key(id) {
            let Some(found) = read()? else { return Ok(None) };
            self.put(wkey, found);
        }
        let held = self.rows.get_mut(&wkey).and_then(|rows| rows.get_mut(id));
        Ok(held.map(|held| &mut held.session))
    }

    /// Takes a row in, in place of an earlier one of this session. When they get too many, the others go.
    pub fn put(&mut self, wkey: K, session: StoredSession<K>) {
        self.forget(wkey, &session.row.id);
        let meta = session.row.profile.meta.as_ref().map_or(0, |meta| meta.as_str().len());
        let bytes = meta + 1024;
        if self.bytes.saturating_add(bytes) > MOST_BYTES {
            self.rows.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.rows.entry(wkey).or_default().insert(session.row.id.clone(), Held { session, bytes });
    }

    /// Drops a row: the session is deleted.
    pub fn forget(&mut self, wkey: K, id: &SessionId) {
        if let Some(held) = self.rows.get_mut(&wkey).and_then(|rows| rows.remove(id)) {
            self.bytes -= held.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Payload;
    use crate::id::{Incarnation, WorkspaceId};
    use crate::model::{PathState, Profile, SessionState, Usage};
    use crate::time::Timestamp;

    type Result = crate::error::Result<()>;

    const SMALL: usize = 1024;

    /// A session `id` whose host keeps `meta` bytes with it.
    fn session(id: &str, meta: usize) -> crate::error::Result<StoredSession<u64>> {
        let meta = (meta > 2).then(|| Payload::new(Arc::from(format!("\"{}\"", "x".repeat(meta - 2)))));
        let row = SessionRow {
            workspace: WorkspaceId::new("w")?,
            id: SessionId::new(id)?,
            incarnation: Incarnation::from_bytes([7; 16]),
            state: SessionState::Active,
            revision: 1,
            activity: 1,
            created_at: Timestamp::from_millis(1),
            updated_at: Timestamp::from_millis(1),
            head: None,
            path: PathState::default(),
            active_run: None,
            runs: 0,
            messages: 0,
            preview: None,
            usage: Usage::default(),
            profile: Profile { meta: meta.transpose()?, ..Profile::default() },
            restore: None,
        };
        Ok(StoredSession { skey: 1, row })
    }

    /// Whether a session is there without being read.
    fn at_hand(rows: &mut SessionsAtHand<u64>, wkey: u64, id: &str) -> crate::error::Result<bool> {
        Ok(rows.get(wkey, &SessionId::new(id)?, || Ok(None))?.is_some())
    }

    #[test]
    fn what_is_read_is_read_once_and_what_is_not_there_each_time() -> Result {
        let mut rows = SessionsAtHand::default();
        let mut reads = 0;
        for _ in 0..3 {
            let found = rows.get(1, &SessionId::new("a")?, || {
                reads += 1;
                session("a", 0).map(Some)
            })?;
            assert_eq!(found.map(|found| found.row.id.to_string()).as_deref(), Some("a"));
            assert!(!at_hand(&mut rows, 1, "b")? && !at_hand(&mut rows, 2, "a")?);
        }
        assert_eq!((reads, rows.bytes), (1, SMALL));
        let failed = rows.get(1, &SessionId::new("b")?, || {
            Err(crate::Error::new(crate::ErrorKind::Io, "the disk is gone"))
        });
        assert_eq!(failed.err().map(|error| error.kind()), Some(crate::ErrorKind::Io));
        Ok(())
    }

    #[test]
    fn a_row_counts_once_however_often_it_is_replaced() -> Result {
        let mut rows = SessionsAtHand::default();
        for _ in 0..100 {
            rows.put(1, session("a", 1_000_000)?);
        }
        assert_eq!(rows.bytes, SMALL + 1_000_000);
        rows.put(1, session("a", 0)?);
        assert_eq!(rows.bytes, SMALL);
        // Changed where it lies, it counts for what it came in with, and goes with that.
        let fat = session("a", 5_000)?;
        if let Some(found) = rows.get(1, &SessionId::new("a")?, || Ok(None))? {
            found.row = fat.row;
        }
        rows.put(1, session("a", 0)?);
        assert_eq!(rows.bytes, SMALL);
        Ok(())
    }

    #[test]
    fn a_forgotten_row_counts_no_more() -> Result {
        let mut rows = SessionsAtHand::default();
        rows.put(1, session("a", 500)?);
        rows.put(2, session("a", 700)?);
        rows.forget(1, &SessionId::new("a")?);
        assert_eq!(rows.bytes, SMALL + 700, "that of the other workspace stays");
        assert!(!at_hand(&mut rows, 1, "a")? && at_hand(&mut rows, 2, "a")?);
        for _ in 0..2 {
            rows.forget(1, &SessionId::new("a")?);
            rows.forget(3, &SessionId::new("never")?);
        }
        assert_eq!(rows.bytes, SMALL + 700);
        rows.forget(2, &SessionId::new("a")?);
        assert_eq!(rows.bytes, 0);
        Ok(())
    }

    #[test]
    fn the_row_that_fits_no_more_drives_all_others_out() -> Result {
        let third = MOST_BYTES / 3 - SMALL;
        let mut rows = SessionsAtHand::default();
        for (wkey, id) in [(1, "a"), (2, "b"), (1, "c")] {
            rows.put(wkey, session(id, third)?);
        }
        assert_eq!(rows.bytes, MOST_BYTES / 3 * 3);
        // Room is found by replacing one, and by forgetting one.
        rows.put(1, session("c", third)?);
        rows.forget(2, &SessionId::new("b")?);
        rows.put(2, session("d", third)?);
        for (wkey, id) in [(1, "a"), (1, "c"), (2, "d")] {
            assert!(at_hand(&mut rows, wkey, id)?, "{id}");
        }
        rows.put(1, session("e", 0)?);
        assert_eq!(rows.bytes, SMALL);
        for (wkey, id) in [(1, "a"), (1, "c"), (2, "d")] {
            assert!(!at_hand(&mut rows, wkey, id)?, "{id}");
        }
        assert!(at_hand(&mut rows, 1, "e")?);
        Ok(())
    }
}
