//! Making a session.

use std::path::{Path, PathBuf};

use turnkeep_core::Payload;
use turnkeep_core::commit::{Commit, NewSession, Op, RequestId};
use turnkeep_core::error::{Error, ErrorKind, Result};
use turnkeep_core::id::{Incarnation, SessionId};
use turnkeep_core::model::{Audience, Channel, Profile, SessionState, Title, TitleSource};

use crate::awaitable::awaitable;
use crate::base::Repeat;
use crate::session::{Session, displayed};
use crate::workspace::Workspace;

/// A session to be made; await it.
#[derive(Debug)]
#[must_use = "nothing is made until this is awaited"]
pub struct CreateSession {
    workspace: Workspace,
    id: Option<SessionId>,
    profile: Result<Profile>,
    lazy: bool,
    request: Result<Option<RequestId>>,
}

impl CreateSession {
    pub(super) fn new(workspace: Workspace) -> Self {
        Self { workspace, id: None, profile: Ok(Profile::default()), lazy: false, request: Ok(None) }
    }

    /// Gives it this id. One that is taken is refused with `AlreadyExists`; nothing is ever merged or replaced.
    pub fn id(mut self, id: SessionId) -> Self {
        self.id = Some(id);
        self
    }

    /// The display name, as a person chose it. A blank one is none.
    pub fn title(self, title: impl Into<String>) -> Self {
        self.named(title.into(), TitleSource::Manual)
    }

    /// The display name, as a program chose it.
    pub fn auto_title(self, title: impl Into<String>) -> Self {
        self.named(title.into(), TitleSource::Auto)
    }

    /// The working directory. If it exists, symbolic links in it are resolved.
    pub fn cwd(mut self, cwd: impl AsRef<Path>) -> Self {
        match cwd_text(cwd.as_ref()) {
            Ok(text) => self.with(|profile| profile.cwd = Some(text)),
            Err(error) => {
                self.profile = self.profile.and(Err(error));
                self
            }
        }
    }

    /// Whom it is for. Sessions of sub-agents are left out of default lists.
    pub fn audience(self, audience: Audience) -> Self {
        self.with(|profile| profile.audience = audience)
    }

    /// The session it came from, such as the one whose agent started this one.
    pub fn parent(self, parent: SessionId) -> Self {
        self.with(|profile| profile.parent = Some(parent))
    }

    /// The channel that it is made for. Text only; see [`Bindings`](crate::state::Bindings) for a channel that finds it.
    pub fn channel(self, channel: Channel) -> Self {
        self.with(|profile| profile.channel = Some(channel))
    }

    /// The project it belongs to, by its id. Refused with `NotFound` if there is no such project.
    pub fn project(self, project: impl Into<String>) -> Self {
        let project = project.into();
        self.with(|profile| profile.project = Some(project))
    }

    /// Whatever else the host keeps there, byte for byte.
    pub fn meta(self, meta: Payload) -> Self {
        self.with(|profile| profile.meta = Some(meta))
    }

    /// Stores nothing until the first write through the handle, which then makes the session in the same commit. Give that
    /// write the id of the request, if it may be repeated.
    pub fn lazy(mut self) -> Self {
        self.lazy = true;
        self
    }

    /// Makes the creation safe to repeat from anywhere: the same id of the request opens what was made before.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request = RequestId::host(id).map(Some);
        self
    }

    /// What it is made with.
    pub(crate) fn profile(&self) -> Result<&Profile> {
        self.profile.as_ref().map_err(Error::duplicate)
    }

    /// The id that makes the creation safe to repeat, for whoever makes it as a part of more.
    pub(crate) fn take_request(&mut self) -> Result<Option<RequestId>> {
        std::mem::replace(&mut self.request, Ok(None))
    }

    fn named(self, text: String, source: TitleSource) -> Self {
        self.with(|profile| profile.title = displayed(Title { text, source }))
    }

    fn with(mut self, change: impl FnOnce(&mut Profile)) -> Self {
        if let Ok(profile) = &mut self.profile {
            change(profile);
        }
        self
    }

    async fn go(self) -> Result<Session> {
        let base = self.workspace.base();
        let request = self.request?;
        if self.lazy && request.is_some() {
            let message = "a lazy session is made by its first write; give the request id to that one";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let id = match self.id {
            Some(id) => id,
            None => SessionId::new(base.fresh_id()?)?,
        };
        let profile = self.profile?;
        if let Some(project) = &profile.project {
            crate::state::refuse_unknown(base, project).await?;
        }
        let new = NewSession {
            id,
            incarnation: Incarnation::from_bytes(base.random()?),
            state: SessionState::Active,
            profile,
        };
        if self.lazy {
            return Ok(Session::unborn(self.workspace, new));
        }
        let reference = turnkeep_core::SessionRef { id: new.id.clone(), incarnation: new.incarnation };
        let commit =
            Commit::new(base.workspace().clone())
                .request(base.request_in_workspace(
                    Repeat { id: request, fingerprint: None },
                    Some(reference.clone()),
                )?)
                .op(Op::CreateSession(new));
        let landed = base.commit(commit).await?;
        let mark = landed.receipt.sessions.into_iter().next();
        if landed.earlier {
            let made = mark.ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "what this request made was deleted since")
                    .with("session", &reference.id)
            })?;
            return super::find::open(&self.workspace, &made.session.id).await;
        }
        Ok(Session::with(self.workspace, reference, None, None))
    }
}
awaitable!(CreateSession => Result<Session>);

/// A directory as text. One that exists is named by its canonical path, so that all its names mean the same.
pub(crate) fn cwd_text(cwd: &Path) -> Result<String> {
    let path = cwd.canonicalize().or_else(|_| std::path::absolute(cwd)).map_err(|error| {
        Error::new(ErrorKind::Invalid, "the working directory is no path").with_source(error)
    })?;
    path_text(path)
}

/// A path as text, unchanged.
pub(crate) fn path_text(path: PathBuf) -> Result<String> {
    match path.into_os_string().into_string() {
        Ok(text) => Ok(text),
        Err(path) => Err(Error::new(ErrorKind::Invalid, "the working directory has no UTF-8 form")
            .with("directory", path.to_string_lossy())),
    }
}
