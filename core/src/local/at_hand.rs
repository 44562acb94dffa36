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
    rows: HashMap<(K, SessionId), StoredSession<K>>,
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
        let key = (wkey, id.clone());
        if !self.rows.contains_key(&key) {
            let Some(found) = read()? else { return Ok(None) };
            self.put(wkey, found);
        }
        Ok(self.rows.get_mut(&key))
    }

    /// Takes a row in. When they get too many, the others go.
    pub fn put(&mut self, wkey: K, session: StoredSession<K>) {
        let meta = session.row.profile.meta.as_ref().map_or(0, |meta| meta.as_str().len());
        self.bytes = self.bytes.saturating_add(meta + 1024);
        if self.bytes > MOST_BYTES {
            self.rows.clear();
            self.bytes = meta + 1024;
        }
        self.rows.insert((wkey, session.row.id.clone()), session);
    }

    /// Drops a row: the session is deleted.
    pub fn forget(&mut self, wkey: K, id: &SessionId) {
        self.rows.remove(&(wkey, id.clone()));
    }
}
