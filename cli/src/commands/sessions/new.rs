//! `turnkeep sessions new`

use turnkeep::SessionId;

use super::refuse_empty_title;
use crate::args::{Global, New};
use crate::failure::Outcome;
use crate::output::session::OneSession;
use crate::output::{Out, text};
use crate::{exit, open};

pub(crate) async fn run(global: &Global, new: New, out: &mut Out) -> Outcome<u8> {
    if let Some(title) = &new.title {
        refuse_empty_title(title)?;
    }
    let id = new.id.map(SessionId::new).transpose()?;
    let workspace = open::workspace(global).await?;
    let mut create = workspace.sessions().create().cwd(&global.workspace);
    if let Some(id) = id {
        create = create.id(id);
    }
    if let Some(title) = new.title {
        create = create.title(title);
    }
    let session = create.await?;
    if out.json {
        let row = session.info().await?;
        out.json(&OneSession::from(&row))?;
    } else {
        out.line(text::line(session.id().as_str()))?;
    }
    Ok(exit::OK)
}
