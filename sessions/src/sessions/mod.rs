//! Creating, finding, listing and deleting sessions.

mod create;
mod find;
mod list;

use turnkeep_core::commit::{Commit, Fingerprint, Op, Request, RequestId, SessionPatch};
use turnkeep_core::digest::FieldDigest;
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::SessionId;
use turnkeep_core::mutant;

pub use create::CreateSession;
pub(crate) use create::path_text;
pub(crate) use find::row;
pub use list::ListSessions;

use crate::awaitable::awaitable;
use crate::base::Repeat;
use crate::draft::Directories;
use crate::recovery;
use crate::session::Session;
use crate::workspace::Workspace;

/// The sessions of a workspace.
#[derive(Clone, Debug)]
pub struct Sessions {
    workspace: Workspace,
}

impl Sessions {
    pub(crate) fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }

    /// Makes a session. Await it, or say more first; see [`CreateSession`].
    pub fn create(&self) -> CreateSession {
        CreateSession::new(self.workspace.clone())
    }

    /// Lists sessions, the one that changed last first. Await it, or narrow it first; see [`ListSessions`].
    pub fn list(&self) -> ListSessions {
        ListSessions::new(self.workspace.clone())
    }

    /// Deletes a session and everything of it: it is gone from every read at once, and its rows are removed in the
    /// background. Await it, or force it first; see [`DeleteSession`].
    pub fn delete(&self, id: SessionId) -> DeleteSession {
        DeleteSession { workspace: self.workspace.clone(), id, force: false, request: Ok(None) }
    }

    /// Opens the session with exactly this id.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    pub async fn open(&self, id: &SessionId) -> Result<Session> {
        find::open(&self.workspace, id).await
    }

    /// Opens the session with exactly this id, else the only one whose id begins with it.
    ///
    /// # Errors
    /// `NotFound` for none; `Ambiguous` for several, with up to ten candidates in the error's context; `Invalid` or
    /// `TooLarge` for a text that can be no id.
    pub async fn open_by_prefix(&self, prefix: &str) -> Result<Session> {
        find::open_by_prefix(&self.workspace, prefix).await
    }

    /// Opens what a person names: an id, the beginning of one, or a directory, which stands for the session that
    /// changed last in it.
    ///
    /// # Errors
    /// As [`open_by_prefix`](Self::open_by_prefix).
    pub async fn open_by_path_or_id(&self, text: &str) -> Result<Session> {
        find::open_by_path_or_id(&self.workspace, text).await
    }

    /// Opens the only session with exactly this title, among those that a person can continue. Titles need not be unique.
    ///
    /// # Errors
    /// `NotFound` for none; `Ambiguous` for several, with up to ten candidates in the error's context.
    pub async fn open_by_title(&self, title: &str) -> Result<Session> {
        find::open_by_title(&self.workspace, title).await
    }

    /// The additional directories of a session, as its current branch has them, by its id: nothing else of it is read.
    /// `None` when none were ever set.
    ///
    /// # Errors
    /// `NotFound` when there is no such session; `Invalid` when the stored set does not fit.
    pub async fn directories(&self, id: &SessionId) -> Result<Option<Directories>> {
        let latest = self.open(id).await?.latest_directories().await?;
        Ok(latest.map(|latest| latest.value))
    }

    /// Opens the session that changed last in a directory, among those that a person can continue. `None` when there
    /// is none; archived ones are passed over.
    ///
    /// # Errors
    /// `Invalid` when the directory has no UTF-8 form.
    pub async fn recent_in(&self, cwd: impl AsRef<std::path::Path> + Send) -> Result<Option<Session>> {
        find::recent(&self.workspace, Some(cwd.as_ref())).await
    }

    /// Opens the session that changed last, in any directory, among those that a person can continue.
    ///
    /// # Errors
    /// Whatever the store answers.
    pub async fn recent(&self) -> Result<Option<Session>> {
        find::recent(&self.workspace, None).await
    }

    /// Continues the session that changed last in a directory, or makes one for it.
    ///
    /// # Errors
    /// `Invalid` when the directory has no UTF-8 form.
    pub async fn continue_recent(&self, cwd: impl AsRef<std::path::Path> + Send) -> Result<Session> {
        match self.recent_in(cwd.as_ref()).await? {
            Some(session) => Ok(session),
            None => self.create().cwd(cwd.as_ref()).await,
        }
    }
}

/// A session to be deleted; await it.
#[derive(Debug)]
#[must_use = "nothing is deleted until this is awaited"]
pub struct DeleteSession {
    workspace: Workspace,
    id: SessionId,
    force: bool,
    request: Result<Option<RequestId>>,
}

impl DeleteSession {
    /// Deletes it also when somebody executes a run in it; that owner's writes are refused afterwards.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Makes the delete safe to repeat from anywhere: a repeat does nothing, also when the id was used again since.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request = RequestId::host(id).map(Some);
        self
    }

    async fn go(self) -> Result<()> {
        let base = self.workspace.base();
        let meant = FieldDigest::new("delete/1").text(self.id.as_str()).number(u64::from(self.force));
        let meant = Fingerprint::from_bytes(meant.finish());
        let repeat = match self.request? {
            Some(id) => {
                // Before any look at the session: it may be gone, or another one may have its id by now.
                let request = Request::in_workspace(id.clone()).fingerprint(meant);
                if base.recall(request).await?.is_some() {
                    return Ok(());
                }
                Repeat { id: Some(id), fingerprint: Some(meant) }
            }
            None => Repeat::default(),
        };
        let row = match find::row(&self.workspace, &self.id).await? {
            Some(row) => row,
            None => return Err(not_found(&self.id)),
        };
        let op = Op::DeleteSession { session: row.session_ref(), force: self.force };
        let away = SessionPatch { archived: Some(true), ..SessionPatch::default() };
        let away = Op::PatchSession { session: row.session_ref(), patch: away };
        let op = mutant::either("sessions/delete-puts-away", away, op);
        let commit =
            Commit::new(base.workspace().clone()).request(base.request_in_workspace(repeat, None)?).op(op);
        match base.commit(commit.clone()).await {
            Err(error) if recovery::may_help(error.kind()) => {
                // What a dead process left behind must not keep a person from deleting it.
                if recovery::recover_session(base, &row.session_ref()).await?.is_none() {
                    return Err(error);
                }
                base.commit(commit).await.map(drop)
            }
            deleted => deleted.map(drop),
        }
    }
}
awaitable!(DeleteSession => Result<()>);

pub(crate) fn not_found(id: &SessionId) -> Error {
    Error::new(ErrorKind::NotFound, "no session has this id; list the sessions to see what there is")
        .with("session", id)
}
