//! Answers the look-ups that the rules ask for, within the write transaction.

use rusqlite::{Connection, OptionalExtension, params};
use turnkeep_core::commit::{Fingerprint, RequestId, RequestScope};
use turnkeep_core::id::{Collection, EntryKey, IntentId, RecordKey, SessionId, StreamName};
use turnkeep_core::local::{FactSource, gather};
use turnkeep_core::model::{LeaseName, Run, SessionRow, StreamRow};
use turnkeep_core::rules::{AttemptFact, Facts, LeaseFact, Place, ReadSet, RecordFact, RequestFact, Span};
use turnkeep_core::{EntryNo, Result, RunId, SessionRef, WorkspaceId};

use crate::columns::{
    Fields, RECORD_COLUMNS, RUN_COLUMNS, STREAM_COLUMNS, number_of, record, row_key, run, stream,
};
use crate::error::{damaged, sql};
use crate::owners::Owners;
use crate::read::{number_with_key, stored_lease};
use crate::statement::Prepare as _;
use crate::write::cache::Cache;

/// Where the answers come from.
pub(super) struct Source<'a> {
    pub(super) conn: &'a Connection,
    pub(super) cache: &'a mut Cache,
    pub(super) owners: &'a Owners,
    pub(super) workspace: &'a WorkspaceId,
    pub(super) wkey: i64,
}

pub(super) fn facts(
    conn: &Connection,
    cache: &mut Cache,
    owners: &Owners,
    workspace: &WorkspaceId,
    reads: &ReadSet,
) -> Result<Facts> {
    // Nothing can be found in a workspace that nobody wrote to.
    match cache.workspace(conn, workspace)? {
        Some(wkey) => gather(&mut Source { conn, cache, owners, workspace, wkey }, reads),
        None => Ok(Facts::default()),
    }
}

impl Source<'_> {
    fn life(&mut self, session: &SessionRef) -> Result<Option<i64>> {
        self.cache.life(self.conn, self.wkey, self.workspace, session)
    }

    fn segment_at(&self, skey: i64, number: u32) -> Result<Option<EntryNo>> {
        const FIND: &str =
            "SELECT first FROM segments WHERE skey = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1";
        let first: Option<u32> = self
            .conn
            .prepared(FIND)
            .and_then(|mut find| find.query_row(params![skey, number], |row| row.get(0)).optional())
            .map_err(sql)?;
        Ok(first.and_then(EntryNo::new))
    }
}

impl FactSource for Source<'_> {
    fn session(&mut self, id: &SessionId) -> Result<Option<SessionRow>> {
        let found = self.cache.session(self.conn, self.wkey, self.workspace, id)?;
        Ok(found.map(|found| found.row.clone()))
    }

    fn entry_with_key(&mut self, session: &SessionRef, key: &EntryKey) -> Result<Option<EntryNo>> {
        let Some(skey) = self.life(session)? else { return Ok(None) };
        number_with_key(self.conn, skey, key)
    }

    fn place(&mut self, session: &SessionRef, number: EntryNo) -> Result<Option<Place>> {
        let Some(skey) = self.life(session)? else { return Ok(None) };
        let on_path: Option<bool> = self
            .conn
            .prepared("SELECT on_path FROM entries WHERE rid = ?1")
            .and_then(|mut find| find.query_row([row_key(skey, number.get())], |row| row.get(0)).optional())
            .map_err(sql)?;
        let Some(on_path) = on_path else { return Ok(None) };
        Ok(Some(Place { on_path, segment: self.segment_at(skey, number.get())? }))
    }

    /// `rules::counts_as_message` says the same in Rust.
    fn span(
        &mut self,
        session: &SessionRef,
        after: Option<EntryNo>,
        through: EntryNo,
    ) -> Result<Option<Span>> {
        const SUM: &str = "SELECT count(*) FILTER (WHERE kind = 'message' AND visibility = 'conversation'),
             max(rid) FILTER (WHERE on_path = 1), max(rid) FROM entries WHERE rid > ?1 AND rid <= ?2";
        const FIRST_USER: &str = "SELECT text FROM entries WHERE rid > ?1 AND rid <= ?2 AND kind = 'message'
             AND visibility = 'conversation' AND role = 'user' AND text IS NOT NULL ORDER BY rid LIMIT 1";
        let Some(skey) = self.life(session)? else { return Ok(None) };
        let bounds = params![row_key(skey, after.map_or(0, EntryNo::get)), row_key(skey, through.get())];
        let (messages, tip, last): (u32, Option<i64>, Option<i64>) = self
            .conn
            .prepared(SUM)
            .and_then(|mut sum| sum.query_row(bounds, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))))
            .map_err(sql)?;
        if last.map(number_of) != Some(through.get()) {
            return Ok(None);
        }
        let first_user_text = self
            .conn
            .prepared(FIRST_USER)
            .and_then(|mut find| find.query_row(bounds, |row| row.get(0)).optional())
            .map_err(sql)?;
        let tip = match tip.map(number_of).and_then(EntryNo::new) {
            Some(tip) => self.segment_at(skey, tip.get())?.map(|segment| (tip, segment)),
            None => None,
        };
        Ok(Some(Span { messages, first_user_text, tip }))
    }

    fn run(&mut self, session: &SessionRef, id: &RunId) -> Result<Option<Run>> {
        let Some(skey) = self.life(session)? else { return Ok(None) };
        let text = format!("SELECT {RUN_COLUMNS} FROM runs r WHERE r.id = ?1 AND r.rkey >> 32 = ?2");
        let mut find = self.conn.prepared(&text).map_err(sql)?;
        let mut rows = find.query(params![id.as_str(), skey]).map_err(sql)?;
        rows.next().map_err(sql)?.map(|row| run(session, &mut Fields::new("runs", row))).transpose()
    }

    fn latest_attempt(&mut self, session: &SessionRef, intent: &IntentId) -> Result<Option<AttemptFact>> {
        const FIND: &str = "SELECT id, attempt FROM runs WHERE intent = ?1
             AND rkey >> 32 = ?2 ORDER BY attempt DESC, rkey DESC LIMIT 1";
        let Some(skey) = self.life(session)? else { return Ok(None) };
        let mut find = self.conn.prepared(FIND).map_err(sql)?;
        let mut rows = find.query(params![intent.as_str(), skey]).map_err(sql)?;
        let Some(row) = rows.next().map_err(sql)? else { return Ok(None) };
        let fields = &mut Fields::new("runs", row);
        Ok(Some(AttemptFact { run: fields.id()?, attempt: fields.u32()? }))
    }

    fn lease(&mut self, name: &LeaseName) -> Result<Option<LeaseFact>> {
        let row = match name {
            LeaseName::Named(id) => stored_lease(self.conn, self.wkey, 0, id.as_str())?,
            LeaseName::Session(session) => match self.life(session)? {
                Some(skey) => stored_lease(self.conn, self.wkey, skey, "")?,
                None => None,
            },
        };
        Ok(row.map(|row| LeaseFact { liveness: self.owners.liveness(&row), row }))
    }

    fn record(&mut self, collection: &Collection, key: &RecordKey) -> Result<Option<RecordFact>> {
        let text = format!(
            "SELECT {RECORD_COLUMNS} FROM records r LEFT JOIN sessions o ON o.skey = r.owner
             WHERE r.wkey = ?1 AND r.collection = ?2 AND r.key = ?3"
        );
        let mut find = self.conn.prepared(&text).map_err(sql)?;
        let mut rows = find.query(params![self.wkey, collection.as_str(), key.as_str()]).map_err(sql)?;
        let Some(row) = rows.next().map_err(sql)? else { return Ok(None) };
        let stored = record(&mut Fields::new("records", row))?;
        Ok(Some(RecordFact { record: stored.record, owner: stored.owner }))
    }

    fn stream(&mut self, session: &SessionRef, name: &StreamName) -> Result<Option<StreamRow>> {
        let Some(skey) = self.life(session)? else { return Ok(None) };
        let text = format!("SELECT {STREAM_COLUMNS} FROM streams WHERE skey = ?1 AND name = ?2");
        let mut find = self.conn.prepared(&text).map_err(sql)?;
        let mut rows = find.query(params![skey, name.as_str()]).map_err(sql)?;
        let Some(row) = rows.next().map_err(sql)? else { return Ok(None) };
        stream(&mut Fields::new("streams", row)).map(|(_, row)| Some(row))
    }

    fn ordinal(&mut self, collection: &Collection, owner: Option<&SessionRef>) -> Result<Option<u64>> {
        let skey = match owner {
            Some(owner) => match self.life(owner)? {
                Some(skey) => skey,
                None => return Ok(None),
            },
            None => 0,
        };
        let last: Option<i64> = self
            .conn
            .prepared("SELECT last FROM ordinals WHERE owner = ?1 AND wkey = ?2 AND collection = ?3")
            .and_then(|mut find| {
                find.query_row(params![skey, self.wkey, collection.as_str()], |row| row.get(0)).optional()
            })
            .map_err(sql)?;
        last.map(|last| u64::try_from(last).map_err(|_| damaged("ordinals", "last"))).transpose()
    }

    fn request(&mut self, scope: &RequestScope, id: &RequestId) -> Result<Option<RequestFact>> {
        // A receipt dies with its session, also before the purge has come to it.
        const FIND: &str =
            "SELECT q.fingerprint, q.receipt FROM requests q LEFT JOIN sessions o ON o.skey = q.owner
             WHERE q.skey = ?1 AND q.wkey = ?2 AND q.id = ?3 AND (q.owner IS NULL OR o.state <> 'deleted')";
        let skey = match scope {
            RequestScope::Workspace => 0,
            RequestScope::Session(session) => match self.life(session)? {
                Some(skey) => skey,
                None => return Ok(None),
            },
        };
        let mut find = self.conn.prepared(FIND).map_err(sql)?;
        let mut rows = find.query(params![skey, self.wkey, id.to_string()]).map_err(sql)?;
        let Some(row) = rows.next().map_err(sql)? else { return Ok(None) };
        let fields = &mut Fields::new("requests", row);
        let fingerprint = Fingerprint::from_bytes(fields.bytes()?);
        let receipt = serde_json::from_str(fields.text()?).map_err(|_| fields.damaged())?;
        Ok(Some(RequestFact { fingerprint, receipt }))
    }
}
