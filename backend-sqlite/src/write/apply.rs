//! Writes the rows that the rules decided, within the write transaction.

use rusqlite::{Connection, params};
use turnkeep_core::commit::RequestScope;
use turnkeep_core::id::{Collection, RecordKey, SessionRef, StreamName};
use turnkeep_core::model::{Entry, Event, LeaseName, Record, Run, StreamRow};
use turnkeep_core::mutant;
use turnkeep_core::rules::{LeaseRow, RequestRow, Segment, Write, WriteSet};
use turnkeep_core::{EntryNo, Error, ErrorKind, Result, WorkspaceId};

use crate::columns::{int, lease_state_name, maybe_number, row_key, to_bits, visibility_name};
use crate::error::sql;
use crate::read::stream_key;
use crate::statement::Prepare as _;
use crate::write::cache::Cache;
use crate::write::{copy, session};

/// Where the rows go.
pub(super) struct Target<'a> {
    pub(super) conn: &'a Connection,
    pub(super) cache: &'a mut Cache,
    pub(super) workspace: &'a WorkspaceId,
    pub(super) wkey: i64,
    /// Raised to the highest activity number written.
    pub(super) activity: &'a mut u64,
    pub(super) touched: &'a mut Touched,
}

/// What a commit leaves to be done.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// A deleted session waits for the purge.
    pub(super) deleted: bool,
    /// The keys of sessions that got entries, for the index.
    pub(super) texts: Vec<i64>,
}

pub(super) fn apply(
    conn: &Connection,
    cache: &mut Cache,
    set: &WriteSet,
    activity: &mut u64,
    touched: &mut Touched,
) -> Result<()> {
    let wkey = cache.workspace_or_new(conn, &set.workspace)?;
    let mut target = Target { conn, cache, workspace: &set.workspace, wkey, activity, touched };
    for (at, write) in set.writes.iter().enumerate() {
        if mutant::is("sqlite/commit-in-two-halves") && at == set.writes.len() / 2 {
            conn.execute_batch("COMMIT; BEGIN IMMEDIATE").map_err(sql)?;
        }
        if mutant::is("sqlite/receipt-apart") && matches!(write, Write::Request(_)) {
            conn.execute_batch("COMMIT").map_err(sql)?;
            std::thread::sleep(std::time::Duration::from_millis(5));
            conn.execute_batch("BEGIN IMMEDIATE").map_err(sql)?;
        }
        target.write(write)?;
    }
    Ok(())
}

impl Target<'_> {
    fn write(&mut self, write: &Write) -> Result<()> {
        match write {
            Write::Session { row, change } => session::write(self, row, *change),
            Write::DeleteSession { session } => session::delete(self, session),
            Write::Segments { session, segments } => self.segments(session, segments),
            Write::Entries { session, entries } => self.entries(session, entries),
            Write::Copy { from, to, after, through } => {
                let (from, to) = (self.life(from)?, self.life(to)?);
                self.touched.texts.push(to);
                copy::slice(self.conn, from, to, after.map_or(0, EntryNo::get), through.get())
            }
            Write::Run { run, new } => self.run(run, *new),
            Write::Stream { session, row } => self.stream(session, row),
            Write::Events { session, stream, events } => self.events(session, stream, events),
            Write::DropEvents { session, stream, through } => self.drop_events(session, stream, *through),
            Write::Record { record } => self.record(record),
            Write::DeleteRecord { collection, key } => self.delete_record(collection, key),
            Write::Ordinal { collection, owner, last } => self.ordinal(collection, owner.as_ref(), *last),
            Write::Lease { name, row } => self.lease(name, row),
            Write::Request(row) => self.request(row),
            Write::TouchWorkspace => self.touch(0),
        }
    }

    /// Runs a statement that is prepared once per connection.
    #[cfg_attr(feature = "mutants", track_caller)]
    pub(super) fn run_sql(&self, text: &str, values: impl rusqlite::Params) -> Result<usize> {
        self.conn.prepared(text).and_then(|mut statement| statement.execute(values)).map_err(sql)
    }

    /// The key of a session that the rules found to be there.
    pub(super) fn life(&mut self, session: &SessionRef) -> Result<i64> {
        self.cache.life(self.conn, self.wkey, self.workspace, session)?.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "rows were to be written below a session that is not there")
                .with("session", session)
        })
    }

    /// Moves the mark of the workspace. `gone` is the activity number of a session that changed so much, or
    /// vanished, that the highest one may have fallen.
    pub(super) fn touch(&self, gone: u64) -> Result<()> {
        const TOUCH: &str = "UPDATE workspaces
             SET touches = touches + 1, activity_floor = max(activity_floor, ?2) WHERE wkey = ?1";
        self.run_sql(TOUCH, params![self.wkey, int(gone)?]).map(drop)
    }

    fn segments(&mut self, session: &SessionRef, segments: &[Segment]) -> Result<()> {
        const INSERT: &str =
            "INSERT INTO segments (skey, first, parent, parent_segment) VALUES (?1, ?2, ?3, ?4)";
        let skey = self.life(session)?;
        for Segment { first, parent, parent_segment } in segments {
            let numbers = params![skey, first.get(), maybe_number(*parent), maybe_number(*parent_segment)];
            self.run_sql(INSERT, numbers)?;
        }
        Ok(())
    }

    fn entries(&mut self, session: &SessionRef, entries: &[Entry]) -> Result<()> {
        const INSERT: &str =
            "INSERT INTO entries (rid, parent, on_path, kind, role, run, turn, key, visibility,
             at, refs, text, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        let skey = self.life(session)?;
        self.touched.texts.push(skey);
        let mut insert = self.conn.prepared(INSERT).map_err(sql)?;
        for entry in entries {
            let refs = if entry.refs.is_empty() { None } else { Some(json(&entry.refs)?) };
            insert
                .execute(params![
                    row_key(skey, entry.number.get()),
                    maybe_number(entry.parent),
                    entry.on_path,
                    entry.kind.as_str(),
                    entry.role.as_ref().map(AsRef::<str>::as_ref),
                    entry.run.as_ref().map(AsRef::<str>::as_ref),
                    entry.turn.as_ref().map(AsRef::<str>::as_ref),
                    entry.key.as_ref().map(AsRef::<str>::as_ref),
                    visibility_name(entry.visibility),
                    entry.at.as_millis(),
                    refs,
                    entry.text,
                    entry.payload.as_str(),
                ])
                .map_err(sql)?;
        }
        Ok(())
    }

    fn run(&mut self, run: &Run, new: bool) -> Result<()> {
        const INSERT: &str = "INSERT INTO runs (rkey, id, state, intent, attempt, retry_of, source, model, mode,
             work_dir, created_at, updated_at, finished_at, requests, input_tokens, output_tokens, total_tokens,
             cache_read_tokens, cache_write_tokens, duration_ms, error, progress, context_usage)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
             ?21, ?22, ?23)";
        // The rest of a run never changes.
        const UPDATE: &str = "UPDATE runs SET state = ?3, model = ?8, updated_at = ?12, finished_at = ?13,
             requests = ?14, input_tokens = ?15, output_tokens = ?16, total_tokens = ?17,
             cache_read_tokens = ?18, cache_write_tokens = ?19, duration_ms = ?20, error = ?21, progress = ?22,
             context_usage = ?23 WHERE rkey = ?1";
        let skey = self.life(&run.session)?;
        let usage = &run.usage;
        let written = self.run_sql(
            if new { INSERT } else { UPDATE },
            params![
                row_key(skey, run.number),
                run.id.as_str(),
                run.state.as_str(),
                run.intent.as_ref().map(AsRef::<str>::as_ref),
                run.attempt,
                run.retry_of.as_ref().map(AsRef::<str>::as_ref),
                run.source,
                run.model,
                run.mode,
                run.work_dir,
                run.created_at.as_millis(),
                run.updated_at.as_millis(),
                run.finished_at.map(|at| at.as_millis()),
                int(usage.requests)?,
                int(usage.input_tokens)?,
                int(usage.output_tokens)?,
                int(usage.total_tokens)?,
                int(usage.cache_read_tokens)?,
                int(usage.cache_write_tokens)?,
                int(usage.duration_ms)?,
                run.error.as_ref().map(|json| json.as_str()),
                run.progress.as_ref().map(|json| json.as_str()),
                run.context_usage.as_ref().map(|json| json.as_str()),
            ],
        )?;
        one_row(written, "runs")
    }

    fn stream(&mut self, session: &SessionRef, row: &StreamRow) -> Result<()> {
        const UPSERT: &str =
            "INSERT INTO streams (skey, name, head, floor, closed, batch_first, batch_digest)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (skey, name) DO UPDATE SET head = excluded.head,
             floor = excluded.floor, closed = excluded.closed, batch_first = excluded.batch_first,
             batch_digest = excluded.batch_digest";
        let skey = self.life(session)?;
        let (head, floor, first) = (int(row.head)?, int(row.floor)?, int(row.batch_first)?);
        let values = params![skey, row.name.as_str(), head, floor, row.closed, first, row.batch_digest];
        self.run_sql(UPSERT, values).map(drop)
    }

    fn events(&mut self, session: &SessionRef, stream: &StreamName, events: &[Event]) -> Result<()> {
        const INSERT: &str =
            "INSERT INTO events (stkey, number, kind, run, at, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let stkey = self.stream_key(session, stream)?;
        let mut insert = self.conn.prepared(INSERT).map_err(sql)?;
        for event in events {
            insert
                .execute(params![
                    stkey,
                    int(event.number)?,
                    event.kind.as_str(),
                    event.run.as_ref().map(AsRef::<str>::as_ref),
                    event.at.as_millis(),
                    event.payload.as_str(),
                ])
                .map_err(sql)?;
        }
        Ok(())
    }

    fn drop_events(&mut self, session: &SessionRef, stream: &StreamName, through: u64) -> Result<()> {
        let stkey = self.stream_key(session, stream)?;
        let through = i64::try_from(through).unwrap_or(i64::MAX);
        self.run_sql("DELETE FROM events WHERE stkey = ?1 AND number <= ?2", params![stkey, through])
            .map(drop)
    }

    fn stream_key(&mut self, session: &SessionRef, stream: &StreamName) -> Result<i64> {
        let skey = self.life(session)?;
        stream_key(self.conn, skey, stream.as_str())?.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "events were to be written to a stream that is not there")
                .with("session", session)
                .with("stream", stream)
        })
    }

    fn record(&mut self, record: &Record) -> Result<()> {
        const UPSERT: &str = "INSERT INTO records (wkey, collection, key, owner, status, ordinal, birth, count,
             created_at, updated_at, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (wkey, collection, key) DO UPDATE SET owner = excluded.owner, status = excluded.status,
             ordinal = excluded.ordinal, birth = excluded.birth, count = excluded.count,
             created_at = excluded.created_at, updated_at = excluded.updated_at, payload = excluded.payload";
        let owner = record.owner.as_ref().map(|owner| self.life(owner)).transpose()?;
        let values = params![
            self.wkey,
            record.collection.as_str(),
            record.key.as_str(),
            owner,
            record.status.as_ref().map(AsRef::<str>::as_ref),
            int(record.ordinal)?,
            to_bits(record.version.birth),
            int(record.version.count)?,
            record.created_at.as_millis(),
            record.updated_at.as_millis(),
            record.payload.as_str(),
        ];
        self.run_sql(UPSERT, values).map(drop)
    }

    fn delete_record(&mut self, collection: &Collection, key: &RecordKey) -> Result<()> {
        const DELETE: &str = "DELETE FROM records WHERE wkey = ?1 AND collection = ?2 AND key = ?3";
        self.run_sql(DELETE, params![self.wkey, collection.as_str(), key.as_str()]).map(drop)
    }

    fn ordinal(&mut self, collection: &Collection, owner: Option<&SessionRef>, last: u64) -> Result<()> {
        const UPSERT: &str = "INSERT INTO ordinals (owner, wkey, collection, last) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET last = excluded.last";
        let owner = owner.map(|owner| self.life(owner)).transpose()?.unwrap_or(0);
        self.run_sql(UPSERT, params![owner, self.wkey, collection.as_str(), int(last)?]).map(drop)
    }

    fn lease(&mut self, name: &LeaseName, row: &LeaseRow) -> Result<()> {
        const UPSERT: &str = "INSERT INTO leases (skey, wkey, name, state, owner, token, epoch, purpose,
             acquired_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT DO UPDATE SET state = excluded.state, owner = excluded.owner, token = excluded.token,
             epoch = excluded.epoch, purpose = excluded.purpose, acquired_at = excluded.acquired_at,
             expires_at = excluded.expires_at";
        let (skey, name) = match name {
            LeaseName::Session(session) => (self.life(session)?, ""),
            LeaseName::Named(id) => (0, id.as_str()),
        };
        let values = params![
            skey,
            self.wkey,
            name,
            lease_state_name(row.state),
            row.owner.as_bytes(),
            row.token,
            int(row.epoch)?,
            row.purpose.as_str(),
            row.acquired_at.as_millis(),
            row.expires_at.as_millis(),
        ];
        self.run_sql(UPSERT, values).map(drop)
    }

    /// Replaces the receipt of a session that is gone, should its purge not have come to it yet.
    fn request(&mut self, row: &RequestRow) -> Result<()> {
        const INSERT: &str =
            "INSERT OR REPLACE INTO requests (skey, wkey, id, owner, fingerprint, created_at,
             expires_at, receipt) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let (skey, owner) = match &row.scope {
            RequestScope::Session(session) => (self.life(session)?, None),
            RequestScope::Workspace => (0, row.owner.as_ref().map(|owner| self.life(owner)).transpose()?),
        };
        let values = params![
            skey,
            self.wkey,
            row.id.to_string(),
            owner,
            row.fingerprint.as_bytes(),
            row.created_at.as_millis(),
            row.expires_at.map(|at| at.as_millis()),
            json(&row.receipt)?,
        ];
        self.run_sql(INSERT, values).map(drop)
    }
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| {
        Error::new(ErrorKind::Invalid, "a value cannot be written as JSON").with_source(error)
    })
}

/// What the rules found must be there to be changed.
pub(super) fn one_row(written: usize, table: &'static str) -> Result<()> {
    if written == 1 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Corrupt, "a row that was read a moment ago is not there to be changed")
        .with("table", table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_meets_no_row_is_damage() {
        one_row(1, "runs").unwrap();
        for written in [0, 2] {
            assert_eq!(one_row(written, "runs").unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
