//! `turnkeep sessions rename`

use super::refuse_empty_title;
use crate::args::{Global, Rename};
use crate::failure::{Failure, Outcome};
use crate::output::session::{OneSession, name};
use crate::output::{Out, text};
use crate::{exit, open, pick};

pub(crate) async fn run(global: &Global, rename: Rename, out: &mut Out) -> Outcome<u8> {
    let (id, title) = match (rename.last, rename.words.as_slice()) {
        (true, [title]) => (None, title),
        (false, [id, title]) => (Some(id), title),
        (true, _) => return Err(Failure::usage("give the title alone with --last, no id")),
        (false, _) => {
            return Err(Failure::usage("give the id of the session and its new title")
                .hint("turnkeep sessions rename ID TITLE, or turnkeep sessions rename --last TITLE"));
        }
    };
    refuse_empty_title(title)?;
    let workspace = open::workspace(global).await?;
    let session = match id {
        Some(id) => pick::by_id(&workspace, id).await?,
        None => pick::last(&workspace).await?,
    };
    session.rename(title.as_str()).await?;
    let row = session.info().await?;
    if out.json {
        out.json(&OneSession::from(&row))?;
    } else {
        out.line(format!("{} is now: {}", text::line(row.id.as_str()), name(&row)))?;
    }
    Ok(exit::OK)
}
