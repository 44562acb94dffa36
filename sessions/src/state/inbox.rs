//! Inboxes: what people write to a run at work, each note consumed exactly once.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use turnkeep_core::commit::{Expect, Op};
use turnkeep_core::digest::{FieldDigest, to_hex};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{RecordKey, RunId, SessionRef, Status};
use turnkeep_core::model::Record;
use turnkeep_core::query::Order;
use turnkeep_core::{Page, Payload, Timestamp, mutant};

use super::records;
use crate::awaitable::awaitable;
use crate::paged::{Asked, paged};
use crate::session::{Plan, Session};

/// Notes that one consumption takes at most.
const MOST: usize = 256;

/// Notes that people leave for whoever executes the session: guidance, approvals or requests to cancel.
///
/// Writing one needs no lease, so that it works while a run executes. A note is kept when it is consumed. However many
/// consume at once, in whatever process, each note goes to one of them.
#[derive(Clone, Debug)]
pub struct Inbox {
    session: Session,
    collection: &'static str,
}

/// A note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its id, unique in its inbox.
    pub id: String,
    /// What it says.
    pub text: String,
    /// Who wrote it.
    pub from: Option<String>,
    /// The only run that it is for.
    pub run: Option<RunId>,
    /// Whatever else comes with it, byte for byte.
    pub data: Option<Payload>,
    /// Whether it waits.
    pub status: NoteStatus,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it was consumed.
    pub consumed_at: Option<Timestamp>,
    /// Who consumed it.
    pub consumed_by: Option<String>,
}

/// Whether a note waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoteStatus {
    /// It waits to be consumed.
    Pending,
    /// Somebody has consumed it.
    Consumed,
}

/// The stored form.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Written {
    id: String,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consumed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consumed_by: Option<String>,
}

/// A note to be left; await it.
#[derive(Debug)]
#[must_use = "nothing is written until this is awaited"]
pub struct Post {
    inbox: Inbox,
    id: Option<String>,
    text: String,
    from: Option<String>,
    run: Option<RunId>,
    data: Option<Payload>,
}

/// A list of notes; await it.
#[derive(Debug)]
#[must_use = "nothing is read until this is awaited"]
pub struct ListNotes {
    inbox: Inbox,
    status: Option<NoteStatus>,
    page: Asked,
}

/// Notes to be consumed; await it.
#[derive(Debug)]
#[must_use = "nothing is consumed until this is awaited"]
pub struct Consume {
    inbox: Inbox,
    ids: Option<HashSet<String>>,
    run: Option<RunId>,
    by: Option<String>,
    limit: usize,
}

impl NoteStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Consumed => "consumed",
        }
    }

    fn column(self) -> Result<Status> {
        Status::new(self.as_str())
    }
}

impl Inbox {
    pub(crate) fn new(session: Session, collection: &'static str) -> Self {
        Self { session, collection }
    }

    /// Leaves a note; await it, or say more first.
    pub fn post(&self, text: impl Into<String>) -> Post {
        let text = text.into();
        Post { inbox: self.clone(), id: None, text, from: None, run: None, data: None }
    }

    /// The notes in the order in which they were written. Await it, or narrow it first.
    pub fn list(&self) -> ListNotes {
        ListNotes { inbox: self.clone(), status: None, page: Asked::default() }
    }

    /// Takes notes that wait, the oldest first. Each goes to one consumer. Await it, or narrow it first.
    pub fn consume(&self) -> Consume {
        Consume { inbox: self.clone(), ids: None, run: None, by: None, limit: 100 }
    }
}

impl Post {
    /// Gives it an id, so that writing it again is refused. One is drawn by default.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Who writes it.
    pub fn from(mut self, from: impl Into<String>) -> Self {
        self.from = Some(from.into());
        self
    }

    /// Only this run may consume it.
    pub fn run(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// Whatever else comes with it, byte for byte.
    pub fn data(mut self, data: Payload) -> Self {
        self.data = Some(data);
        self
    }

    /// `AlreadyExists` for an id that the inbox has.
    async fn go(self) -> Result<Note> {
        let Self { inbox, id, text, from, run, data } = self;
        let session = inbox.session.session_ref();
        let id = match id {
            Some(id) => id,
            None => inbox.session.workspace().base().fresh_id()?,
        };
        let key = key(session, &id)?;
        let written = Written { id: id.clone(), text, from, run, data, consumed_at: None, consumed_by: None };
        let status = Some(NoteStatus::Pending.column()?);
        let op = records::put(inbox.collection, key, Some(session), status, Expect::Absent, &written)?;
        match inbox.session.write(Plan::new(move |_| Ok(vec![op.clone()])).shared()).await {
            Ok(_) => Ok(written.note(NoteStatus::Pending, inbox.session.workspace().now())),
            Err(error) if error.kind() == ErrorKind::VersionConflict => Err(Error::new(
                ErrorKind::AlreadyExists,
                "a note with this id is there; it was left as it is",
            )
            .with("session", inbox.session.id())
            .with("note", id)),
            Err(error) => Err(error),
        }
    }
}
awaitable!(Post => Result<Note>);

impl ListNotes {
    /// Only those in this state.
    pub fn status(mut self, status: NoteStatus) -> Self {
        self.status = Some(status);
        self
    }

    async fn records(self) -> Result<Page<Record>> {
        let status = self.status.map(NoteStatus::column).transpose()?;
        records::owned(&self.inbox.session, self.inbox.collection, move |query| {
            query.status = status;
            (query.order, query.limit, query.cursor) = self.page.parts();
        })
        .await
    }

    async fn go(self) -> Result<Page<Note>> {
        let page = self.records().await?;
        let items = page.items.iter().map(Note::from_record).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next, total: page.total })
    }
}
paged!(ListNotes.page, Order: "ascending, as they were written");
awaitable!(ListNotes => Result<Page<Note>>);

impl Consume {
    /// Only those with these ids. What somebody else consumed before is left out of the answer.
    pub fn ids<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.ids = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// For this run: those that are for it alone, and those that are for any. Without it, those for any.
    pub fn run(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }

    /// Who consumes them; kept in the note.
    pub fn by(mut self, consumer: impl Into<String>) -> Self {
        self.by = Some(consumer.into());
        self
    }

    /// At most this many; 100 by default, 256 at the most.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit.min(MOST);
        self
    }

    async fn go(self) -> Result<Vec<Note>> {
        let mut taken = Vec::new();
        loop {
            let most = self.limit.saturating_sub(taken.len()).min(records::AT_ONCE as usize);
            match records::again(|| self.once(most)).await {
                Ok(notes) => {
                    let ended = notes.len() < most;
                    taken.extend(notes);
                    if ended || taken.len() >= self.limit {
                        return Ok(taken);
                    }
                }
                Err(error) if taken.is_empty() => return Err(error),
                // What was taken must be heard of: nobody gets it again.
                Err(_) => return Ok(taken),
            }
        }
    }

    /// Takes the oldest `most` in one commit.
    async fn once(&self, most: usize) -> Result<Vec<Note>> {
        let waiting = self.waiting(most).await?;
        if waiting.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.inbox.session.workspace().now();
        let mut ops: Vec<Op> = Vec::with_capacity(waiting.len());
        let mut notes = Vec::with_capacity(waiting.len());
        for (record, mut written) in waiting {
            written.consumed_at = Some(now);
            written.consumed_by.clone_from(&self.by);
            let same = mutant::either("inbox/consumed-twice", Expect::Any, records::expect(Some(&record)));
            let status = Some(NoteStatus::Consumed.column()?);
            let owner = record.owner.as_ref();
            ops.push(records::put(self.inbox.collection, record.key.clone(), owner, status, same, &written)?);
            notes.push(written.note(NoteStatus::Consumed, record.created_at));
        }
        self.inbox.session.write(Plan::new(move |_| Ok(ops.clone())).shared()).await?;
        Ok(notes)
    }

    /// The oldest `most` that may be taken now.
    async fn waiting(&self, most: usize) -> Result<Vec<(Record, Written)>> {
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let mut list = self.inbox.list().status(NoteStatus::Pending);
            list.page.cursor = cursor;
            let page = list.records().await?;
            for record in page.items {
                let written: Written = record.payload.parse()?;
                let named = self.ids.as_ref().is_none_or(|ids| ids.contains(&written.id));
                if named && (written.run.is_none() || written.run == self.run) && found.len() < most {
                    found.push((record, written));
                }
            }
            cursor = page.next;
            if cursor.is_none() || found.len() >= most {
                return Ok(found);
            }
        }
    }
}
awaitable!(Consume => Result<Vec<Note>>);

impl Written {
    fn note(self, status: NoteStatus, created_at: Timestamp) -> Note {
        let Self { id, text, from, run, data, consumed_at, consumed_by } = self;
        Note { id, text, from, run, data, status, created_at, consumed_at, consumed_by }
    }
}

impl Note {
    fn from_record(record: &Record) -> Result<Self> {
        let written: Written = record.payload.parse()?;
        let waits =
            record.status.as_ref().is_some_and(|status| status.as_str() == NoteStatus::Pending.as_str());
        let status = if waits { NoteStatus::Pending } else { NoteStatus::Consumed };
        Ok(written.note(status, record.created_at))
    }
}

/// Unique in the workspace, for an id that is unique in the session.
fn key(session: &SessionRef, id: &str) -> Result<RecordKey> {
    if id.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "the id of the note is empty"));
    }
    let session = session.incarnation.to_string();
    RecordKey::new(to_hex(&FieldDigest::new("note/1").text(&session).text(id).finish()))
}
