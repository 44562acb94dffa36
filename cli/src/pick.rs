//! Which session a person means.

use turnkeep::{Error, ErrorKind, Session, Workspace};

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

/// The session with this id, the only one whose id begins so, or else the only one with this title.
pub(crate) async fn by_id(workspace: &Workspace, id: &str) -> Outcome<Session> {
    let by_id = workspace.sessions().open_by_prefix(id).await;
    let nobody = match by_id {
        // A title may be longer than an id, or hold what no id holds.
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::TooLarge) =>
        {
            error
        }
        by_id => return Ok(by_id?),
    };
    match workspace.sessions().open_by_title(id).await {
        Err(error) if error.kind() == ErrorKind::NotFound && nobody.kind() == ErrorKind::NotFound => {
            let nobody = Error::new(ErrorKind::NotFound, "no session has this id or title");
            Err(Failure::from(nobody.with("session", id))
                .hint("`turnkeep sessions list` shows what there is"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Err(nobody.into()),
        by_title => Ok(by_title?),
    }
}

/// The session that changed last.
pub(crate) async fn last(workspace: &Workspace) -> Outcome<Session> {
    match workspace.sessions().recent().await? {
        Some(session) => Ok(session),
        None => Err(Failure::told(exit::NOT_FOUND, "there is no session in this workspace yet")
            .hint("begin one with `turnkeep chat`")),
    }
}
