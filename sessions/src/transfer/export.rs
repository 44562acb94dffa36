//! Writes a session to a file.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use sha2::{Digest, Sha256};
use turnkeep_core::digest::to_hex;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{SessionId, SessionKey, SessionRef, StreamName, WorkspaceId};
use turnkeep_core::model::{Row, RowKind, SessionImage, SessionRow, StreamRow};
use turnkeep_core::query::RowQuery;
use turnkeep_core::store::Store;

use super::OnProgress;
use super::content::portable;
use super::jsonl::{FORMAT_NAME, FORMAT_VERSION, Footer, Header};
use super::survey::Reporter;

/// Rows of one page.
const PAGE: u32 = 1_000;
/// Entries between two calls of the progress callback.
const REPORT_EVERY: u64 = 100;
/// How often the small rows are read until they all are of one moment.
const TRIES: u32 = 8;

/// What an export wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    /// The session.
    pub session: SessionRef,
    /// Its revision that was written.
    pub revision: u64,
    /// Rows, entries among them.
    pub rows: u64,
    /// Entries.
    pub entries: u64,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 over all lines before the footer, in hexadecimal digits.
    pub sha256: String,
}

/// Writes a session as it is at one moment: a header, a line for each row, a footer that proves them whole.
///
/// Runs, streams and records are read first, again and again until nothing moved meanwhile, and held in memory;
/// entries and events never change, so they follow page by page up to the numbers that were the highest then. Writing
/// the same state twice gives the same bytes, also after it was imported elsewhere.
///
/// # Errors
/// `NotFound` when this life of the session is over; `StaleLeaf` when it moves too fast or drops events that were to
/// be written; `Cancelled` when the callback says so; `Io` when the writer refuses; whatever the store answers. What
/// was written until then is no export: it has no footer.
pub async fn export<W: Write + Send>(
    store: &dyn Store,
    workspace: &WorkspaceId,
    session: &SessionRef,
    to: &mut W,
    on_progress: &mut OnProgress<'_>,
) -> Result<ExportReport> {
    let moment = Moment::of(store, workspace, session).await?;
    let entries = moment.row.head.map_or(0, |head| u64::from(head.get()));
    let mut reporter = Reporter::new(on_progress, entries);
    reporter.tell(0, REPORT_EVERY)?;
    let mut out = Out { to, digest: Sha256::new(), bytes: 0, rows: 0, id: session.id.clone() };
    out.line(&Header {
        format: FORMAT_NAME.to_owned(),
        version: FORMAT_VERSION,
        session: session.id.clone(),
        created_at: moment.row.created_at,
        entries,
    })?;
    out.row(Row::Session(SessionImage::from(&moment.row)))?;
    let mut written = 0;
    let mut query = rows_of(workspace, session, &[RowKind::Entry]);
    while written < entries {
        let page = store.rows(&query).await?;
        for row in page.items {
            let Row::Entry(entry) = &row else { continue };
            if moment.row.head.is_some_and(|head| entry.number <= head) {
                out.row(row)?;
                written += 1;
                reporter.tell(written, REPORT_EVERY)?;
            }
        }
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    if written != entries {
        return Err(moved(session, "entries are missing; verify the store"));
    }
    for run in moment.runs {
        out.row(run)?;
    }
    write_streams(store, workspace, session, moment.streams, &mut out).await?;
    for record in moment.records {
        out.row(record)?;
    }
    let digest = out.digest.clone().finalize().into();
    let footer = Footer::new(out.rows, entries, &digest);
    out.line(&footer)?;
    out.to.flush().map_err(write_failed)?;
    Ok(ExportReport {
        session: session.clone(),
        revision: moment.row.revision,
        rows: out.rows,
        entries,
        bytes: out.bytes,
        sha256: to_hex(&digest),
    })
}

/// Every stream, then every event up to the head that its stream had.
async fn write_streams<W: Write + Send>(
    store: &dyn Store,
    workspace: &WorkspaceId,
    session: &SessionRef,
    streams: Vec<StreamRow>,
    out: &mut Out<'_, W>,
) -> Result<()> {
    if streams.is_empty() {
        return Ok(());
    }
    /// Of one stream: the last event written, and the one to reach.
    struct Reach {
        last: u64,
        head: u64,
    }
    let mut reached: BTreeMap<StreamName, Reach> = BTreeMap::new();
    for stream in streams {
        reached.insert(stream.name.clone(), Reach { last: stream.floor, head: stream.head });
        out.row(Row::Stream(stream))?;
    }
    let dropped = || moved(session, "events were dropped while they were exported; export it again");
    let mut query = rows_of(workspace, session, &[RowKind::Event]);
    loop {
        let page = store.rows(&query).await?;
        for row in page.items {
            let Row::Event { stream, event } = &row else { continue };
            // Streams that began later, and events that came later, are not of that moment.
            let Some(reach) = reached.get_mut(stream).filter(|reach| event.number <= reach.head) else {
                continue;
            };
            if event.number != reach.last + 1 {
                return Err(dropped());
            }
            reach.last = event.number;
            out.row(row)?;
        }
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    if reached.values().all(|reach| reach.last == reach.head) { Ok(()) } else { Err(dropped()) }
}

fn moved(session: &SessionRef, message: &str) -> Error {
    Error::new(ErrorKind::StaleLeaf, message).with("session", &session.id).with_operation("export")
}

fn rows_of(workspace: &WorkspaceId, session: &SessionRef, kinds: &[RowKind]) -> RowQuery {
    let mut query = RowQuery::session(workspace.clone(), session.clone());
    query.kinds = kinds.to_vec();
    query.limit = PAGE;
    query
}

/// What of a session can change, as it was at one revision.
struct Moment {
    row: SessionRow,
    runs: Vec<Row>,
    streams: Vec<StreamRow>,
    records: Vec<Row>,
}

impl Moment {
    async fn of(store: &dyn Store, workspace: &WorkspaceId, session: &SessionRef) -> Result<Self> {
        let mut before = session_row(store, workspace, session).await?;
        for _ in 0..TRIES {
            let mut moment = Self { row: before, runs: Vec::new(), streams: Vec::new(), records: Vec::new() };
            let mut query = rows_of(workspace, session, &[RowKind::Run, RowKind::Stream, RowKind::Record]);
            loop {
                let page = store.rows(&query).await?;
                for row in page.items {
                    match row {
                        Row::Run(_) => moment.runs.push(row),
                        Row::Record(_) => moment.records.push(row),
                        Row::Stream(stream) => moment.streams.push(stream),
                        Row::Session(_) | Row::Entry(_) | Row::Event { .. } => {}
                    }
                }
                query.cursor = page.next;
                if query.cursor.is_none() {
                    break;
                }
            }
            let after = session_row(store, workspace, session).await?;
            if after.revision == moment.row.revision {
                return Ok(moment);
            }
            before = after;
        }
        Err(moved(session, "the session moves too fast to be exported; wait until its run is over"))
    }
}

async fn session_row(store: &dyn Store, workspace: &WorkspaceId, session: &SessionRef) -> Result<SessionRow> {
    let key = SessionKey { workspace: workspace.clone(), id: session.id.clone() };
    store.session(&key).await?.filter(|row| row.incarnation == session.incarnation).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "there is no such session")
            .with("session", &session.id)
            .with_operation("export")
    })
}

struct Out<'a, W> {
    to: &'a mut W,
    digest: Sha256,
    bytes: u64,
    rows: u64,
    id: SessionId,
}

impl<W: Write> Out<'_, W> {
    fn row(&mut self, row: Row) -> Result<()> {
        let row = portable(row, &self.id);
        self.rows += 1;
        self.line(&row)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(value).map_err(|error| {
            Error::new(ErrorKind::Invalid, "a row cannot be written as JSON").with_source(error)
        })?;
        line.push(b'\n');
        self.digest.update(&line);
        self.bytes += line.len() as u64;
        self.to.write_all(&line).map_err(write_failed)
    }
}

fn write_failed(error: io::Error) -> Error {
    Error::new(ErrorKind::Io, "the export cannot be written").with_source(error).with_operation("export")
}
