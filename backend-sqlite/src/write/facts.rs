//! Answers the look-ups that the rules ask for, within the write transaction.

use rusqlite::{Connection, OptionalExtension, params};
use turnkeep_core::commit::{Fingerprint, RequestId, RequestScope};
use turnkeep_core::id::{Collection, IntentId, RecordKey, StreamName};
use turnkeep_core::model::{LeaseName, Liveness};
use turnkeep_core::rules::{
    AttemptFact, Facts, LeaseFact, Lookup, OwnerState, Place, ReadSet, RecordFact, RequestRow, Span,
};
use turnkeep_core::{EntryNo, Result, RunId, SessionRef, WorkspaceId};

use crate::columns::{
    Fields, RECORD_COLUMNS, RUN_COLUMNS, STREAM_COLUMNS, number_of, record, row_key, run, stream,
};
use crate::error::{damaged, sql};
use crate::owners::Owners;
use crate::read::{number_with_key, stored_lease};
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
    let mut facts = Facts::default();
    // Nothing can be found in a workspace that nobody wrote to.
    if let Some(wkey) = cache.workspace(conn, workspace)? {
        let mut source = Source { conn, cache, owners, workspace, wkey };
        for lookup in &reads.lookups {
            source.look_up(lookup, &mut facts)?;
        }
    }
    Ok(facts)
}

impl Source<'_> {
    fn look_up(&mut self, lookup: &Lookup, facts: &mut Facts) -> Result<()> {
        match lookup {
            Lookup::Session(id) => {
                if let Some(found) = self.cache.session(self.conn, self.wkey, self.workspace, id)? {
                    facts.sessions.insert(id.clone(), found.row.clone());
                }
            }
            Lookup::Place(session, number) => {
                if let Some(skey) = self.life(session)?
                    && let Some(place) = self.place(skey, *number)?
                {
                    facts.places.insert((session.clone(), *number), place);
                }
            }
            Lookup::Span(session, after, through) => {
                if let Some(skey) = self.life(session)?
                    && let Some(span) = self.span(skey, *after, *through)?
                {
                    facts.spans.insert((session.clone(), *after, *through), span);
                }
            }
            Lookup::EntryKey(session, key) => {
                if let Some(skey) = self.life(session)?
                    && let Some(number) = number_with_key(self.conn, skey, key)?.and_then(EntryNo::new)
                {
                    if let Some(place) = self.place(skey, number)? {
                        facts.places.insert((session.clone(), number), place);
                    }
                    facts.keys.insert((session.clone(), key.clone()), number);
                }
            }
            Lookup::Run(session, id) => self.run(session, id, facts)?,
            Lookup::LatestAttempt(session, intent) => self.latest_attempt(session, intent, facts)?,
            Lookup::Lease(name) => self.lease(name, facts)?,
            Lookup::Record(collection, key) => self.record(collection, key, facts)?,
            Lookup::Stream(session, name) => self.stream(session, name, facts)?,
            Lookup::Ordinal(collection, owner) => self.ordinal(collection, owner.as_ref(), facts)?,
            Lookup::Request(scope, id) => facts.request = self.request(scope, id)?,
        }
        Ok(())
    }

    fn life(&mut self, session: &SessionRef) -> Result<Option<i64>> {
        self.cache.life(self.conn, self.wkey, self.workspace, session)
    }

    fn segment_at(&self, skey: i64, number: u32) -> Result<Option<EntryNo>> {
        const FIND: &str =
            "SELECT first FROM segments WHERE skey = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1";
        let first: Option<u32> = self
            .conn
            .prepare_cached(FIND)
            .and_then(|mut find| find.query_row(params![skey, number], |row| row.get(0)).optional())
            .map_err(sql)?;
        Ok(first.and_then(EntryNo::new))
    }

    fn place(&self, skey: i64, number: EntryNo) -> Result<Option<Place>> {
        let on_path: Option<bool> = self
            .conn
            .prepare_cached("SELECT on_path FROM entries WHERE rid = ?1")
            .and_then(|mut find| find.query_row([row_key(skey, number.get())], |row| row.get(0)).optional())
            .map_err(sql)?;
        let Some(on_path) = on_path else { return Ok(None) };
        Ok(Some(Place { on_path, segment: self.segment_at(skey, number.get())? }))
    }

    /// `rules::counts_as_message` says the same in Rust.
    fn span(&self, skey: i64, after: Option<EntryNo>, through: EntryNo) -> Result<Option<Span>> {
        const SUM: &str = "SELECT count(*) FILTER (WHERE kind = 'message' AND visibility = 'conversation'),
             max(rid) FILTER (WHERE on_path = 1), max(rid) FROM entries WHERE rid > ?1 AND rid <= ?2";
        const FIRST_USER: &str = "SELECT text FROM entries WHERE rid > ?1 AND rid <= ?2 AND kind = 'message'
             AND visibility = 'conversation' AND role = 'user' AND text IS NOT NULL ORDER BY rid LIMIT 1";
        let bounds = params![row_key(skey, after.map_or(0, EntryNo::get)), row_key(skey, through.get())];
        let (messages, tip, last): (u32, Option<i64>, Option<i64>) = self
            .conn
            .prepare_cached(SUM)
            .and_then(|mut sum| sum.query_row(bounds, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))))
            .map_err(sql)?;
        if last.map(number_of) != Some(through.get()) {
            return Ok(None);
        }
        let first_user_text = self
            .conn
            .prepare_cached(FIRST_USER)
            .and_then(|mut find| find.query_row(bounds, |row| row.get(0)).optional())
            .map_err(sql)?;
        let tip = match tip.map(number_of).and_then(EntryNo::new) {
            Some(tip) => self.segment_at(skey, tip.get())?.map(|segment| (tip, segment)),
            None => None,
        };
        Ok(Some(Span { messages, first_user_text, tip }))
    }

    fn run(&mut self, session: &SessionRef, id: &RunId, facts: &mut Facts) -> Result<()> {
        let Some(skey) = self.life(session)? else { return Ok(()) };
        let text = format!("SELECT {RUN_COLUMNS} FROM runs r WHERE r.id = ?1 AND r.rkey >> 32 = ?2");
        let mut find = self.conn.prepare_cached(&text).map_err(sql)?;
        let mut rows = find.query(params![id.as_str(), skey]).map_err(sql)?;
        if let Some(row) = rows.next().map_err(sql)? {
            let run = run(session, &mut Fields::new("runs", row))?;
            facts.runs.insert((session.clone(), id.clone()), run);
        }
        Ok(())
    }

    fn latest_attempt(&mut self, session: &SessionRef, intent: &IntentId, facts: &mut Facts) -> Result<()> {
        const FIND: &str = "SELECT id, attempt FROM runs WHERE intent = ?1 AND intent IS NOT NULL
             AND rkey >> 32 = ?2 ORDER BY attempt DESC, rkey DESC LIMIT 1";
        let Some(skey) = self.life(session)? else { return Ok(()) };
        let mut find = self.conn.prepare_cached(FIND).map_err(sql)?;
        let mut rows = find.query(params![intent.as_str(), skey]).map_err(sql)?;
        if let Some(row) = rows.next().map_err(sql)? {
            let fields = &mut Fields::new("runs", row);
            let newest = AttemptFact { run: fields.id()?, attempt: fields.u32()? };
            facts.attempts.insert((session.clone(), intent.clone()), newest);
        }
        Ok(())
    }

    fn lease(&mut self, name: &LeaseName, facts: &mut Facts) -> Result<()> {
        let row = match name {
            LeaseName::Named(id) => stored_lease(self.conn, self.wkey, 0, id.as_str())?,
            LeaseName::Session(session) => match self.life(session)? {
                Some(skey) => stored_lease(self.conn, self.wkey, skey, "")?,
                None => None,
            },
        };
        if let Some(row) = row {
            let liveness: Liveness = self.owners.liveness(&row);
            facts.leases.insert(name.clone(), LeaseFact { row, liveness });
        }
        Ok(())
    }

    fn record(&mut self, collection: &Collection, key: &RecordKey, facts: &mut Facts) -> Result<()> {
        let text = format!(
            "SELECT {RECORD_COLUMNS} FROM records r LEFT JOIN sessions o ON o.skey = r.owner
             WHERE r.wkey = ?1 AND r.collection = ?2 AND r.key = ?3"
        );
        let stored = {
            let mut find = self.conn.prepare_cached(&text).map_err(sql)?;
            let mut rows = find.query(params![self.wkey, collection.as_str(), key.as_str()]).map_err(sql)?;
            match rows.next().map_err(sql)? {
                Some(row) => record(&mut Fields::new("records", row))?,
                None => return Ok(()),
            }
        };
        // A change of owner moves the revision of both sessions.
        if let (Some(owner), OwnerState::Active | OwnerState::Restoring) =
            (&stored.record.owner, stored.owner)
            && let Some(found) = self.cache.session(self.conn, self.wkey, self.workspace, &owner.id)?
        {
            facts.sessions.insert(owner.id.clone(), found.row.clone());
        }
        let fact = RecordFact { record: stored.record, owner: stored.owner };
        facts.records.insert((collection.clone(), key.clone()), fact);
        Ok(())
    }

    fn stream(&mut self, session: &SessionRef, name: &StreamName, facts: &mut Facts) -> Result<()> {
        let Some(skey) = self.life(session)? else { return Ok(()) };
        let text = format!("SELECT {STREAM_COLUMNS} FROM streams WHERE skey = ?1 AND name = ?2");
        let mut find = self.conn.prepare_cached(&text).map_err(sql)?;
        let mut rows = find.query(params![skey, name.as_str()]).map_err(sql)?;
        if let Some(row) = rows.next().map_err(sql)? {
            let (_, row) = stream(&mut Fields::new("streams", row))?;
            facts.streams.insert((session.clone(), name.clone()), row);
        }
        Ok(())
    }

    fn ordinal(
        &mut self,
        collection: &Collection,
        owner: Option<&SessionRef>,
        facts: &mut Facts,
    ) -> Result<()> {
        let skey = match owner {
            Some(owner) => match self.life(owner)? {
                Some(skey) => skey,
                None => return Ok(()),
            },
            None => 0,
        };
        let last: Option<i64> = self
            .conn
            .prepare_cached("SELECT last FROM ordinals WHERE owner = ?1 AND wkey = ?2 AND collection = ?3")
            .and_then(|mut find| {
                find.query_row(params![skey, self.wkey, collection.as_str()], |row| row.get(0)).optional()
            })
            .map_err(sql)?;
        if let Some(last) = last {
            let last = u64::try_from(last).map_err(|_| damaged("ordinals", "last"))?;
            facts.ordinals.insert((collection.clone(), owner.cloned()), last);
        }
        Ok(())
    }

    fn request(&mut self, scope: &RequestScope, id: &RequestId) -> Result<Option<RequestRow>> {
        // A receipt dies with its session, also before the purge has come to it.
        const FIND: &str = "SELECT q.fingerprint, q.created_at, q.expires_at, q.receipt, o.id, o.incarnation
             FROM requests q LEFT JOIN sessions o ON o.skey = q.owner
             WHERE q.skey = ?1 AND q.wkey = ?2 AND q.id = ?3 AND (q.owner IS NULL OR o.state <> 'deleted')";
        let skey = match scope {
            RequestScope::Workspace => 0,
            RequestScope::Session(session) => match self.life(session)? {
                Some(skey) => skey,
                None => return Ok(None),
            },
        };
        let mut find = self.conn.prepare_cached(FIND).map_err(sql)?;
        let mut rows = find.query(params![skey, self.wkey, id.to_string()]).map_err(sql)?;
        let Some(row) = rows.next().map_err(sql)? else { return Ok(None) };
        let fields = &mut Fields::new("requests", row);
        let fingerprint = Fingerprint::from_bytes(fields.bytes()?);
        let (created_at, expires_at) = (fields.time()?, fields.maybe_time()?);
        let receipt = serde_json::from_str(fields.text()?).map_err(|_| fields.damaged())?;
        let owner = match (fields.maybe_id()?, fields.maybe_bytes()?) {
            (Some(id), Some(bits)) => {
                Some(SessionRef { id, incarnation: turnkeep_core::Incarnation::from_bytes(bits) })
            }
            _ => match scope {
                RequestScope::Session(session) => Some(session.clone()),
                RequestScope::Workspace => None,
            },
        };
        Ok(Some(RequestRow {
            scope: scope.clone(),
            id: id.clone(),
            owner,
            fingerprint,
            receipt,
            created_at,
            expires_at,
        }))
    }
}
