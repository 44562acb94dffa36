//! Forks: a session of its own that begins with what another one holds, with the same numbers on all branches.
//!
//! The child is built hidden, in slices, so that other writers get their turn in between; it comes into use when it is
//! complete. The same request goes on with what a dead builder left, and answers with the same child ever after.

mod boundary;

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use turnkeep_core::commit::{Fingerprint, Request, RequestId, SessionPatch};
use turnkeep_core::digest::FieldDigest;
use turnkeep_core::error::{Error, ErrorKind, ForkReason, Result};
use turnkeep_core::id::{EntryNo, SessionId, SessionRef};
use turnkeep_core::limits::{COLUMN_BYTES, SLICE_ROWS};
use turnkeep_core::model::{ForkOrigin, Profile, SessionRow, Title, TitleSource};
use turnkeep_core::{Fence, Payload, mutant};

use crate::awaitable::awaitable;
use crate::base::Base;
use crate::keeper::Queue;
use crate::lease::release;
use crate::recovery;
use crate::run::partial::beginning;
use crate::session::{Session, displayed};
use crate::transfer::builder::{Begun, Builder, Site, again, begin};
use boundary::{Cut, find, refused};

/// Entries of the first slice. Later ones take as many as fit into [`SLICE_TIME`].
const FIRST_SLICE: u32 = 200;
/// How long others wait for a slice, about.
const SLICE_TIME: Duration = Duration::from_millis(20);

/// The display name of a fork.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForkTitle {
    /// That of the source with ` (fork)` after it, cut if it would be too long; none if the source has none.
    #[default]
    Marked,
    /// That of the source.
    Same,
    /// None.
    Untitled,
    /// This one, as a person chose it.
    Given(String),
}

/// A fork to be made; await it.
#[derive(Debug)]
#[must_use = "nothing is forked until this is awaited"]
pub struct ForkSession {
    source: Session,
    at: Option<EntryNo>,
    child: Option<SessionId>,
    title: ForkTitle,
    request: Result<RequestId>,
}

/// A fork.
#[derive(Clone, Debug)]
pub struct Forked {
    /// The child.
    pub session: Session,
    /// The session that it came from.
    pub parent: SessionId,
    /// What was taken, and up to where.
    pub origin: ForkOrigin,
    /// Whether an earlier call with the same request made it.
    pub repeated: bool,
}

/// What a builder needs to go on, kept in the hidden child's own data until the seal removes it.
#[derive(Serialize, Deserialize)]
struct Plan {
    leaf: Option<EntryNo>,
}

impl Session {
    /// Makes a session of its own out of this one: every entry up to a boundary, on all branches, with the same numbers,
    /// and the verdict of every run that they name. Await it, or say more first; see [`ForkSession`].
    ///
    /// The same request id answers with the same child for as long as that child lives, also when this session moved on
    /// or was deleted. It is 1 to 256 bytes.
    ///
    /// # Errors
    /// On await: `ForkRefused` with its reason; `RequestConflict` when the id was used for another fork; `Invalid` or
    /// `TooLarge` for an id that is none; `LeaseHeld` while somebody else makes the same fork; `AlreadyExists` when the
    /// id asked for is taken.
    pub fn fork(&self, request_id: impl Into<String>) -> ForkSession {
        let request = RequestId::host(request_id);
        ForkSession { source: self.clone(), at: None, child: None, title: ForkTitle::default(), request }
    }
}

impl ForkSession {
    /// Only up to this entry: the end of a turn, or the last words of one. Everything by default.
    pub fn at(mut self, entry: EntryNo) -> Self {
        self.at = Some(entry);
        self
    }

    /// Gives the child this id; one is drawn by default.
    pub fn id(mut self, id: SessionId) -> Self {
        self.child = Some(id);
        self
    }

    /// The display name of the child.
    pub fn title(mut self, title: ForkTitle) -> Self {
        self.title = title;
        self
    }

    async fn go(self) -> Result<Forked> {
        let id = self.request?;
        let workspace = self.source.workspace();
        let base = workspace.base();
        let from = self.source.session_ref().clone();
        let meant = meaning(&from, self.at, self.child.as_ref(), &self.title);
        let request = Request::in_workspace(id.clone()).fingerprint(meant);
        let site = Site {
            store: base.store().as_ref(),
            workspace: base.workspace(),
            entropy: base.entropy(),
            operation: "fork",
        };
        // Before any look at the source, which may be gone by now, or at work.
        let begun = match base.recall(request).await? {
            Some(receipt) => again(site, &receipt).await?,
            None => None,
        };
        let begun = match begun {
            Some(begun) => begun,
            None => {
                let (row, cut) = cut(&self.source, self.at).await?;
                let profile = profile(&row, &cut, self.title)?;
                let child = match self.child {
                    Some(child) => child,
                    None => SessionId::new(base.fresh_id()?)?,
                };
                begin(site, &child, &profile, &id, meant).await?
            }
        };
        let (child, repeated) = match begun {
            Begun::Complete(child) => (child, true),
            Begun::Taken(row) => {
                let message = "a session with this id is there and is no fork by this request";
                return Err(Error::new(ErrorKind::AlreadyExists, message).with("session", &row.id));
            }
            Begun::Building(builder, built) => {
                let queue = workspace.keeper().queue_handle();
                let care = Care { base, queue, fence: Some(builder.fence().clone()) };
                let child = fill(*builder, &from).await;
                care.done();
                (child?, built.rows > 0)
            }
        };
        let session = workspace.sessions().open(&child.id).await?;
        let row = session.info().await?;
        let origin = row.profile.fork.ok_or_else(|| no_origin(&row))?;
        Ok(Forked { session, parent: from.id, origin, repeated })
    }
}
awaitable!(ForkSession => Result<Forked>);

/// The source as it is, and where it is cut. What a dead process left at work in it is closed first.
async fn cut(source: &Session, at: Option<EntryNo>) -> Result<(SessionRow, Cut)> {
    match try_cut(source, at).await {
        Err(error) if error.kind() == ErrorKind::ForkRefused(ForkReason::SourceActive) => {
            recovery::clear_the_way(source, error).await?;
            try_cut(source, at).await
        }
        found => found,
    }
}

async fn try_cut(source: &Session, at: Option<EntryNo>) -> Result<(SessionRow, Cut)> {
    let gone = || refused(source, ForkReason::SourceNotFound, "there is no such session to fork");
    let absent = |error: Error| if error.kind() == ErrorKind::NotFound { gone() } else { error };
    let row = source.info().await.map_err(absent)?;
    let cut = find(source, &row, at).await.map_err(absent)?;
    Ok((row, cut))
}

/// A title that says that it is a fork's. It has to fit where the source's did.
fn marked(title: &str) -> String {
    const MARK: &str = " (fork)";
    format!("{}{MARK}", beginning(title, COLUMN_BYTES - MARK.len()))
}

/// What is said of the child: where it came from, and what it has in common with its source.
fn profile(source: &SessionRow, cut: &Cut, title: ForkTitle) -> Result<Profile> {
    let of_source = source.profile.title.clone();
    let title = match title {
        ForkTitle::Marked => {
            of_source.map(|title| Title { text: marked(&title.text), source: TitleSource::Auto })
        }
        ForkTitle::Same => of_source,
        ForkTitle::Untitled => None,
        ForkTitle::Given(text) => displayed(Title { text, source: TitleSource::Manual }),
    };
    Ok(Profile {
        title,
        cwd: source.profile.cwd.clone(),
        audience: source.profile.audience,
        parent: Some(source.id.clone()).filter(|_| !mutant::is("fork/parent-not-recorded")),
        fork: Some(cut.origin),
        project: source.profile.project.clone(),
        // A channel leads to one session, and what the host keeps there is about the source.
        channel: None,
        meta: Some(Payload::from_value(&Plan { leaf: cut.leaf })?),
        pinned: false,
        archived: false,
    })
}

/// Copies what is missing, and puts the child into use.
async fn fill(mut builder: Builder<'_>, from: &SessionRef) -> Result<SessionRef> {
    match copy(&mut builder, from).await {
        Ok(leaf) => {
            let patch = SessionPatch { meta: Some(None), ..SessionPatch::default() };
            builder.seal(leaf, Some(patch)).await
        }
        Err(error) => {
            builder.give_up(&error).await;
            Err(error)
        }
    }
}

async fn copy(builder: &mut Builder<'_>, from: &SessionRef) -> Result<Option<EntryNo>> {
    let row = builder.row().await?;
    let ForkOrigin { boundary, .. } = row.profile.fork.ok_or_else(|| no_origin(&row))?;
    let Plan { leaf } = row.profile.meta.as_ref().ok_or_else(|| no_origin(&row))?.parse()?;
    let (mut done, mut slice) = (row.head, FIRST_SLICE);
    while done.is_none_or(|done| done < boundary) {
        let last = done.map_or(0, EntryNo::get).saturating_add(slice).min(boundary.get());
        let Some(through) = EntryNo::new(last) else { break };
        let begun = Instant::now();
        builder.copy(from, done, through).await?;
        // Entries may be large: what counts is how long the others wait.
        slice = if begun.elapsed() > SLICE_TIME { (slice / 2).max(1) } else { (slice * 2).min(SLICE_ROWS) };
        done = Some(through);
    }
    Ok(leaf)
}

fn no_origin(row: &SessionRow) -> Error {
    Error::new(ErrorKind::Corrupt, "the fork does not say where it came from").with("session", &row.id)
}

/// What makes a request the same: what was asked for, not what it led to.
fn meaning(
    from: &SessionRef,
    at: Option<EntryNo>,
    child: Option<&SessionId>,
    title: &ForkTitle,
) -> Fingerprint {
    let digest = FieldDigest::new("fork/1").text(from.id.as_str()).bytes(from.incarnation.as_bytes());
    let at = mutant::either("fork/any-boundary-is-the-same", None, at);
    let digest = digest.number(at.map_or(0, |at| u64::from(at.get()))).maybe(child.map(SessionId::as_str));
    let (mode, given) = match title {
        ForkTitle::Marked => (0, None),
        ForkTitle::Same => (1, None),
        ForkTitle::Untitled => (2, None),
        ForkTitle::Given(text) => (3, Some(text.as_str())),
    };
    Fingerprint::from_bytes(digest.number(mode).maybe(given).finish())
}

/// Gives the builder's lease back if nobody waits for the fork any more, so that the next try can go on at once.
struct Care<'a> {
    base: &'a Base,
    queue: Queue,
    fence: Option<Fence>,
}

impl Care<'_> {
    fn done(mut self) {
        self.fence = None;
    }
}

impl Drop for Care<'_> {
    fn drop(&mut self) {
        if let Some(fence) = self.fence.take() {
            let base = self.base.clone();
            self.queue.queue(async move {
                // It expires otherwise.
                let _ = release(&base, &[fence]).await;
            });
        }
    }
}
