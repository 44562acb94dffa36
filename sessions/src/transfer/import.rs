//! Reads a session from a file.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use turnkeep_core::commit::{Fingerprint, RequestId};
use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{SessionId, SessionRef, WorkspaceId};
use turnkeep_core::model::{Row, RowKind};
use turnkeep_core::query::RecordQuery;
use turnkeep_core::store::Store;

use super::OnProgress;
use super::builder::{Begun, Builder, Site, begin};
use super::content::ContentDigest;
use super::filling::Filling;
use super::moment::rows_of;
use super::report::{DropReason, Dropped, Format, ImportReport};
use super::survey::{Item, Reader, Reporter, Survey, Taking, read_failed, rewind, survey};
use crate::entropy::{Entropy, SystemEntropy};
use crate::redact::Redaction;

/// How often a build is begun again after it was found to be something else than expected.
const TRIES: u32 = 3;

/// How to import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The id of the new session; `None` takes the one in the file.
    pub id: Option<SessionId>,
    /// Where random bits come from.
    pub entropy: Arc<dyn Entropy>,
    /// What is hidden of all that is stored.
    pub redaction: Option<Redaction>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { id: None, entropy: Arc::new(SystemEntropy), redaction: None }
    }
}

impl ImportOptions {
    /// Gives the new session an id.
    #[must_use]
    pub fn with_id(mut self, id: SessionId) -> Self {
        self.id = Some(id);
        self
    }

    /// Hides what must not be stored.
    #[must_use]
    pub fn with_redactor(mut self, redaction: impl Into<Redaction>) -> Self {
        self.redaction = Some(redaction.into());
        self
    }
}

/// Reads a session from a file: an export of this software, or a session of the pi coding agent (versions 1 to 3).
///
/// The file is read twice, in pieces, on the calling thread: first to know what it is and what is wrong with it, then
/// to write. The session is hidden until it is complete. A second import of the same file adds nothing and says so,
/// also after the session went on or was renamed; an import that died is taken up where it stopped.
///
/// # Errors
/// `Invalid` when the file is empty or no session; `NewerFormat` or `Unsupported` for a version that is not known;
/// `AlreadyExists` when the id belongs to a session with other content; `LeaseHeld` while somebody else imports the
/// same; `Cancelled` when the callback says so; `Io` when the file cannot be read or changes meanwhile; whatever the
/// store answers. No error leaves anything that is visible, but for a `CommitUnknown` of the last commit: import again
/// to learn whether it landed.
pub async fn import<R: Read + Seek + Send>(
    store: &dyn Store,
    workspace: &WorkspaceId,
    file: &mut R,
    options: &ImportOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<ImportReport> {
    let length = file.seek(SeekFrom::End(0)).map_err(read_failed)?;
    let taking =
        Taking { payload_bytes: store.info().limits.payload_bytes, redaction: options.redaction.as_ref() };
    let mut reporter = Reporter::new(on_progress, length.saturating_mul(2));
    reporter.bytes(0)?;
    let Survey { format, id, image, file: digest, content, tally, dropped, wholeness } =
        survey(file, taking, &mut reporter)?;
    let id = options.id.clone().unwrap_or(id);
    let meant = FieldDigest::new("import/1").text(format.as_str()).bytes(&digest).text(id.as_str()).finish();
    let request = RequestId::host(format!("import/1/{}", to_hex(&meant)))?;
    let meant = Fingerprint::from_bytes(meant);
    let site = Site { store, workspace, entropy: options.entropy.as_ref(), operation: "import" };
    let mut dropped = dropped;
    for _ in 0..TRIES {
        reporter.begin_at(length);
        let (builder, built) = match begin(site, &id, &image.profile, &request, meant).await? {
            Begun::Building(builder, built) => (builder, built),
            Begun::Complete(session) => {
                return Ok(already_there(tally.report(format, session, dropped, wholeness)));
            }
            Begun::Taken(row) => {
                let session = row.session_ref();
                if content_of(store, workspace, &session).await? == content {
                    return Ok(already_there(tally.report(format, session, dropped, wholeness)));
                }
                return Err(Error::new(
                    ErrorKind::AlreadyExists,
                    "a session with this id is there and has other content; import the file under another id",
                )
                .with("session", &id)
                .with_operation("import"));
            }
        };
        let mut image = image.clone();
        if format == Format::Pi {
            // The file has no place in lists; the one of the moment of import is the natural one.
            image.activity = builder.row().await?.activity;
        }
        let leaf = image.leaf;
        let taken = dropped.len();
        let mut filling = Filling::new(*builder, built);
        let file = Source { format, file: &mut *file, digest, taking };
        let filled = fill(&mut filling, file, image, &mut dropped, &mut reporter).await;
        match filled {
            Ok(true) => {
                let session = filling.seal(leaf).await?;
                dropped.sort_by_key(|line| line.line);
                let mut report = tally.report(format, session, dropped, wholeness);
                report.added = report.entries;
                reporter.bytes(length)?;
                return Ok(report);
            }
            Ok(false) => {
                // What a former builder left is not what this file says: begin again.
                filling.abandon().await?;
                dropped.truncate(taken);
            }
            Err(error) => {
                filling.give_up(&error).await;
                return Err(error);
            }
        }
    }
    Err(Error::new(ErrorKind::Busy, "others keep changing the session that is being imported")
        .with("session", &id)
        .with_operation("import"))
}

fn already_there(mut report: ImportReport) -> ImportReport {
    report.already_there = report.entries;
    report
}

/// The file, once more.
struct Source<'a, R> {
    format: Format,
    file: &'a mut R,
    /// Over its lines, when it was read first.
    digest: [u8; 32],
    taking: Taking<'a>,
}

/// Reads the file again and writes it. Answers `false` if a former builder had written something else.
async fn fill<R: Read + Seek + Send>(
    filling: &mut Filling<'_>,
    source: Source<'_, R>,
    image: turnkeep_core::model::SessionImage,
    dropped: &mut Vec<Dropped>,
    reporter: &mut Reporter<'_, '_>,
) -> Result<bool> {
    if !filling.add(Row::Session(image)).await? {
        return Ok(false);
    }
    let mut reader = Reader::new(source.format, rewind(source.file)?);
    while let Some(item) = reader.next_item(source.taking)? {
        let as_expected = match item {
            Item::Row { line, row } => {
                if is_taken(filling.builder(), &row).await? {
                    dropped.push(Dropped { line, reason: DropReason::RecordTaken });
                    true
                } else {
                    filling.add(row).await?
                }
            }
            Item::StandIn(row) => filling.add(row).await?,
            // Named by the first reading.
            Item::Dropped(_) | Item::Missing(_) => true,
        };
        if !as_expected {
            return Ok(false);
        }
        reporter.bytes(reader.bytes_read())?;
    }
    if reader.file_digest() != source.digest {
        return Err(Error::new(ErrorKind::Io, "the file changed while it was imported; import it again"));
    }
    filling.end().await
}

/// Whether the workspace has this record for somebody else.
async fn is_taken(builder: &Builder<'_>, row: &Row) -> Result<bool> {
    let Row::Record(record) = row else { return Ok(false) };
    builder.has_record(record).await
}

/// The digest of what a session holds.
async fn content_of(store: &dyn Store, workspace: &WorkspaceId, session: &SessionRef) -> Result<[u8; 32]> {
    let mut content = ContentDigest::new(SessionId::new("session")?);
    let kinds = [RowKind::Entry, RowKind::Run, RowKind::Stream, RowKind::Event, RowKind::Record];
    let mut query = rows_of(workspace, session, &kinds);
    loop {
        let page = store.rows(&query).await?;
        for row in &page.items {
            content.fold(row);
        }
        query.cursor = page.next;
        if query.cursor.is_none() {
            return Ok(content.finish());
        }
    }
}

impl Builder<'_> {
    async fn has_record(&self, record: &turnkeep_core::model::Record) -> Result<bool> {
        let mut query = RecordQuery::new(self.workspace().clone(), record.collection.clone());
        query.key = Some(record.key.clone());
        query.limit = 1;
        Ok(!self.store().records(&query).await?.items.is_empty())
    }
}
