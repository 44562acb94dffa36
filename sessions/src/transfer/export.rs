//! Writes a session to a file.

use std::io::{self, Write};

use serde::Serialize;
use sha2::{Digest, Sha256};
use turnkeep_core::digest::to_hex;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{SessionId, SessionRef, WorkspaceId};
use turnkeep_core::model::{Row, RowKind};
use turnkeep_core::store::Store;

use super::OnProgress;
use super::content::portable;
use super::jsonl::{FORMAT_NAME, FORMAT_VERSION, Footer, Header};
use super::moment::Moment;
use super::survey::Reporter;

/// Entries between two calls of the progress callback.
const REPORT_EVERY: u64 = 100;

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
/// Others may go on writing to it; what they write comes too late for this file. Writing the same state twice gives the
/// same bytes, also after it was imported elsewhere.
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
    let moment = Moment::of(store, workspace, session, "export").await?;
    let entries = moment.entries();
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
    let mut written = 0;
    let mut walk = moment.walk(store);
    while let Some(rows) = walk.next().await? {
        for row in rows {
            let is_entry = row.kind() == RowKind::Entry;
            out.row(row)?;
            if is_entry {
                written += 1;
                reporter.tell(written, REPORT_EVERY)?;
            }
        }
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
    let kind = ErrorKind::of_io(&error);
    Error::new(kind, "the export cannot be written").with_source(error).with_operation("export")
}
