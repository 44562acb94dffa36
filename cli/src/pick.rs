//! Which session a person means.

use turnkeep::{ErrorKind, Session, Workspace};

use crate::args::Pick;
use crate::exit;
use crate::failure::{Failure, Outcome};

/// The session that was picked.
pub(crate) async fn session(workspace: &Workspace, pick: &Pick) -> Outcome<Session> {
    match &pick.id {
        Some(id) => by_id(workspace, id).await,
        None => last(workspace).await,
    }
}

/// The session with this id, or the only one whose id begins so.
pub(crate) async fn by_id(workspace: &Workspace, id: &str) -> Outcome<Session> {
    workspace.sessions().open_by_prefix(id).await.map_err(|error| {
        let unknown = error.kind() == ErrorKind::NotFound;
        let failure = Failure::from(error);
        if unknown { failure.hint("`turnkeep sessions list` shows what there is") } else { failure }
    })
}

/// The session that changed last.
pub(crate) async fn last(workspace: &Workspace) -> Outcome<Session> {
    match workspace.sessions().recent().await? {
        Some(session) => Ok(session),
        None => Err(Failure::told(exit::NOT_FOUND, "there is no session in this workspace yet")
            .hint("begin one with `turnkeep chat`")),
    }
}
